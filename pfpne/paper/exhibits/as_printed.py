"""The paper's figures as its text describes them: how many statements come out, and under which reading.

The readings, the statements and the search are in `readings`, beside this, and the tests of every statement under one
reading in `confirmation`. Here the answer is drawn and put into words.
"""

from __future__ import annotations

import tomllib

import numpy as np
import pandas as pd
from matplotlib.patches import Rectangle

from pfpne.paper.claims.outcomes import MAX_LAST_PHASE_SHARE
from pfpne.paper.claims.verdicts import OPEN, REFUTED, SHOWN, decide_by_holm
from pfpne.paper.exhibits.confirmation import complete_reading
from pfpne.paper.exhibits.readings import (
    ALGORITHM_CHOICES,
    COUNTED_KINDS,
    FIGURE_OBJECTIVES,
    GRID_VALUES,
    PROBLEM_CHOICES,
    SEARCHED_STATEMENTS,
    STATEMENTS,
    STATEMENTS_FILE,
    Reading,
    Statement,
    unknown_kind,
)
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.profiles import READING_PRESETS
from pfpne.paper.show.export import Exhibit, as_csv, text_exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import DASH, LOOKS, PAGE, label, listed, noise_in_words, title

NEARLY_ALL = 0.97  # a statement that holds in this share of the readings holds in nearly all of them


def at_first_values(table: pd.DataFrame, M: int) -> pd.DataFrame:
    """The readings of the search in which only noise and T move."""
    first = table["M"] == M
    for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items():
        first &= table[name] == values[0]
    return table[first]


def contributions(table: pd.DataFrame) -> pd.DataFrame:
    """Measure the effect of each value of each choice.

    Each reading with the value is compared with the reading that has the first value instead and is otherwise equal.

    Parameters
    ----------
    table : pandas.DataFrame
        As `readings.search` returns it.

    Returns
    -------
    pandas.DataFrame
        One row per choice and value: n, the number of pairs of readings, and change, the mean change in the number of
        statements that hold.
    """
    choices = ["noise", "T", "M", *PROBLEM_CHOICES, *ALGORITHM_CHOICES]
    held = table.set_index(choices)["n_held"]
    rows = []
    for name in choices[2:]:
        values = table[name].unique()
        for value in values[1:]:
            there = table[table[name] == value]
            keys = [tuple(row) for row in there[choices].assign(**{name: values[0]}).itertuples(index=False)]
            pairs = [(x, held[key]) for x, key in zip(there["n_held"], keys, strict=True) if key in held.index]
            rows.append((name, value, len(pairs), float(np.mean([x - y for x, y in pairs]))))
    return pd.DataFrame(rows, columns=["choice", "value", "n", "change"])


def in_short(table: pd.DataFrame, verdicts: pd.DataFrame, printed: Reading) -> list[str]:
    """Say for the README how many statements hold under the reading "printed", and which are refuted.

    Parameters
    ----------
    table : pandas.DataFrame
        As `readings.search` returns it.
    verdicts : pandas.DataFrame
        As `confirmation.decide_statements` returns them, for the reading "printed".
    printed : Reading
        The reading "printed".

    Returns
    -------
    list of str
        The sentences.
    """
    refuted = verdicts[verdicts["verdict"] == REFUTED]
    groups = []
    for group, rows in refuted.groupby(refuted["id"].map(_statement_group), sort=False):
        objectives = ", ".join(dict.fromkeys(map(title, rows["objective"])))
        ratios = f": it has {listed([f'{ratio:.2f}' for ratio in rows['ratio']])} times the rival's regret"
        groups.append(f"{len(rows)} {group} ({objectives}{ratios if group == CLOSE else ''})")
    most_held, n_best = table["n_held"].max(), _count_best(table)
    return [
        f"{_reading_in_words(verdicts, printed)} We searched {len(table):,} readings. No reading makes more"
        f" than {most_held} of the {len(SEARCHED_STATEMENTS)} searched statements hold; {n_best}"
        f" {'reading reaches' if n_best == 1 else 'readings reach'} {most_held}. *Printed* is the simplest of these.",
        _smallest_in_words(verdicts),
        f"Refuted: {listed(groups) if groups else 'nothing'}.",
    ]


