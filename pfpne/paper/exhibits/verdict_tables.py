"""The verdicts on the claims as tables: every claim, the primary family, the times behind the claims on time.

In the tables read here, the column "noise" has the name of the noise, or "landmine".
"""

import pandas as pd

from pfpne.paper.claims.claim_tests import LARGE_FACTOR
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.outcomes import MAX_LAST_PHASE_SHARE
from pfpne.paper.claims.verdicts import ALPHA, PF_PNE_DELTAS, evaluate_claims, primary_family, times_by_objective
from pfpne.paper.exhibits.findings import VERDICT_GROUPS, count_groups
from pfpne.paper.run.selections import PAPER_ALGORITHMS
from pfpne.paper.show.export import Exhibit, as_latex, as_markdown, in_latex, table_exhibit
from pfpne.paper.show.style import DASH, label, noise_in_words, title

OURS_PREFIX = "ours, on "  # before the place in the paper, for our own questions
EVERY_NOISE = "whatever the noise"
VERDICT_LEGEND = (  # how the verdicts are to be read
    "We chose M, T, the noise and the shift, because the paper does not state them. We also chose what its words mean "
    "in numbers. The brackets say what decides. For most claims this is the part that is furthest from the claim, "
    "as a ratio of mean regrets or a mean slope. For a counted claim it is what refutes it. Where nothing is decided, "
    "it is the reason. With identical clients the true Delta is 0, and PF-PNE then never leaves its federated stage."
)


def tabulate_claims(study: Study) -> Exhibit:
    """Tabulate the verdicts on all claims.

    Parameters
    ----------
    study : Study
        The runs that the claims are tested on.

    Returns
    -------
    Exhibit
        The table, as Markdown and LaTeX. claims.csv has one row per verdict, claims_comparisons.csv one per comparison,
        and claims_runs.csv the violations of each comparison, run by run.
    """
    return show_claims(study, *evaluate_claims(study))


def show_claims(study: Study, verdicts: pd.DataFrame, comparisons: pd.DataFrame, violations: pd.DataFrame) -> Exhibit:
    """Show the three tables of `pfpne.paper.claims.verdicts.evaluate_claims` as `tabulate_claims` does.

    study: the study that was evaluated; only its scale is read.
    """
    caption = (
        f"The paper's claims, tested with M = {study.n_clients} clients, T = {study.horizon:,}, shift {study.shift:g} "
        f"and up to {study.claim_runs} paired runs ({study.sweep_runs} where many values are swept). Sign-flip tests"
        f" of paired differences, at level {ALPHA:g} for the k claims of one family in one column (one noise, one "
        "kind of cells, one Delta for PF-PNE): each p-value is multiplied by k, because one of the two hypotheses of "
        "a claim is true and only that one can be rejected wrongly. The tests suppose that, on the border of a "
        "claim, a difference is as likely as its opposite. Claims about every run are counted, not tested. "
        f"{VERDICT_LEGEND} "
        f"PF-PNE is given the paper's Delta = {PF_PNE_DELTAS[0]}, and cells are random. Where the true "
        f"Delta or cyclic cells lead to another verdict, it is given after the first. {tally(verdicts)}"
    )
    columns = ["id", "whose", "noise", "cells", "Delta", "verdict", "measured"]
    measured = verdicts[columns].assign(noise=verdicts["noise"].map(noise_in_words))
    details = as_markdown(measured.rename(columns=str.capitalize).rename(columns={"Id": "Claim"}))
    strings, page = claims_as_strings(verdicts), f"\n## What was measured\n\n{details}"
    csv_tables = {"claims": verdicts, "claims_comparisons": comparisons, "claims_runs": violations}
    return table_exhibit("claims", caption, strings, csv_tables, claims_in_latex(strings, caption), page, details)


