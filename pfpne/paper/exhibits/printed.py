"""The paper's figures as its text describes them: how many statements come out, and under which reading.

The readings, the statements and the search are in `readings`, beside this. Here every statement is tested for one
reading on seeds that the search has not seen, and the answer is drawn and put into words.
"""

from __future__ import annotations

import functools
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from pfpne.paper.claims import stats
from pfpne.paper.claims.claim_tests import has_stopped_communicating, keeps_communicating
from pfpne.paper.claims.evidence import summarize
from pfpne.paper.claims.outcomes import MAX_CUT_SHARE
from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN, decide_by_holm
from pfpne.paper.exhibits import deviations
from pfpne.paper.exhibits.readings import (
    ALGORITHM_CHOICES,
    GRID_VALUES,
    IDENTICAL_FED_PNE,
    PROBLEM_CHOICES,
    SEARCHED,
    STATEMENTS,
    STATEMENTS_FILE,
    Reading,
    Statement,
    measure_run,
)
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import PROFILES, READINGS
from pfpne.paper.run.workers import run_unordered
from pfpne.paper.show.export import Exhibit, as_csv, text_exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import DASH, LOOKS, PAGE, label, noise_in_words, title
from pfpne.rng import stream

CONFIRMATION_SEED = 0  # of the figures and of the confirmation; the search has another
MOVED_SETTINGS = {  # the settings of the statement on tuning, and the values that each is moved to, alone
    "nu_1": (0.5, 2.0),
    "rho": (0.4, 0.6),
    "c": (0.05, 0.2),
    "c_1": (0.5, 2.0),
    "Delta": (0.005, 0.02),
}
# What the two named readings choose besides noise and T. Of the readings under which most statements come out,
# "printed" is the plainest: all else is as we had it, but for who Fed-PNE's competitors are.
CHOSEN_VALUES = {"printed": {"competitors": "Fed1-UCB, FN-UCB"}, "model": {}}


def complete_reading(name: str, profile: str) -> Reading:
    """The reading "printed" or "model" at the scale of a profile."""
    scale, p = READINGS[name], PROFILES[profile]
    noise = scale.noises[0]
    problem = {} if scale.landmine_noise == noise else {"landmine's noise": "none"}
    return Reading(noise, scale.horizon if profile == "paper" else p.horizon, p.n_clients, problem, CHOSEN_VALUES[name])


# --- the confirmation ---------------------------------------------------------------------------------


def _regret(experiment, run: int, variant: str, T: int, folder: Path) -> list:
    """What `measure_run` says of one run: read where the run or the measurement is stored, else simulated now."""
    (name,) = experiment.algorithms
    base, algorithm, partition = deviations.VARIANTS[variant] if variant else (name, name, None)
    key = experiment.key(base, run)

    def make() -> list:
        result = None if variant else cache.load(key, folder)
        return measure_run(result or experiment.simulate(algorithm, run, *([partition] if partition else [])), T)

    content = {"run": key, "variant": variant, "T": T}
    return cache.rows(cache.key(content, measure_run, deviations.VARIANTS.get(variant)), make, folder)