def _count_best(table: pd.DataFrame) -> int:
    """The number of readings of the search under which the largest number of statements hold."""
    return int((table["n_held"] == table["n_held"].max()).sum())


def _reading_in_words(verdicts: pd.DataFrame, printed: Reading) -> str:
    """The values of the reading "printed", and the verdicts on the statements under it."""
    return (
        f"*Printed* has {noise_in_words(printed.noise)}, T = {printed.T:,} and M = {printed.M}. Fed-PNE's"
        f' "competitors" are {listed(printed["competitors"].split(", "))}. {_counts_by_design(verdicts)}'
        f" ({verdicts['n'].max()} paired runs)."
    )


def _smallest_in_words(verdicts: pd.DataFrame) -> str:
    """The verdicts on PF-PNE's lead, and the leads that remain if the rule on truncated phases applies to rivals."""
    smallest = verdicts[verdicts["id"].map(_topic).eq("smallest")]
    first = smallest[smallest["verdict"].eq(SHOWN)]
    kept = first.loc[first["other_last_phase_share"] <= MAX_LAST_PHASE_SHARE, "objective"]
    sentence = f"{STATEMENT_TOPICS['smallest']}: {_by_verdict(smallest)}."
    if len(kept) == len(first):
        return sentence
    return (
        f"{sentence} (A verdict is open if PF-PNE's last phase, which T truncates, takes more than half of T. If we"
        f" applied this rule to the rivals, too, {f'only {listed(map(title, kept))}' if len(kept) else 'none'} would"
        " remain shown.)"
    )


def answer(table: pd.DataFrame, printed: Reading, verdicts: pd.DataFrame, comparisons: pd.DataFrame) -> list[str]:
    """Answer in sentences whether the figures come out as the text says, and what decides it.

    table: the table of `search`. verdicts, comparisons: the tables of `decide_statements` and `confirm` for "printed".
    """
    N, most_held = len(SEARCHED_STATEMENTS), table["n_held"].max()
    by_scale = at_first_values(table, printed.M).set_index(["noise", "T"])["n_held"]
    which = table["held_ids"].str.split()
    shares = {s: which.map(lambda ids, s=s: s.id in ids).mean() for s in SEARCHED_STATEMENTS}
    never, floor = ([s for s, share in shares.items() if test(share)] for test in (lambda x: x == 0, _is_nearly_all))
    low = {noise: int(by_scale[noise].max()) for noise in GRID_VALUES["paper"]["noise"] if noise in by_scale.index}
    high = table.groupby(table["noise"].astype(str))["n_held"].max()
    numbers = ", ".join(f"{count} ({high[str(noise)]}) with {noise_in_words(noise)}" for noise, count in low.items())
    in_means = sum(holds_in_means(statement, comparisons) for statement in SEARCHED_STATEMENTS)
    never_in_words = "; ".join(f"{STATEMENT_TOPICS[_topic(s.id)]} ({title(s.objective)})" for s in never)
    sentences = [
        _reading_in_words(verdicts, printed),
        _smallest_in_words(verdicts),
        f"Refuted:{_list_below(verdicts[verdicts['verdict'] == REFUTED])}",
        f"Open:{_list_below(verdicts[verdicts['verdict'] == OPEN])}",
        f"For each of {len(table):,} readings, the search counts how many of {N} statements hold in the means. At most "
        f"{most_held} do, in {_count_best(table)} readings. But {len(floor)} of the {N} hold in at least"
        f" {NEARLY_ALL:.0%} of all readings, and under the median reading {table['n_held'].median():g} hold. Under"
        f' "printed" it is {int(_row(table, printed)["n_held"])} in the search\'s two runs, and {in_means} in the '
        f"{verdicts['n'].max()} runs of the test. Under no reading does this hold: "
        f"{never_in_words or 'each holds under some'}.",
        f"The noise matters. With the best T, and all else as in this package, this many of the {N} hold, and in"
        f" brackets the most if other choices move, too: {numbers}.",
    ]
    open_by_rival = verdicts[
        (verdicts["other_last_phase_share"] > MAX_LAST_PHASE_SHARE)
        & (verdicts["last_phase_share"] <= MAX_LAST_PHASE_SHARE)
        & (verdicts["verdict"] != OPEN)
    ]
    if len(open_by_rival):
        sentences.append(
            "A statement is open if its algorithm spends more than half of T in one phase that T cuts. If the same "
            f"rule held for the algorithm that it is compared with, {len(open_by_rival)} more would be open: "
            f"{'; '.join(_topics_in_words(open_by_rival))}."
        )
    moved = comparisons[comparisons["id"].str.startswith("settings-")].groupby("objective", sort=False)["ratio"]
    change = moved.agg(lambda ratio: max(ratio.max(), 1 / ratio.min()))
    within = listed(map(title, change.index[change < 2])) if (change < 2).any() else "none"
    return [
        *sentences,
        "Moving one setting changes PF-PNE's mean regret by at most this factor: "
        f"{', '.join(f'{title(f)} {x:.2g}' for f, x in change.items())}. We call a factor below 1.25 little, while "
        'elsewhere our "much" begins at 2. If every factor below 2 counted as little, this statement would hold on '
        f"{within}.",
    ]


