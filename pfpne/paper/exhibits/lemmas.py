"""The paper's lemmas, Corollary 3.1, and its remarks on speed and proof, checked in runs.

| paper                 | module      | what is counted                                                              |
|-----------------------|-------------|------------------------------------------------------------------------------|
| Lemma A.3             | kept_nodes  | nodes that the server keeps, within 6 nu_1 rho^h of f-bar*                   |
| Lemma A.4             | kept_nodes  | nodes that a client keeps alone, within 11 nu_1 rho^h + Delta of f_m*        |
| Lemma A.4, first case | kept_nodes  | a client whose optimum is eliminated although every premise holds            |
| Corollary 3.1         | rates       | the growth of regret with T, for Delta <= C_3 (log(MT) / T)^(1/(d+2))        |
| Section A.1           | rates       | Fed-PNE against single-client searches, and the cost of rounding tau_h up    |
| Table 1, HOO          | hoo_and_hct | which difference between HOO and HCT decides on rastrigin                    |

Every answer is "shown", "refuted" or "open". It is open if the runs show neither, or if a premise fails.
"""

import math
from pathlib import Path

import pandas as pd

from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN
from pfpne.paper.exhibits.hoo_and_hct import mixtures_in_words, run_mixtures, three_digits
from pfpne.paper.exhibits.kept_nodes import (
    CASE_COLUMNS,
    EXCUSED,
    HOLDS,
    HOLDS_ANYWAY,
    LEMMA_CASES,
    REFUTING,
    VACUOUS,
    count_cases,
    count_lemmas,
    run_biased_problem,
)
from pfpne.paper.exhibits.rates import (
    SHRINKING_DELTA_OBJECTIVES,
    compare_speed,
    exponents_with_shrinking_Delta,
    measure_shrinking_Delta,
)
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.show.export import Exhibit, as_markdown, text_exhibit
from pfpne.paper.show.style import label, noise_in_words, title

MANAGEABLE_SHARE = 0.1  # the share of T that counts as "manageable" here; the paper gives no number


def judge_lemmas(
    case_counts: pd.DataFrame, biased_runs: pd.DataFrame, slopes: pd.DataFrame, speed: pd.DataFrame
) -> pd.DataFrame:
    """One row per statement (statement, runs, verdict, measured), from the tables of the other functions.

    case_counts: the table of `count_cases` by lemma, constants and Delta. biased_runs, slopes, speed: the tables of
    `run_biased_problem`, `exponents_with_shrinking_Delta` and `compare_speed`.
    """
    rows = []
    for row in case_counts.to_dict("records"):
        decided = sum(row[name] for name in LEMMA_CASES if name != VACUOUS)
        fails = ", ".join(f"{name} at {row[key]}" for key, name in PREMISES.items() if row[key])
        words = f"{row['share']:.0%} of the nodes kept are within the bound. Of {decided} depths with a bound below 1, "
        words += "; ".join(IN_WORDS[name].format(row[name]) for name in LEMMA_CASES if row[name] and name != VACUOUS)
        words += f". What fails: {fails}." if fails else "."
        given_Delta = "the true Delta" if row["Delta"] == "own" else f"Delta = {row['Delta']}"
        runs = f"{row['constants']} c and c_1, {given_Delta}"
        rows.append((f"Lemma {row['lemma']}", runs, row["verdict"], words if decided else f"{VACUOUS.capitalize()}."))
    for M, runs in biased_runs.groupby("n_clients"):
        final = runs[runs["T"] == runs["T"].max()]
        outside = int((final["kept"] - final["within"]).sum())
        head = f"the constructed problem, M = {M}"
        words = (
            f"Of {final['kept'].sum()} nodes kept at depths that the longest runs finish, {outside} break the bound."
        )
        rows.append(("Lemma A.4", head, REFUTED if outside else SHOWN, words))
        rate = runs.groupby("T")["pf-pne, last"].min()
        words = (
            f"In the last quarter of a run client 1 loses {rate.iloc[-1]:.2f} per pull with T = {rate.index[-1]:,}, "
        )
        words += (
            f"and {rate.iloc[0]:.2f} with T = {rate.index[0]:,}. With PE alone it loses {final['pe, last'].max():.2g}."
        )
        linear = rate.iloc[-1] > 0 and rate.iloc[-1] >= rate.iloc[0]
        rows.append(("Theorem 3.1, regret sublinear in T", head, REFUTED if linear else OPEN, words))
    for row in slopes.to_dict("records"):
        words = f"The exponent of T is {_interval(row['slope'], row['low'], row['high'])}; "
        words += f"{row['allowed']:.2f} is allowed."
        words += f" {row['undecidable_reason']}." if row["undecidable_reason"] else ""
        runs = f"{title(row['objective'])}, {noise_in_words(row['noise'])}"
        rows.append(("Corollary 3.1, Delta shrinking with T", runs, row["verdict"], words))
    for clients, group in speed.groupby("clients", sort=False):
        for rival, part in group.groupby("rival", sort=False):
            ratios = [
                f"{title(x['objective'])} {_interval(x['ratio'], x['low'], x['high'])}" for _, x in part.iterrows()
            ]
            reached = [*part["verdict"]]
            verdict = REFUTED if REFUTED in reached else OPEN if OPEN in reached else SHOWN
            words = f"Regret over that of {label(rival)}: {', '.join(ratios)}."
            rows.append((f"Section A.1, Fed-PNE faster than {label(rival)}", f"{clients} clients", verdict, words))
    excess = speed["rounding_excess"]
    words = f"{excess.min():.3%} to {excess.max():.3%} of T is drawn beyond tau_h. "
    words += f"The limit of {MANAGEABLE_SHARE:.0%} is ours."
    verdict = SHOWN if excess.max() <= MANAGEABLE_SHARE else REFUTED
    rows.append(("Section A.1, unspent budget manageable", "Fed-PNE, all of these", verdict, words))
    return pd.DataFrame(rows, columns=["statement", "runs", "verdict", "measured"])