def confirm(reading: Reading, n_runs: int, n_jobs=None, bar=None, folder: Path = RESULTS) -> pd.DataFrame:
    """Test every statement under a reading, on paired runs of another seed than the search's.

    Parameters
    ----------
    reading : Reading
        What the runs are run with.
    n_runs : int
        How many paired runs.
    n_jobs : int or str, optional
        Workers, as in pfpne.paper.run.workers.run_unordered.
    bar : callable, optional
        bar(done, total) is called as runs finish.
    folder : Path
        Where runs, and what was measured of them, are kept.

    Returns
    -------
    pandas.DataFrame
        One row per statement and comparison: id, objective, what (is compared), n, ratio (of means) with its 95 %
        bootstrap interval low, high, wins (runs in which the comparison is as stated), p_right and p_wrong (of "it is
        false" and of "it is true", sign-flip tests of the paired differences, not corrected), phase (the mean
        share of T in the last phase of the algorithm that the statement is about, if it is PF-PNE or Fed-PNE),
        other_phase (the same of the one that it is compared with).
    """
    wanted = {}
    for statement in STATEMENTS:
        for name in _algorithms(statement, reading):
            for run in range(n_runs):
                experiment = reading.experiment(statement.objective, name, CONFIRMATION_SEED, n_runs)
                wanted[statement.objective, name, run] = experiment, run, reading.variant(name), reading.T, folder
    order = sorted(wanted, key=lambda job: job[1] not in ("fn-ucb", "hct-pyxab"))  # the long ones first
    made = dict(run_unordered(_regret, [wanted[job] for job in order], n_jobs, bar))
    values = {job: made[position] for position, job in enumerate(order)}

    def column(objective: str, name: str, k: int = 0) -> np.ndarray:
        return np.array([values[objective, name, run][k] for run in range(n_runs)], dtype=float)

    rows = []
    for statement in STATEMENTS:
        rows += _tested(statement, reading, column, n_runs, n_jobs, folder)
    return pd.DataFrame(rows)


def _algorithms(statement: Statement, reading: Reading) -> list[str]:
    """The algorithms whose runs a statement compares."""
    if statement.kind == "ratio":
        return [statement.over, *statement.rivals(reading)]
    return {"grows": ["fed-pne", "pf-pne"], "stops": ["pf-pne"]}.get(statement.kind, [])


def _tested(statement: Statement, reading: Reading, column, n_runs: int, n_jobs, folder: Path) -> list[dict]:
    """The rows of one statement: one per comparison."""
    head = {"id": statement.id, "objective": statement.objective}
    if statement.kind in ("grows", "stops", "difference"):
        facts, value = _counted(statement, reading, column, n_runs)
        row = {"what": statement.kind, "n": n_runs, "ratio": value, "wins": int(np.sum(facts))}
        return [{**head, **row, "p_right": 0.0 if all(facts) else 1.0, "p_wrong": 1.0 if all(facts) else 0.0}]
    pairs = _pairs(statement, reading, column, n_runs, n_jobs, folder)
    last_phase = functools.partial(_last_phase, statement.objective, reading, n_runs, n_jobs, folder)
    subject = statement.over or ("fed-pne" if statement.kind == "global" else "pf-pne")
    others = statement.rivals(reading) if statement.kind == "ratio" else [subject] * len(pairs)
    rows = []
    for (name, a, b), other in zip(pairs, others, strict=True):
        rng = stream(CONFIRMATION_SEED, "statements", statement.id, name)
        ratio, low, high = stats.ratio_interval(a, b, rng)
        excess = [a - statement.below * b] if statement.below is not None else []
        excess += [statement.above * b - a] if statement.above is not None else []
        p = np.array([stats.sign_flip(x, rng) for x in excess])
        row = {"what": name, "n": n_runs, "ratio": ratio, "low": low, "high": high}
        row |= {"wins": int(np.all([x < 0 for x in excess], axis=0).sum())}
        p_right, p_wrong = stats.combine_p_values(p)
        row |= {"p_right": p_right, "p_wrong": p_wrong}
        rows.append({**head, **row, "phase": last_phase(subject), "other_phase": last_phase(other)})
    return rows


def _counted(statement: Statement, reading: Reading, column, n_runs: int) -> tuple[list[bool], float]:
    """(whether it is so, run by run; the mean of what is shown) of a statement that is counted and not tested."""
    if statement.kind == "difference":
        pair = (
            reading.experiment(f, "pf-pne", CONFIRMATION_SEED, n_runs) for f in (statement.objective, statement.than)
        )
        own, other = (np.array([e.problem(run).Delta for run in range(n_runs)]) for e in pair)
        return list(own > other), float(own.mean() / other.mean())
    pf = column(statement.objective, "pf-pne", 1)
    if statement.kind == "grows":
        fed = column(statement.objective, "fed-pne", 1)
        return list(keeps_communicating(fed, pf, reading.T)), float(fed.mean() / reading.T)
    rounds = column(statement.objective, "pf-pne", 2)
    return list(has_stopped_communicating(rounds, pf, reading["H_0"], reading.T)), float(pf.mean() / reading.T)