def _is_nearly_all(share: float) -> bool:
    return share >= NEARLY_ALL


def holds_in_means(statement: Statement, comparisons: pd.DataFrame) -> bool:
    """Whether a statement holds in the means over the runs of the confirmation."""
    rows = comparisons[comparisons["id"] == statement.id]
    if statement.kind in COUNTED_KINDS:
        return bool((rows["wins"] == rows["n"]).all())
    return all(statement.holds(ratio) for ratio in rows["ratio"])


def _counts_by_design(verdicts: pd.DataFrame) -> str:
    """The numbers of statements that are true by construction, and of others that are shown, refuted and open."""
    by_design = verdicts["by_design"].astype(bool)
    return (
        f"Of {len(verdicts)} statements {by_design.sum()} are true by construction; of the others"
        f" {_counts_in_words(verdicts[~by_design])}"
    )


CLOSE, ON_FED_PNE = "that PF-PNE is close to a rival", "about Fed-PNE"  # groups of statements
STATEMENT_TOPICS = {  # the topic of a statement -> the statement in a few words
    "smallest": "PF-PNE has the smallest regret of the paper's five",
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


NOT_ON_REGRET = ("differ", "fed-grows", "pf-stops")  # topics: on the clients, and on communication


STATEMENT_GROUPS = {  # the topic of a statement -> the group in which `in_short` counts it
    "smallest": "that PF-PNE has the smallest regret",
    "depends": ON_FED_PNE,
    "differ": ON_FED_PNE,
    "fed-better": ON_FED_PNE,
    "fed-far": ON_FED_PNE,
    "global": ON_FED_PNE,
    "settings": "that one of PF-PNE's settings matters little",
    "doublesine-hct": "that PF-PNE beats HCT",
    "doublesine-hct-slightly": CLOSE,
    "doublesine-fed": ON_FED_PNE,
    "ackley-hct": CLOSE,
    "ackley-fed": CLOSE,
    "fed-grows": ON_FED_PNE,
    "pf-stops": "about PF-PNE's communication",
}


def _topic(statement_id: str) -> str:
    """The topic of a statement, a key of STATEMENT_TOPICS: its id without the objective."""
    head, _, end = statement_id.rpartition("-")
    topic = head if end in FIGURE_OBJECTIVES else statement_id
    if topic not in STATEMENT_TOPICS:
        raise ValueError(
            f"the statement {statement_id!r} has the new topic {topic!r}: add it to STATEMENT_TOPICS and to "
            "STATEMENT_GROUPS in as_printed.py, and to NOT_ON_REGRET there if it is not about regret"
        )
    return topic


def _by_verdict(rows: pd.DataFrame) -> str:
    """The verdicts of some statements with the objectives: "shown on Garland; open on Landmine"."""
    groups = rows.groupby("verdict", sort=False)["objective"]
    return "; ".join(f"{verdict} on {listed(map(title, objectives))}" for verdict, objectives in groups)


def _topics_in_words(rows: pd.DataFrame) -> list[str]:
    """These statements in a few words, each topic with its objectives."""
    groups = rows.groupby(rows["id"].map(_topic), sort=False)["objective"]
    return [f"{STATEMENT_TOPICS[topic]} ({', '.join(map(title, objectives))})" for topic, objectives in groups]


def _list_below(rows: pd.DataFrame) -> str:
    """These statements in a few words, as a list below the item of a list in Markdown."""
    return "".join(f"\n  - {words}" for words in _topics_in_words(rows)) or " nothing."


def _statement_group(statement_id: str) -> str:
    """The group of a statement, a value of STATEMENT_GROUPS."""
    topic = _topic(statement_id)
    if topic not in STATEMENT_GROUPS:
        raise ValueError(f"the topic {topic!r} has no group: add it to STATEMENT_GROUPS in as_printed.py")
    return STATEMENT_GROUPS[topic]


NOT_PLOTTED = ("pe", "hoo", "blin")  # algorithms that the paper's figures leave out; their regret is compared here


def algorithms_not_plotted_in_words(ranking: pd.DataFrame, by_name: bool) -> str:
    """Compare the algorithms of NOT_PLOTTED with PF-PNE, in a few sentences.

    Parameters
    ----------
    ranking : pandas.DataFrame
        As in ranking_printed.csv, with its p-values.
    by_name : bool
        Whether to name the objectives, or to count them.

    Returns
    -------
    str
        The sentences.
    """
    rows = ranking[ranking["algorithm"].isin(NOT_PLOTTED)].assign(last_phase_share=np.nan)
    decided = decide_by_holm(rows.rename(columns={"p_less": "p_right", "p_more": "p_wrong"}))
    clauses = []
    for name in NOT_PLOTTED:
        groups = decided[decided["algorithm"] == name].groupby("verdict")["objective"]
        parts = []
        for verdict, word in ((SHOWN, "less"), (REFUTED, "more")):
            if verdict in groups.groups:
                where = listed(map(title, groups.get_group(verdict))) if by_name else groups.size()[verdict]
                parts.append(f"{word}{'' if parts else ' regret'} on {where}")
        clauses.append(f"{label(name)} has {' and '.join(parts) or 'neither less nor more regret for certain'}")
    return (
        "The paper's figures leave out PE, HOO and BLiN, another single-client search. Compared with PF-PNE on"
        f" {ranking['objective'].nunique()} objectives, {'; '.join(clauses)}. On the other objectives it is open which"
        f" of the two has less ({ranking['runs'].max():.0f} paired runs)."
    )


def model_in_words(statements: pd.DataFrame) -> str:
    """Say which statements hold under the reading "model".

    Parameters
    ----------
    statements : pandas.DataFrame
        As in statements.csv.

    Returns
    -------
    str
        The sentences.
    """
    model, reading = statements[statements["reading"] == "model"], READING_PRESETS["model"]
    noise = noise_in_words(reading.noises[0]).removesuffix(" rewards")
    counts = _counts_in_words(model[~model["by_design"].astype(bool)])
    return (
        f"*Model* has rewards in [0, 1], as the paper asks ({noise}; no noise on Landmine), and T ="
        f" {reading.horizon:,}: {counts}. PF-PNE's lead:"
        f" {_by_verdict(model[model['id'].map(_topic).eq('smallest')])}."
    )


def longer_model_in_words(table: pd.DataFrame) -> str:
    """Say in a sentence where PF-PNE is first in the longest runs with the rewards of the reading "model".

    Parameters
    ----------
    table : pandas.DataFrame
        As `readings.search` returns it.

    Returns
    -------
    str
        The sentence.
    """
    noise, longest = READING_PRESETS["model"].noises[0], max(GRID_VALUES["paper"]["T"])
    at_first = at_first_values(table, GRID_VALUES["paper"]["M"][0])
    there = at_first[(at_first["noise"].astype(str) == str(noise)) & (at_first["T"] == longest)]
    held = there["held_ids"].iloc[0].split() if len(there) else []
    first = [title(s.objective) for s in SEARCHED_STATEMENTS if _topic(s.id) == "smallest" and s.id in held]
    return (
        f"With the rewards of *model* at T = {longest:,}, in the search's two runs, which test nothing, PF-PNE is first"
        f" on {listed(first) if first else 'none of the four'}."
    )


def hct_in_words(ranking: pd.DataFrame) -> str:
    """Say in a sentence how Fed-PNE compares with HCT, which this reading does not count among its competitors.

    Parameters
    ----------
    ranking : pandas.DataFrame
        As in ranking_printed.csv.

    Returns
    -------
    str
        The sentence.
    """
    regret = ranking.pivot(index="algorithm", columns="objective", values="mean")
    ratio = regret.loc["fed-pne"] / regret.loc["hct-pyxab"]
    values = " and ".join(f"{ratio[name]:.2g} on {title(name)}" for name in ("garland", "rastrigin"))
    return (
        "This reading does not count HCT among Fed-PNE's competitors. The mean regret of Fed-PNE over that of HCT is"
        f" {values}."
    )


def write_answer(table: pd.DataFrame, printed: Reading, verdicts: pd.DataFrame, comparisons: pd.DataFrame) -> Exhibit:
    """Write the answer as a text of its own, which its page shows.

    Parameters
    ----------
    table : pandas.DataFrame
        As `readings.search` returns it.
    printed : Reading
        The reading "printed".
    verdicts, comparisons : pandas.DataFrame
        As `confirmation.decide_statements` and `confirmation.confirm` return them, for the reading "printed".

    Returns
    -------
    Exhibit
        The text, in Markdown.
    """
    text = "".join(f"- {sentence}\n" for sentence in answer(table, printed, verdicts, comparisons))
    return text_exhibit("readings_in_words", "Whether the paper's figures come out as its text says.", text)


def contributions_in_words(table: pd.DataFrame) -> pd.DataFrame:
    """Put the table of `contributions` into the words that the page shows.

    Parameters
    ----------
    table : pandas.DataFrame
        As `readings.search` returns it.

    Returns
    -------
    pandas.DataFrame
        One row per choice and value, as strings.
    """
    shown = contributions(table).rename(columns={"choice": "Choice", "value": "Moved to", "n": "Pairs of readings"})
    shown["Moved to"] = [
        f"{value:,}" if isinstance(value, (int, np.integer)) else str(value) for value in shown["Moved to"]
    ]
    shown["Change of the statements that hold"] = [f"{change:+.1f}" for change in shown.pop("change")]
    return shown


def tabulate_untested() -> pd.DataFrame:
    """List the sentences about the figures that no curve can test, and why.

    Returns
    -------
    pandas.DataFrame
        One row per sentence.
    """
    rows = tomllib.loads(STATEMENTS_FILE.read_text(encoding="utf-8"))["untested"]
    return pd.DataFrame([{"In the paper": f'{r["where_in_paper"]}: "{r["quote"]}"', "Why": r["why"]} for r in rows])


def _row(table: pd.DataFrame, reading: Reading) -> pd.Series:
    """The row of a reading in the table of the search."""
    mask = np.ones(len(table), dtype=bool)
    for name, value in reading.choices.items():
        mask &= table[name].astype(str) == str(value)
    return table[mask].iloc[0]


@our_style()
def draw(table: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the answer: the number of statements that hold by noise and T, and the effect of each other choice there.

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
    M, N = scales["M"][0], len(SEARCHED_STATEMENTS)
    grid = at_first_values(table, M).pivot(index="noise", columns="T", values="n_held")
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
    """(choice, value, statements held) for the readings that differ from the first values in exactly one choice."""
    first_values = {name: values[0] for name, values in {**PROBLEM_CHOICES, **ALGORITHM_CHOICES}.items()} | {"M": M}
    moved = []
    for name in ("M", *PROBLEM_CHOICES, *ALGORITHM_CHOICES):
        others = [table[other] == value for other, value in first_values.items() if other != name]
        rows = table[np.logical_and.reduce(others)]
        moved += [(name, row[name], row["n_held"]) for _, row in rows.iterrows() if row[name] != first_values[name]]
    return moved


def tabulate(verdicts: dict[str, pd.DataFrame], comparisons: dict[str, pd.DataFrame], p: Parameters) -> Exhibit:
    """Tabulate every statement with its verdict under each reading.

    Parameters
    ----------
    verdicts, comparisons : dict
        {reading: the table of `decide_statements`}, {reading: the table of `confirm`}.
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
            "In the paper": f"{statement.where_in_paper}: "
            f"\N{LEFT DOUBLE QUOTATION MARK}{statement.quote}\N{RIGHT DOUBLE QUOTATION MARK}"
        }
        row |= {
            "Objective": title(statement.objective),
            "Tested": statement.hypothesis,
            "Ours": statement.our_addition or DASH,
        }
        for name, table in verdicts.items():
            verdict = table.set_index("id").loc[statement.id]
            row[f"\N{LEFT DOUBLE QUOTATION MARK}{name}\N{RIGHT DOUBLE QUOTATION MARK}"] = _verdict_in_words(
                statement, verdict
            )
        rows.append(row)
    strings = pd.DataFrame(rows)
    all_verdicts = pd.concat([table.assign(reading=name) for name, table in verdicts.items()], ignore_index=True)
    all_comparisons = pd.concat([table.assign(reading=name) for name, table in comparisons.items()], ignore_index=True)
    counts = []
    for name, table in verdicts.items():
        reading = complete_reading(name, p.profile)
        counts.append(
            f'Under "{name}" ({noise_in_words(reading.noise)}, T = {reading.T:,}, M = {reading.M}), Fed-PNE\'s'
            f" competitors are {listed(reading['competitors'].split(', '))}. {_counts_by_design(table)}."
        )
    caption = (
        f"The paper's {len(STATEMENTS)} statements about its figures, tested on {p.n_runs} paired runs that the search"
        " has not seen, with Holm's correction over the statements of a reading and both sides."
        f" {' '.join(counts)} A number is a"
        ' ratio of mean regrets, in the comparison that is furthest from what is stated. "Ours" is what the paper'
        " does not say and we had to decide."
    )
    markdown = strings.to_markdown(index=False)
    files = {"statements.csv": as_csv(all_verdicts), "statements_comparisons.csv": as_csv(all_comparisons)}
    files["statements.md"] = f"{markdown}\n\n{caption}\n".encode()
    return Exhibit("statements", caption, files, {"text/markdown": markdown})


def _counts_in_words(table: pd.DataFrame) -> str:
    """How many statements are shown, refuted and open: "8 are shown (2 about regret), 7 refuted and 12 open"."""
    shown, refuted, undecided = ((table["verdict"] == verdict).sum() for verdict in (SHOWN, REFUTED, OPEN))
    on_regret = (table["verdict"].eq(SHOWN) & ~table["id"].map(_topic).isin(NOT_ON_REGRET)).sum()
    return f"{shown} are {SHOWN} ({on_regret} about regret), {refuted} {REFUTED} and {undecided} {OPEN}"


def _verdict_in_words(statement: Statement, row: pd.Series) -> str:
    """A verdict with the number that decides it."""
    if statement.kind in ("grows", "stops"):
        words = "true by construction" if row["by_design"] else row["verdict"]
        return f"{words} ({row['wins']} of {row['n']} runs)"
    if statement.kind == "difference":
        return f"{row['verdict']} (ratio {row['ratio']:.2g})"
    if statement.kind in COUNTED_KINDS:
        raise unknown_kind(statement, "_verdict_in_words in as_printed.py")
    is_long = row["last_phase_share"] > MAX_LAST_PHASE_SHARE
    last_phase = f"; {row['last_phase_share']:.0%} of T is one phase" if is_long else ""
    words = "true by construction" if row["by_design"] else row["verdict"]
    return f"{words} ({row['what']} = {row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]{last_phase})"
