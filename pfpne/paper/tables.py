"""Tables as files: CSV to read, Markdown to show, LaTeX (booktabs) to include; and the pages that show some of them.

The Markdown and the LaTeX file of a table come from the same strings, the CSV from the numbers behind them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pfpne.paper import claims, deviations, table1
from pfpne.paper.claim_tests import MUCH, PAPER, label
from pfpne.paper.evidence import Evidence
from pfpne.paper.figures import MIME, manifest, noise_in_words
from pfpne.paper.parameters import Parameters
from pfpne.paths import FIGURES, ROOT, write_atomically
from pfpne.paper.store import source_hash

MODULES = ("tables", "table1", "claims", "claim_tests", "deviations", "evidence", "stats")


@dataclass(frozen=True)
class Table:
    """A table as files, {name: content}; stem: of their names; markdown: as a notebook shows it, and details."""

    stem: str
    caption: str
    markdown: str
    files: dict[str, bytes]
    details: str = ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/markdown": self.markdown, "text/plain": self.caption, MIME: self.stem}


def save(p: Parameters, *tables: Table) -> list[Path]:
    """Write the files of each table, and a manifest (JSON) that says how to make them again, into p.figures_dir."""
    paths = []
    for table in tables:
        content = manifest(p, table, table.files)
        content["source"]["drawing"] = source_hash()
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for name, data in {**table.files, f"{table.stem}.json": text.encode()}.items():
            paths.append(write_atomically(p.figures_dir / name, data))
    return [path.relative_to(ROOT) if path.is_relative_to(ROOT) else path for path in paths]


# --- formats ----------------------------------------------------------------------------------------


def as_csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False, lineterminator="\n", float_format="%.6g").encode()


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)


SYMBOLS = {
    "nu_1": r"$\nu_1$",
    "c_1": "$c_1$",
    "C_1": "$C_1$",
    "C_2": "$C_2$",
    "H_0": "$H_0$",
    "rho": r"$\rho$",
    "Delta": r"$\Delta$",
    "delta": r"$\delta$",
    "\N{EN DASH}": "--",
    "\N{PLUS-MINUS SIGN}": r"$\pm$",
}
_SYMBOL = re.compile("|".join(rf"\b{name}\b" if name.isascii() else name for name in SYMBOLS))


def in_latex(text: str) -> str:
    """The text with the paper's symbols as formulas and the rest escaped; formulas between dollars stay as they are."""
    pieces = re.split(r"(\$[^$]*\$)", text)
    return "".join(piece if piece.startswith("$") else _plain_in_latex(piece) for piece in pieces)


def _plain_in_latex(text: str) -> str:
    symbols = re.sub(_SYMBOL, lambda found: SYMBOLS[found[0]], text)
    pieces = re.split(r"(\$[^$]*\$)", symbols)
    return "".join(piece if piece.startswith("$") else re.sub(r"[&%#_{}~^]", _escaped, piece) for piece in pieces)


def _escaped(found: re.Match) -> str:
    return rf"\{found[0]}{{}}" if found[0] in "~^" else rf"\{found[0]}"  # these two are accents: of nothing


def as_latex(
    headings: Sequence[str], rows: Sequence[Sequence[str]], columns: str, caption: str, name: str, groups: str = ""
) -> str:
    r"""A table* that fills the width of a two-column page, to \input; needs booktabs, graphicx and array.

    columns: as tabular takes them. groups: a line above the headings. A row whose first cell is filled, after one
    whose first cell is not, is set off. name: of the label; if empty, the table goes on
    with the number of the one before.
    """
    lines = [
        r"% Needs \usepackage{booktabs,graphicx,array}.",
        r"\begin{table*}",
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
        *([] if name else [r"\addtocounter{table}{-1}"]),
        rf"\caption{{{in_latex(caption)}}}",
        *([rf"\label{{tab:{name}}}"] if name else []),
        rf"\resizebox{{\textwidth}}{{!}}{{\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *([groups] if groups else []),
        " & ".join(map(in_latex, headings)) + r" \\",
        r"\midrule",
    ]
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and row[0] and not before[0]:
            lines.append(r"\addlinespace")
        lines.append(" & ".join(map(in_latex, row)) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table*}", ""])