def _pairs(statement: Statement, reading: Reading, column, n_runs: int, n_jobs, folder: Path) -> list[tuple]:
    """(name, a, b) of each comparison of a statement: paired regrets (n,) whose ratio a / b is bounded."""
    if statement.kind == "ratio":
        a = column(statement.objective, statement.over)
        names = statement.rivals(reading)
        return [(f"{_label(statement.over)} / {_label(n)}", a, column(statement.objective, n)) for n in names]
    name = "fed-pne" if statement.kind == "global" else "pf-pne"
    experiment = reading.experiment(statement.objective, name, CONFIRMATION_SEED, n_runs)
    if statement.kind == "global":
        rows = summarize(replace(experiment, global_regret=True), n_jobs, folder)
        return [("global / local", rows["global_regret"].to_numpy(), rows["regret"].to_numpy())]
    ours = summarize(experiment, n_jobs, folder)["regret"].to_numpy()
    moved = [(setting, value) for setting, values in MOVED_SETTINGS.items() for value in values]
    return [
        (
            f"{setting} = {value:g}",
            summarize(replace(experiment, settings={setting: value}), n_jobs, folder)["regret"].to_numpy(),
            ours,
        )
        for setting, value in moved
    ]


def _last_phase(objective: str, reading: Reading, n_runs: int, n_jobs, folder: Path, name: str) -> float:
    """The mean share of T in the last phase of PF-PNE or Fed-PNE; 0 for an algorithm without such phases."""
    if name not in ("pf-pne", "fed-pne", IDENTICAL_FED_PNE):
        return 0.0
    return float(
        summarize(reading.experiment(objective, name, CONFIRMATION_SEED, n_runs), n_jobs, folder)["last_phase"].mean()
    )


def _label(name: str) -> str:
    return "Fed-PNE with identical clients" if name == IDENTICAL_FED_PNE else label(name)


def verdicts(comparisons: pd.DataFrame) -> pd.DataFrame:
    """One row per statement: shown, refuted or open, by `decide_by_holm` over the statements of a reading.

    A statement is shown if all its comparisons are; it is refuted if one of them is. Where the algorithm that a
    statement is about spends more than half of T in one phase that T cuts, a ratio says more of T than of the
    algorithms, and the statement is open. other_phase: the largest of the algorithms that it is compared with, which
    the rule leaves out. by_design: whether the definitions leave no other outcome; such a statement is shown, and
    counted apart.
    """
    rows = []
    for statement in STATEMENTS:
        rows_of_one = comparisons[comparisons["id"] == statement.id]
        worst = rows_of_one.loc[_distance(rows_of_one["ratio"], statement).idxmax()]
        p_right, p_wrong = stats.combine_p_values(rows_of_one[["p_right", "p_wrong"]].to_numpy())
        row = {"id": statement.id, "objective": statement.objective, "what": worst["what"], "n": int(worst["n"])}
        row |= {name: worst.get(name) for name in ("ratio", "low", "high", "wins", "phase")}
        row |= {"other_phase": rows_of_one.get("other_phase", pd.Series(0.0)).max(), "by_design": statement.by_design}
        rows.append(row | {"p_right": p_right, "p_wrong": p_wrong})
    return decide_by_holm(pd.DataFrame(rows))


def _distance(ratio: pd.Series, statement: Statement) -> pd.Series:
    """How far a ratio is from what is stated, on a logarithmic scale; the largest is the comparison that decides."""
    if statement.below is None and statement.above is None:
        return ratio * 0
    above = np.log(ratio / statement.below) if statement.below is not None else -np.inf
    below = np.log(statement.above / ratio) if statement.above is not None else -np.inf
    return pd.Series(np.maximum(above, below), index=ratio.index)