IN_WORDS = {
    HOLDS: "it holds at {} where all premises hold",
    HOLDS_ANYWAY: "it holds at {} where a premise fails",
    EXCUSED: "it fails at {} where a premise fails",
    REFUTING: "it fails at {} where all premises hold",
}
PREMISES = {"good": "the good event", "smooth": "smoothness", "valid": "Delta"}


def _interval(value: float, low: float, high: float) -> str:
    return f"{value:.2f}" if math.isnan(low) else f"{value:.2f} [{low:.2f}, {high:.2f}]"


def tabulate(problems: pd.DataFrame, p: Parameters, folder: Path = RESULTS_FOLDER) -> Exhibit:
    """Check all lemmas and remarks, and tabulate the verdicts.

    Parameters
    ----------
    problems : pandas.DataFrame
        The first table of pfpne.paper.exhibits.assumptions.measure_assumptions.
    p : Parameters
        The notebook's parameters.
    folder : Path
        The folder of stored runs and counts.

    Returns
    -------
    Exhibit
        lemmas.md has the verdicts and the comparison of HOO with HCT; lemmas.csv and lemmas_*.csv have the numbers.
    """
    nodes = count_lemmas(p, folder)
    biased_runs, mixtures, speed = run_biased_problem(), run_mixtures(p, folder), compare_speed(p, folder)
    shrinking = measure_shrinking_Delta(problems, p, folder)
    slopes = exponents_with_shrinking_Delta(shrinking, p)
    table = judge_lemmas(count_cases(nodes, ["lemma", "constants", "Delta"]), biased_runs, slopes, speed)
    caption = (
        f"What the paper's lemmas, corollary and remarks say, counted: M = {p.n_clients}, T = {p.horizon:,}, shift"
        f" {p.shift:g}, {p.n_runs} runs, on {', '.join(map(title, ONE_PER_DIMENSION))} (the corollary on"
        f" {' and '.join(map(title, SHRINKING_DELTA_OBJECTIVES))}). A lemma is shown where it holds and all of its "
        "premises do, refuted"
        " where it fails although they do, and open where a premise fails or the bound is 1 or more. A"
        " count is over the depths of all runs. Ratios and exponents have bootstrap 95 % intervals."
    )
    forms = {"regret": three_digits, "depth": "{:.1f}".format, "deepest": "{:.1f}".format, "nodes": "{:,.0f}".format}
    shown = mixtures.assign(**{name: mixtures[name].map(form) for name, form in forms.items()})
    names = {"mixture": "Search", "regret": "R(T)/M", "depth": "mean depth", "deepest": "deepest", "nodes": "nodes"}
    text = (
        f"{as_markdown(table.rename(columns=str.capitalize))}\n{caption}\n\n"
        f"**HOO against HCT on {title('rastrigin')}.** {mixtures_in_words(mixtures)}\n\n"
        f"{as_markdown(shown.rename(columns=names))}"
    )
    tables = {
        "": table,
        "_nodes": count_cases(nodes, CASE_COLUMNS),
        "_biased": biased_runs,
        "_shrinking": shrinking,
        "_speed": speed,
    }
    numbers = {f"lemmas{name}": part for name, part in (tables | {"_mixtures": mixtures}).items()}
    return text_exhibit("lemmas", caption, text, numbers)