def tabulate_primary(study: Study) -> Exhibit:
    """Tabulate the ten cases of the main figure on random cells: see pfpne.paper.claims.verdicts.primary_family.

    Parameters
    ----------
    study : Study
        The runs that the claims are tested on.

    Returns
    -------
    Exhibit
        The table, and as CSV one row per case and one for all.
    """
    table = primary_family(study)
    overall = table[table["objective"] == "all"].iloc[0]
    low, high = overall["improvement_low"], overall["improvement_high"]
    caption = (
        f"Whether PF-PNE has the smallest regret of the paper's five: M = {study.n_clients} clients, T ="
        f" {study.horizon:,}, random cells, {study.claim_runs} paired runs, sign-flip tests with Holm's correction over"
        " the rows. The ratio is that of mean regrets to the rival with the smallest, with a 95 % bootstrap interval;"
        " the probability is that of a run of PF-PNE having less regret than one of that rival. Over all rows it is"
        f" {overall['improvement']:.2f} [{low:.2f}, {high:.2f}], by a bootstrap over runs within each row."
    )
    return table_exhibit("claims_primary", caption, primary_as_strings(table), {"claims_primary": table})


def primary_as_strings(table: pd.DataFrame) -> pd.DataFrame:
    """Put the primary family into strings, as the page on the claims shows it.

    Parameters
    ----------
    table : pandas.DataFrame
        As `pfpne.paper.claims.verdicts.primary_family` returns it.

    Returns
    -------
    pandas.DataFrame
        One row per objective and noise.
    """
    rows = []
    for row in table[table["objective"] != "all"].to_dict("records"):
        is_long = row["last_phase_share"] > MAX_LAST_PHASE_SHARE
        last_phase = f" ({row['last_phase_share']:.1%} of T is one phase)" if is_long else ""
        rows.append(
            {
                "Objective": title(row["objective"]),
                "Noise": noise_in_words(row["noise"]),
                "Best rival": label(row["rival"]),
                "PF-PNE / rival": f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
                "P(PF-PNE has less)": f"{row['improvement']:.2f}",
                "Verdict": f"{row['verdict']}{last_phase}",
            }
        )
    return pd.DataFrame(rows)


def without_phase_rule(table: pd.DataFrame) -> str:
    """Say in a sentence how the verdicts on the primary family would count without the rule on unfinished phases.

    Parameters
    ----------
    table : pandas.DataFrame
        As `primary_as_strings` takes it; its p-values are corrected.

    Returns
    -------
    str
        The sentence.
    """
    rows = table[table["objective"] != "all"]
    right, wrong = rows["p_right"] <= ALPHA, rows["p_wrong"] <= ALPHA
    shown, refuted = right.sum(), (wrong & ~right).sum()
    return (
        f"Without the rule on unfinished phases {shown} would be shown, {refuted} refuted and"
        f" {len(rows) - shown - refuted} open."
    )


def claims_in_latex(strings: pd.DataFrame, caption: str) -> str:
    """The table of the claims in LaTeX, on as many pages as it needs, with columns of fixed widths."""
    n_noises, caption = len(strings.columns) - 2, in_latex(caption)
    widths = (0.09, 0.27, *[round(0.56 / n_noises, 3)] * n_noises)
    columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}\textwidth}}" for width in widths)
    latex = as_latex(strings, columns, longtable=True, caption=caption, label="tab:claims")
    latex = latex.replace(rf"\caption[]{{{caption}}}", r"\caption[]{The same, continued.}")
    return (
        "% Needs \\usepackage{booktabs,longtable,array}. A longtable wants pages of one column: hence \\onecolumn,\n"
        "% and \\twocolumn after it. Leave both out where there is one column anyway.\n"
        "\\onecolumn\n{\\scriptsize\\setlength{\\tabcolsep}{3pt}\\setlength{\\LTcapwidth}{\\textwidth}\n"
        f"{latex}}}\n\\twocolumn\n"
    )


def tabulate_times(study: Study) -> Exhibit:
    """Tabulate the seconds behind the claims on time, which vary between batches.

    Parameters
    ----------
    study : Study
        The runs that the claims are tested on.

    Returns
    -------
    Exhibit
        The table, and the table of `pfpne.paper.claims.verdicts.times_by_objective` as CSV.
    """
    table = times_by_objective(study)
    caption = (
        "Median wall time of one run in seconds, as implemented here, with several runs at a time on one machine. "
        f"Then the share of runs in which FN-UCB takes at least {LARGE_FACTOR:g} times as long as each of the others,"
        f" and the share in which none of the others takes more than {LARGE_FACTOR:g} times as long as another."
    )
    names = {name: label(name) for name in PAPER_ALGORITHMS} | {"slower": "FN-UCB slower", "similar": "Others similar"}
    formats = dict.fromkeys(PAPER_ALGORITHMS, "{:.3g}") | dict.fromkeys(("slower", "similar"), "{:.0%}")
    strings = table.apply(lambda column: column.map(formats.get(column.name, "{}").format))
    strings = strings.rename(columns=lambda name: names.get(name, name.capitalize()))
    return table_exhibit("claims_times", caption, strings, {"claims_times": table})