# --- the answer ---------------------------------------------------------------------------------------


def at_first_values(table: pd.DataFrame, M: int) -> pd.DataFrame:
    """The readings of the search in which only noise and T move."""
    first = table["M"] == M
    for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items():
        first &= table[name] == values[0]
    return table[first]


def contributions(table: pd.DataFrame) -> pd.DataFrame:
    """What each value changes: choice, value, n (pairs of readings), change (of the statements held, the mean).

    Each reading with the value is compared with the one that has the first value instead and everything else the same.
    """
    choices = ["noise", "T", "M", *PROBLEM_CHOICES, *ALGORITHM_CHOICES]
    held = table.set_index(choices)["held"]
    rows = []
    for name in choices[2:]:
        values = table[name].unique()
        for value in values[1:]:
            there = table[table[name] == value]
            keys = [tuple(row) for row in there[choices].assign(**{name: values[0]}).itertuples(index=False)]
            pairs = [(x, held[key]) for x, key in zip(there["held"], keys, strict=True) if key in held.index]
            rows.append((name, value, len(pairs), float(np.mean([x - y for x, y in pairs]))))
    return pd.DataFrame(rows, columns=["choice", "value", "n", "change"])


def in_short(tested: pd.DataFrame, printed: Reading) -> list[str]:
    """What README says: how many statements come out under the reading "printed", and which are refuted.

    tested: `verdicts` of that reading.
    """
    rivals = printed["competitors"].replace(", ", " and ")
    return [
        f'Under "printed" ({noise_in_words(printed.noise)}, T = {printed.T:,}, M = {printed.M}; {rivals} as Fed-PNE\'s '
        f'"competitors"; {tested["n"].max()} paired runs): {_counts_by_design(tested)}.',
        f"{KINDS_IN_WORDS['smallest']}: {_by_verdict(tested, ['smallest'])}.{_if_rivals_phases_counted(tested)}",
        f"Statements that were refuted: {_kinds_with(tested, REFUTED) or 'none'}.",
    ]


def _if_rivals_phases_counted(tested: pd.DataFrame) -> str:
    """On which objectives PF-PNE would still be first if a rival's cut phase counted as PF-PNE's own; "" if on all."""
    first = tested[tested["id"].map(_kind).eq("smallest") & tested["verdict"].eq(SHOWN)]
    kept = first.loc[first["other_phase"] <= MAX_CUT_SHARE, "objective"]
    if len(kept) == len(first):
        return ""
    return (
        f" Only on {', '.join(map(title, kept)) or 'none'}, if a *rival* that spends more than half of T in one"
        " unfinished phase makes it open, too."
    )