LINES, CHARACTERS = 62, 130  # of a page, and of a line across it, in this size, with something to spare


def as_latex_pages(
    headings: Sequence[str], rows: Sequence[Sequence[str]], shares: Sequence[float], caption: str, name: str
) -> str:
    """As `as_latex`, in as many parts as pages are needed, which a float cannot be longer than.

    shares: of the width, one a column; its text is set ragged in lines of that width.
    """

    def height(row: Sequence[str]) -> int:
        return max(-(-len(cell) // int(CHARACTERS * share)) for cell, share in zip(row, shares, strict=True))

    parts, free = [[]], LINES - 2 * (len(caption) // 100)  # the caption is in a larger size
    for row in rows:
        if height(row) > free:
            parts.append([])
            free = LINES
        parts[-1].append(row)
        free -= height(row)
    columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{share}\textwidth}}" for share in shares)
    latex = [as_latex(headings, parts[0], columns, caption, name)]
    latex += [as_latex(headings, part, columns, "The same, continued.", "") for part in parts[1:]]
    return "\n".join(latex)


# --- Table 1 ----------------------------------------------------------------------------------------

_GROUPS = (
    r"& & & & & \multicolumn{2}{c}{exponent of regret} & \multicolumn{3}{c}{rounds} & \multicolumn{3}{c}{numbers} \\"
    "\n"
    r"\cmidrule(lr){6-7}\cmidrule(lr){8-10}\cmidrule(lr){11-13}"
)


def make_table1(evidence: Evidence) -> Table:
    """The paper's Table 1 beside what is measured: see pfpne.paper.table1."""
    table = table1.table1(evidence)
    rows, caption = table1.shown(table).to_numpy().tolist(), table1.caption(evidence)
    markdown = as_markdown([long for _, long in table1.HEADINGS.values()], rows)
    latex = as_latex(
        [short for short, _ in table1.HEADINGS.values()], rows, "lllll rr rrr rrr", caption, "table1", _GROUPS
    )
    files = {
        "table1.csv": as_csv(table),
        "table1.md": f"{markdown}\n{caption}\n".encode(),
        "table1.tex": latex.encode(),
    }
    return Table("table1", caption, markdown, files)


# --- claims -----------------------------------------------------------------------------------------


def make_claims(evidence: Evidence) -> Table:
    """The verdicts: see pfpne.paper.claims. claims.csv has a row a verdict, claims_comparisons.csv one a comparison."""
    verdicts, comparisons = claims.evaluate(evidence)
    headings, rows = summary(verdicts)
    caption = claims_caption(verdicts, evidence)
    markdown = as_markdown(headings, rows)
    measured = [
        [row["id"], regime_in_words(row["regime"]), row["Delta"], row["verdict"], row["measured"]]
        for row in verdicts.to_dict("records")
    ]
    details = as_markdown(["Claim", "Regime", "Delta", "Verdict", "Measured"], measured)
    shares = (0.09, 0.27, *[round(0.6 / (len(headings) - 2), 3)] * (len(headings) - 2))
    files = {
        "claims.csv": as_csv(verdicts),
        "claims.md": f"{markdown}\n{caption}\n\n## What was measured\n\n{details}".encode(),
        "claims.tex": as_latex_pages(headings, rows, shares, caption, "claims").encode(),
        "claims_comparisons.csv": as_csv(comparisons),
    }
    return Table("claims", caption, markdown, files, details)


def make_times(evidence: Evidence) -> Table:
    """The seconds behind the claims on time, apart from what must be the same twice."""
    table = claims.times(evidence)
    caption = (
        "Median wall time of one run in seconds, as implemented here, several runs at a time on one machine; the share "
        f"of the runs in which FN-UCB takes at least {MUCH:g} times as long as each of the others, and in which "
        f"none of these takes more than {MUCH:g} times as long as another."
    )
    names = [label(name) for name in PAPER]
    rows = [
        [*map(str, row[:3]), *(f"{x:.3g}" for x in row[3:-2]), *(f"{x:.0%}" for x in row[-2:])]
        for row in table.itertuples(index=False)
    ]
    markdown = as_markdown(["Regime", "Objective", "Runs", *names, "FN-UCB slower", "Others alike"], rows)
    return Table("claims_times", caption, markdown, {"claims_times.csv": as_csv(table)})


def regime_in_words(regime: str) -> str:
    """ "bernoulli", "0.1", "landmine" as the columns of the tables say it."""
    if regime == "landmine":
        return "landmine, no noise"
    return noise_in_words(regime if regime == "bernoulli" else float(regime))


def summary(verdicts: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a row a claim, a column a regime; in brackets what decides.

    A verdict that the clients' own Delta changes says so.
    """
    regimes = list(dict.fromkeys(verdicts["regime"]))
    rows = []
    for _, mine in verdicts.groupby("id", sort=False):
        first = mine.iloc[0]
        rows.append(
            [first["place"], first["statement"], *(_cell(mine[mine["regime"] == regime]) for regime in regimes)]
        )
    return ["In the paper", "Claim, as tested", *map(regime_in_words, regimes)], rows


def _cell(verdicts: pd.DataFrame) -> str:
    if verdicts.empty:
        return table1.DASH
    cells = [
        verdict + (f" ({by})" if by else "")
        for verdict, by in zip(verdicts["verdict"], verdicts["decided_by"], strict=True)
    ]  # with the paper's Delta, then with the clients' own
    return cells[0] if verdicts["verdict"].nunique() == 1 else f"{cells[0]}; own Delta: {cells[1]}"


def tally(verdicts: pd.DataFrame) -> str:
    """How many verdicts of each kind, by regime, with the paper's Delta."""
    paper = verdicts[verdicts["Delta"] != "true"]
    tested = pd.to_numeric(paper["p_right"], errors="coerce").notna()
    words = []
    for regime, mine in paper.groupby("regime", sort=False):
        kinds = []
        for kind, those in (("tested", mine[tested[mine.index]]), ("counted", mine[~tested[mine.index]])):
            counts = ", ".join(f"{verdict} {(those['verdict'] == verdict).sum()}" for verdict in claims.VERDICTS)
            kinds.append(f"{len(those)} {kind} ({counts})")
        words.append(f"{regime_in_words(regime)}: {', '.join(kinds)}")
    return "; ".join(words)


READING = (  # how the verdicts are to be read
    "M, T, the noise and the shift are this project's, for the paper does not state them; so is what its words mean in "
    "numbers. In brackets is what decides: the comparison that is furthest from the claim, as a ratio of mean regrets "
    "or a mean slope. What does not hold can be better than claimed: compare that number with the claim. A slope "
    "measured over these M and T does not refute an asymptotic bound. Of clients that are alike, their own Delta is 0, "
    "at which PF-PNE never leaves its federated stage."
)


def claims_caption(verdicts: pd.DataFrame, evidence: Evidence) -> str:
    return (
        f"The paper's claims, tested with M = {evidence.n_clients} clients, T = {evidence.horizon:,}, shift "
        f"{evidence.shift:g} and up to {evidence.n_runs} paired runs ({evidence.figure_runs} with FN-UCB). "
        f"The level is {claims.ALPHA:g} for all tests of one column and one Delta, which are sign-flip tests of paired "
        "differences (they suppose that, on the border of a claim, a difference is as likely as its opposite) with "
        f"Holm's correction; with {evidence.figure_runs} runs no p-value is below 1/{2**evidence.figure_runs:,}, so "
        "FN-UCB alone seldom refutes anything. Claims on communication and times are counted, not tested. "
        f"{READING} PF-PNE is "
        f"given the paper's Delta = {claims.GIVEN[0]}; where the clients' own Delta changes the verdict, that one "
        f"follows. {tally(verdicts)}."
    )


# --- deviations from the paper -----------------------------------------------------------------------


def make_deviations(evidence: Evidence) -> Table:
    """What other readings of the paper would change: see pfpne.paper.deviations."""
    table = deviations.measure(evidence)
    caption = (
        f"Mean R(T)/M under another reading of the paper over mean R(T)/M under ours, with a bootstrap 95 % interval: "
        f"M = {evidence.n_clients}, T = {evidence.horizon:,}, {evidence.figure_runs} paired runs, Bernoulli rewards."
    )
    return Table("deviations", caption, as_markdown(*ratios(table)), {"deviations.csv": as_csv(table)})


def ratios(table: pd.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: a row a reading, a column an objective."""
    objectives = list(dict.fromkeys(table["objective"]))
    rows = []
    for (number, algorithm, what), mine in table.groupby(["deviation", "algorithm", "other reading"], sort=False):
        cells = {row["objective"]: _ratio(row) for row in mine.to_dict("records")}
        rows.append([f"*{number}*", algorithm, what, *(cells.get(name, table1.DASH) for name in objectives)])
    return ["#", "Algorithm", "Other reading", *objectives], rows


def _ratio(row: dict) -> str:
    if all(f"{row[name]:.6g}" == "1" for name in ("ratio", "low", "high")):  # as the CSV has it
        return "1 in every run"
    interval = "" if pd.isna(row["low"]) else f" [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{row['ratio']:.3f}{interval}"


# --- the pages that show tables -----------------------------------------------------------------------

BEGIN, END = "<!-- claims: begin -->", "<!-- claims: end -->"
MEASURED = "<!-- measured: begin -->", "<!-- measured: end -->"


def readme_block(verdicts: pd.DataFrame) -> str:
    """The README's verdicts, made of claims.csv alone, markers included."""
    headings, rows = summary(verdicts)
    return (
        f"{BEGIN}\n"
        "*Made by `python -m pfpne.paper readme` from [figures/claims.csv](figures/claims.csv), where the numbers are; "
        "do not edit.*\n\n"
        f"With the paper's Delta = {claims.GIVEN[0]}: {tally(verdicts)}. "
        "Where PF-PNE given the clients' own Delta fares differently, that verdict follows. "
        f"{READING}\n\n"
        f"{as_markdown(headings, rows)}"
        f"{END}"
    )


def read_claims(folder: Path = FIGURES) -> pd.DataFrame:
    """claims.csv as it was written: every column a string."""
    return pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)


def deviations_block(table: pd.DataFrame) -> str:
    """The measured part of docs/deviations.md, made of deviations.csv alone, markers included."""
    begin, end = MEASURED
    return (
        f"{begin}\n"
        "*Made by `python -m pfpne.paper readme` from [figures/deviations.csv](../figures/deviations.csv); do not edit.*\n\n"
        f"{as_markdown(*ratios(table))}"
        f"{end}"
    )


def with_block(page: str, block: str) -> str:
    """The page's text with the block, whose first and last lines are its markers; ValueError if they are not there."""
    lines = block.split("\n")
    first, last = lines[0], lines[-1]
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not (begin and end):
        raise ValueError(f"the page needs the lines {first} and {last}, in this order.")
    return before + block + after


def update_readme(path: Path = ROOT / "README.md", folder: Path = FIGURES) -> None:
    """Write the verdicts of claims.csv into the README."""
    _update(path, readme_block(read_claims(folder)))


def update_deviations(path: Path = ROOT / "docs" / "deviations.md", folder: Path = FIGURES) -> None:
    """Write the ratios of deviations.csv into the page on deviations."""
    _update(path, deviations_block(pd.read_csv(folder / "deviations.csv")))


def _update(page: Path, block: str) -> None:
    write_atomically(page, with_block(page.read_text(encoding="utf-8"), block).encode())