def claims_as_strings(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Put the verdicts into strings: one row per claim, one column per noise.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As in claims.csv.

    Returns
    -------
    pandas.DataFrame
        In a cell the verdict, in brackets the deciding comparison or reason, and other verdicts if they differ.
    """
    is_ours = verdicts["whose"] == "ours"
    verdicts = verdicts.assign(
        where_in_paper=verdicts["where_in_paper"].mask(is_ours, OURS_PREFIX + verdicts["where_in_paper"])
    )
    by_claim = verdicts.groupby(["id", "where_in_paper", "hypothesis", "noise"], sort=False)
    strings = by_claim[["cells", "Delta", "verdict", "decided_by"]].apply(_verdicts_in_words)
    strings = strings.unstack(sort=False, fill_value=DASH)[verdicts["noise"].unique()]
    table = strings.rename(columns=noise_in_words).rename_axis(columns=None).reset_index().drop(columns="id")
    return table.rename(columns={"where_in_paper": "In the paper", "hypothesis": "Claim, as tested"})


def _verdicts_in_words(verdicts: pd.DataFrame) -> str:
    """The first verdict, and the other verdicts that differ from it.

    verdicts: with the paper's Delta, then with the true one; then both on cyclic cells.
    """
    words = []
    for row in verdicts.to_dict("records"):
        verdict = f"{row['verdict']} ({row['decided_by']})" if row["decided_by"] else row["verdict"]
        conditions = ["cyclic cells"] * (row["cells"] == "cyclic") + ["true Delta"] * (row["Delta"] == "true")
        if not words or row["verdict"] != verdicts["verdict"].iloc[0]:
            words.append(f"{', '.join(conditions)}: {verdict}" if words else verdict)
    return "; ".join(words)


def verdicts_that_count(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The verdicts that are counted, with their column.

    Only verdicts with the paper's Delta count. Claims on which the noise has no influence count once over all noises.
    """
    rows = verdicts[verdicts["Delta"] != "true"]
    counts_once = rows["over_noises"] == "once"
    column = rows["noise"].map(noise_in_words) + ", " + rows["cells"] + " cells"
    return rows.assign(column=column.mask(counts_once, EVERY_NOISE))[
        ~(counts_once & rows.duplicated(["id", "measured"]))
    ]


def tally(verdicts: pd.DataFrame) -> str:
    """Say in sentences how many verdicts are shown, refuted and open: of the paper's claims, and of ours.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As in claims.csv.

    Returns
    -------
    str
        The sentences.
    """
    sentences = []
    for whose, rows in verdicts_that_count(verdicts).groupby("whose", sort=False):
        reached, designed = count_groups(rows["verdict"]), int((rows["verdict"] == "true by construction").sum())
        subject = "questions of ours" if whose == "ours" else "claims of the paper"
        by_design = f" ({designed} of them true by construction)" if designed else ""
        sentences.append(
            f"Of {len(rows)} verdicts on {subject}, {reached['shown']} are shown{by_design}, {reached['refuted']} "
            f"refuted, {reached['open']} open."
        )
    return " ".join(sentences)


def counts_by_column(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Count the verdicts: one row per column.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As in claims.csv.

    Returns
    -------
    pandas.DataFrame
        In a cell the count of the paper's claims + the count of ours.
    """
    counts = []
    for column, rows in verdicts_that_count(verdicts).groupby("column", sort=False):
        is_ours = rows["whose"] == "ours"
        our_counts, paper_counts = (count_groups(rows.loc[chosen, "verdict"]) for chosen in (is_ours, ~is_ours))
        counts.append(
            {"Column": column} | {group: f"{paper_counts[group]} + {our_counts[group]}" for group in VERDICT_GROUPS}
        )
    return pd.DataFrame(counts)