def answer(table: pd.DataFrame, printed: Reading, tested: pd.DataFrame, comparisons: pd.DataFrame) -> list[str]:
    """The whole answer in sentences. table: `search`; tested, comparisons: `verdicts`, `confirm` of "printed"."""
    N, best = len(SEARCHED), table["held"].max()
    by_scale = at_first_values(table, printed.M).set_index(["noise", "T"])["held"]
    never = [s for s in SEARCHED if not table["which"].str.split().map(lambda which, s=s: s.id in which).any()]
    low = {noise: int(by_scale[noise].max()) for noise in GRID_VALUES["paper"]["noise"] if noise in by_scale.index}
    numbers = ", ".join(f"{count} with {noise_in_words(noise)}" for noise, count in low.items())
    in_means = sum(holds_in_means(statement, comparisons) for statement in SEARCHED)
    never_in_words = "; ".join(f"{KINDS_IN_WORDS[_kind(s.id)]} ({title(s.objective)})" for s in never)
    sentences = in_short(tested, printed)
    sentences += [
        f"Open: {_kinds_with(tested, OPEN) or 'nothing'}.",
        f"For each of {len(table):,} readings, the search counts how many of {N} statements hold in the means. At most "
        f'{best} do, in {(table["held"] == best).sum()} readings. Under "printed" it is '
        f"{int(_row(table, printed)['held'])} in the search's two runs, and {in_means} in the {tested['n'].max()} runs "
        f"of the test. Under no reading does this hold: {never_in_words or 'each holds under some'}.",
        f"The noise matters. At the best T, and with all else as in this package, this many of {N} hold: {numbers}.",
    ]
    turned = tested[
        (tested["other_phase"] > MAX_CUT_SHARE) & (tested["phase"] <= MAX_CUT_SHARE) & (tested["verdict"] != OPEN)
    ]
    if len(turned):
        sentences.append(
            "A statement is open if its algorithm spends more than half of T in one phase that T cuts. If the same "
            f"rule held for the algorithm that it is compared with, {len(turned)} more would be open: "
            f"{_by_kind(turned)}."
        )
    moved = comparisons[comparisons["id"].str.startswith("settings-")].groupby("objective", sort=False)["ratio"]
    change = moved.agg(lambda ratio: max(ratio.max(), 1 / ratio.min()))
    within = ", ".join(title(f) for f in change.index[change < 2])
    return [
        *sentences,
        "Moving one setting changes PF-PNE's mean regret by at most this factor: "
        f"{', '.join(f'{title(f)} {x:.2g}' for f, x in change.items())}. We call a factor below 1.25 little. "
        f'Elsewhere our "much" begins at 2. If less were little, it would be little on {within or "none"}.',
    ]


def holds_in_means(statement: Statement, comparisons: pd.DataFrame) -> bool:
    """Whether a statement is so in the means over the runs of the confirmation."""
    rows = comparisons[comparisons["id"] == statement.id]
    if statement.kind in ("grows", "stops", "difference"):
        return bool((rows["wins"] == rows["n"]).all())
    return all(statement.holds(ratio) for ratio in rows["ratio"])


def _counts_by_design(tested: pd.DataFrame) -> str:
    """How many statements are true by construction, and how many of the others are shown, refuted and open."""
    by_design = tested["by_design"].astype(bool)
    return (
        f"of {len(tested)} statements, {by_design.sum()} are true by construction; of the others, "
        f"{_counts_in_words(tested[~by_design])}"
    )


KINDS_IN_WORDS = {  # a kind of statement in a few words
    "smallest": "PF-PNE has the smallest regret of the five",
    "depends": "identical clients halve Fed-PNE's regret",
    "differ": "clients differ more than on Himmelblau",
    "fed-better": "Fed-PNE beats its competitors",
    "fed-far": "Fed-PNE has twice PF-PNE's regret",
    "global": "Fed-PNE does better against the global optimum",
    "settings": "PF-PNE's regret changes little with one setting",
    "doublesine-hct": "PF-PNE beats HCT",
    "doublesine-hct-slightly": "PF-PNE is only slightly better than HCT",
    "doublesine-fed": "PF-PNE has half of Fed-PNE's regret",
    "ackley-hct": "PF-PNE is similar to HCT",
    "ackley-fed": "PF-PNE is similar to Fed-PNE",
    "fed-grows": "Fed-PNE goes on communicating",
    "pf-stops": "PF-PNE stops communicating",
}


def _kind(statement: str) -> str:
    """The kind of a statement, a key of KINDS_IN_WORDS: its id without the objective."""
    return max((kind for kind in KINDS_IN_WORDS if statement.startswith(kind)), key=len)


def _by_verdict(tested: pd.DataFrame, kinds: list[str]) -> str:
    """The verdicts of some kinds of statements with the objectives: "shown on Garland; open on Landmine"."""
    rows = tested[tested["id"].map(_kind).isin(kinds)]
    groups = rows.groupby("verdict", sort=False)["objective"]
    return "; ".join(f"{verdict} on {', '.join(map(title, objectives))}" for verdict, objectives in groups)


def _kinds_with(tested: pd.DataFrame, verdict: str) -> str:
    """What has a verdict, in a few words, with the objectives."""
    return _by_kind(tested[tested["verdict"] == verdict])


def _by_kind(rows: pd.DataFrame) -> str:
    """These statements in a few words, each kind with its objectives."""
    groups = rows.groupby(rows["id"].map(_kind), sort=False)["objective"]
    return "; ".join(f"{KINDS_IN_WORDS[kind]} ({', '.join(map(title, objectives))})" for kind, objectives in groups)


NOT_DRAWN = {  # algorithms that the paper's figures leave out, and what they are
    "pe": "PE, PF-PNE's second stage alone,",
    "hoo": "HOO, a single-client search,",
    "blin": "BLiN, another,",
}


def pe_and_hoo_in_words(ranking: pd.DataFrame) -> str:
    """The algorithms of NOT_DRAWN against PF-PNE in a sentence; ranking: ranking_printed.csv, whose tests it reads."""
    rows = ranking[ranking["algorithm"].isin(NOT_DRAWN)].assign(phase=np.nan)
    decided = decide_by_holm(rows.rename(columns={"p_less": "p_right", "p_more": "p_wrong"}))
    said = []
    for name, what in NOT_DRAWN.items():
        objectives = {
            verdict: [*map(title, group["objective"])]
            for verdict, group in decided[decided["algorithm"] == name].groupby("verdict")
        }
        parts = [
            f"{word} on {', '.join(objectives[verdict])}"
            for verdict, word in ((SHOWN, "less"), (REFUTED, "more"))
            if verdict in objectives
        ]
        said.append(f"{what} has {', '.join(parts) or 'neither less nor more for certain'}")
    return (
        f"Not in its figures, regret against PF-PNE's ({ranking['runs'].max():.0f} paired runs, Holm's correction; open"
        f" where nothing is said): {'; '.join(said)}."
    )


def model_in_words(statements: pd.DataFrame) -> str:
    """The paper's own reward model in a sentence. statements: statements.csv."""
    model, reading = statements[statements["reading"] == "model"], READINGS["model"]
    return (
        f"With the paper's own reward model ({noise_in_words(reading.noises[0])}; no noise on Landmine) at"
        f" T = {reading.horizon:,}: {_counts_in_words(model[~model['by_design'].astype(bool)])}."
        f" {KINDS_IN_WORDS['smallest']}: {_by_verdict(model, ['smallest'])}."
    )


def longer_model_in_words(table: pd.DataFrame) -> str:
    """Where PF-PNE is first in the longest runs under the paper's own reward model. table: `search`."""
    noise, longest = READINGS["model"].noises[0], max(GRID_VALUES["paper"]["T"])
    at_first = at_first_values(table, GRID_VALUES["paper"]["M"][0])
    there = at_first[(at_first["noise"].astype(str) == str(noise)) & (at_first["T"] == longest)]
    held = there["which"].iloc[0].split() if len(there) else []
    first = [title(s.objective) for s in SEARCHED if _kind(s.id) == "smallest" and s.id in held]
    return (
        f"With that reward model at T = {longest:,}, in the search's two runs, which test nothing, PF-PNE is first on"
        f" {', '.join(first) or 'none of the four'}."
    )


def hct_in_words(ranking: pd.DataFrame) -> str:
    """What the choice of Fed-PNE's competitors leaves out, in a sentence. ranking: ranking_printed.csv."""
    regret = ranking.pivot(index="algorithm", columns="objective", values="mean")
    ratio = regret.loc["fed-pne"] / regret.loc["hct-pyxab"]
    values = " and ".join(f"{ratio[name]:.2f} on {title(name)}" for name in ("garland", "rastrigin"))
    return (
        "This reading does not count HCT among Fed-PNE's competitors. Fed-PNE's mean regret is that of HCT times "
        f"{values}."
    )


def in_words(table: pd.DataFrame, printed: Reading, tested: pd.DataFrame, comparisons: pd.DataFrame) -> Exhibit:
    """The answer as a text of its own, which its page shows."""
    text = "".join(f"- {sentence}\n" for sentence in answer(table, printed, tested, comparisons))
    return text_exhibit("readings_in_words", "Whether the paper's figures come out as its text says.", text)


def contributions_in_words(table: pd.DataFrame) -> pd.DataFrame:
    """`contributions`, as the page shows them."""
    shown = contributions(table).rename(columns={"choice": "Choice", "value": "Moved to", "n": "Pairs of readings"})
    shown["Moved to"] = [
        f"{value:,}" if isinstance(value, (int, np.integer)) else str(value) for value in shown["Moved to"]
    ]
    shown["Change of the statements that hold"] = [f"{change:+.1f}" for change in shown.pop("change")]
    return shown


def untested() -> pd.DataFrame:
    """The sentences about the figures that no curve can test, and why."""
    rows = tomllib.loads(STATEMENTS_FILE.read_text(encoding="utf-8"))["untested"]
    return pd.DataFrame([{"In the paper": f'{r["place"]}: "{r["quote"]}"', "Why": r["why"]} for r in rows])


def _row(table: pd.DataFrame, reading: Reading) -> pd.Series:
    """The row of a reading in the table of the search."""
    mask = np.ones(len(table), dtype=bool)
    for name, value in reading.choices.items():
        mask &= table[name].astype(str) == str(value)
    return table[mask].iloc[0]


@our_style()
def draw(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the answer: the statements that hold by noise and T, and what each other choice changes there.

    Parameters
    ----------
    table : pandas.DataFrame
        The readings, as `readings.search` gives them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    scales, printed = GRID_VALUES[p.profile], complete_reading("printed", p.profile)
    M, N = scales["M"][0], len(SEARCHED)
    grid = at_first_values(table, M).pivot(index="noise", columns="T", values="held")
    grid = grid.loc[list(scales["noise"]), list(scales["T"])]
    moved = _one_choice_moved(table[(table["noise"] == printed.noise) & (table["T"] == printed.T)], M)
    names = [f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}" for name, value, _ in moved]
    counts = [held for *_, held in moved]
    caption = (
        f"How many of the paper's {N} statements about its figures hold in the means, by what it leaves open. Left:"
        f" noise and T, with M = {M}, shifts of 0.1 of the domain's width, random cells and everything else as"
        ' elsewhere in this package; framed, the reading "printed". Right: the same count at that noise and T when one'
        " more choice is moved (line: none is). Means of two runs, or of one where another problem is drawn; the search"
        " shows where to look, and tests nothing."
    )

    figure, ((left, right),) = new_figure((PAGE, 2.7), columns=2, width_ratios=(1, 1.05))
    left.imshow(grid, cmap="Greens", vmin=0, vmax=N, aspect="auto")
    for (i, j), held in np.ndenumerate(grid.to_numpy()):
        look = {"ha": "center", "va": "center", "fontsize": 9, "color": "white" if held > 0.6 * N else "black"}
        left.text(j, i, f"{held:.0f}", **look)
    i, j = list(grid.index).index(printed.noise), list(grid.columns).index(printed.T)
    frame = {"fill": False, "edgecolor": LOOKS["pf-pne"].color, "linewidth": 2}
    left.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, **frame))
    left.set_yticks(range(len(grid)), [noise_in_words(noise) for noise in grid.index])
    left.set_xticks(range(len(grid.columns)), [f"{T:,}" for T in grid.columns])
    left.set(xlabel="evaluations per client $T$", title=f"statements that hold, of {N}")
    left.tick_params(length=0)
    for spine in left.spines.values():
        spine.set_visible(False)
    count_if_none = grid.loc[printed.noise, printed.T]
    right.axvline(count_if_none, color="0.5", linewidth=0.8)
    right.hlines(range(len(moved)), count_if_none, counts, color="0.7", linewidth=1)
    right.plot(counts, range(len(moved)), "o", color=LOOKS["pf-pne"].color, markersize=4)
    right.set_yticks(range(len(moved)), names)
    right.set(ylim=(len(moved) - 0.5, -0.5), xlim=(0, N))
    right.set(xlabel="statements that hold", title="if one more choice is moved")
    return figure_exhibit(figure, "readings", caption, table, digits=5)


def _one_choice_moved(table: pd.DataFrame, M: int) -> list[tuple]:
    """(choice, value, statements held) of the readings that differ in one choice from the first value of each."""
    first_values = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()} | {"M": M}
    moved = []
    for name in ("M", *PROBLEM_CHOICES, *ALGORITHM_CHOICES):
        others = [table[other] == value for other, value in first_values.items() if other != name]
        rows = table[np.logical_and.reduce(others)]
        moved += [(name, row[name], row["held"]) for _, row in rows.iterrows() if row[name] != first_values[name]]
    return moved


def tabulate(tested: dict[str, pd.DataFrame], comparisons: dict[str, pd.DataFrame], p: Parameters) -> Exhibit:
    """Tabulate every statement with its verdict under each reading.

    Parameters
    ----------
    tested, comparisons : dict
        {reading: what `verdicts`, and what `confirm` returns}.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The table as Markdown, and both tables of all readings as CSV.
    """
    rows = []
    for statement in STATEMENTS:
        row = {
            "In the paper": (
                f"{statement.place}: \N{LEFT DOUBLE QUOTATION MARK}{statement.quote}\N{RIGHT DOUBLE QUOTATION MARK}"
            )
        }
        row |= {"Objective": title(statement.objective), "Tested": statement.tested, "Ours": statement.ours or DASH}
        for name, table in tested.items():
            verdict = table.set_index("id").loc[statement.id]
            row[f"\N{LEFT DOUBLE QUOTATION MARK}{name}\N{RIGHT DOUBLE QUOTATION MARK}"] = _verdict_in_words(
                statement, verdict
            )
        rows.append(row)
    cells = pd.DataFrame(rows)
    all_tested = pd.concat([table.assign(reading=name) for name, table in tested.items()], ignore_index=True)
    all_comparisons = pd.concat([table.assign(reading=name) for name, table in comparisons.items()], ignore_index=True)
    counts = []
    for name, table in tested.items():
        reading = complete_reading(name, p.profile)
        counts.append(
            f'Under "{name}" ({noise_in_words(reading.noise)}, T = {reading.T:,}, M = {reading.M}), where Fed-PNE\'s'
            f" competitors are {reading['competitors']}: {_counts_by_design(table)}."
        )
    caption = (
        f"The paper's {len(STATEMENTS)} statements about its figures, tested on {p.n_runs} paired runs that the search"
        " has not seen, with Holm's correction over the statements of a reading and both sides."
        f" {' '.join(counts)} A number is a"
        ' ratio of mean regrets, in the comparison that is furthest from what is stated. "Ours" is what the paper'
        " does not say and we had to decide."
    )
    markdown = cells.to_markdown(index=False)
    files = {"statements.csv": as_csv(all_tested), "statements_comparisons.csv": as_csv(all_comparisons)}
    files["statements.md"] = f"{markdown}\n\n{caption}\n".encode()
    return Exhibit("statements", caption, files, {"text/markdown": markdown})


def _counts_in_words(table: pd.DataFrame) -> str:
    """The number of statements that are shown, refuted and open."""
    return ", ".join(f"{(table['verdict'] == verdict).sum()} {verdict}" for verdict in (SHOWN, REFUTED, OPEN))


def _verdict_in_words(statement: Statement, row: pd.Series) -> str:
    """A verdict with the number that decides it."""
    if statement.kind in ("grows", "stops"):
        words = "true by construction" if row["by_design"] else row["verdict"]
        return f"{words} ({row['wins']} of {row['n']} runs)"
    if statement.kind == "difference":
        return f"{row['verdict']} (ratio {row['ratio']:.2g})"
    cut = f"; {row['phase']:.0%} of T is one phase" if row["phase"] > MAX_CUT_SHARE else ""
    words = "true by construction" if row["by_design"] else row["verdict"]
    return f"{words} ({row['what']} = {row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]{cut})"
