"""The generated parts of the pages: every block between two markers is written from the files in figures/.

`python -m pfpne.paper readme` writes the README and the pages of docs/. Nothing here runs or draws anything.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from pfpne.paper.claims.verdicts import PF_PNE_DELTAS
from pfpne.paper.exhibits import as_printed, beyond, confirmation, deviations, findings, sites, untuned, verdict_tables
from pfpne.paper.run.folders import FIGURES_FOLDER
from pfpne.paper.show.export import as_list, as_markdown
from pfpne.paper.show.style import TITLES, title
from pfpne.paths import OUTPUT_ROOT, write_atomically


def update_block(page: Path, name: str, block: str) -> None:
    """Write the block between the page's markers for the begin and the end of `name`; ValueError without them."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    parts = re.fullmatch(f"(.*{begin}).*({end}.*)", page.read_text(encoding="utf-8"), re.DOTALL)
    if not parts:
        raise ValueError(f"{page.name} needs the lines {begin.strip()} and {end}, in this order.")
    write_atomically(page, f"{parts[1]}{block}{parts[2]}".encode())


class Block(NamedTuple):
    """A generated part of a page: the name in its markers, the files that it is made from, and its text."""

    page: str
    name: str
    files: tuple[str, ...]
    text: str


def update_pages(root: Path = OUTPUT_ROOT, folder: Path = FIGURES_FOLDER) -> None:
    """Write the README's and the pages' blocks, between their markers, from the files in the folder.

    Blocks of a notebook that has not been run yet are left as they are.
    """
    blocks = claim_blocks(folder)
    if (folder / "readings.csv").exists():
        blocks += printed_blocks(folder)
    if (folder / "untuned.csv").exists() and (folder / "beyond.csv").exists():
        drawn, table = pd.read_csv(folder / "untuned.csv"), pd.read_csv(folder / "beyond.csv")
        blocks.append(Block("README.md", "beyond", ("untuned.csv",), as_list(untuned.in_short(drawn))))
        words = as_list([*untuned.sentences(drawn), *beyond.sentences(table)])
        blocks.append(Block("docs/pf-pne-plus.md", "beyond", ("untuned.csv", "beyond.csv"), words))
    if (folder / "tune_your_own.csv").exists():
        table = pd.read_csv(folder / "tune_your_own.csv")
        if set(sites.SITE_COLUMNS) <= set(table):  # else it is of an earlier form, and its page stays as it is
            text = as_list(sites.sentences(sites.compare(table, seed=0)))
            blocks.append(Block("docs/choosing.md", "sites", ("tune_your_own.csv",), text))
    for page, name, file in (
        ("docs/choosing.md", "guide", "regime_guide.md"),
        ("docs/lemmas.md", "lemmas", "lemmas.md"),
    ):
        if (folder / file).exists():
            blocks.append(Block(page, name, (file,), (folder / file).read_text(encoding="utf-8")))
    for block in blocks:
        files = ", ".join(block.files) or "the package"
        origin = f"<!-- Do not edit: made from {files}. -->"
        update_block(root / block.page, block.name, f"{origin}\n{block.text}")


def claim_blocks(folder: Path) -> list[Block]:
    """The blocks about the claims, the specification curve and the deviations, for README and their pages."""
    verdicts = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)  # as they were written
    comparisons = pd.read_csv(folder / "claims_comparisons.csv", dtype={"Delta": str}).fillna({"Delta": ""})
    primary = pd.read_csv(folder / "claims_primary.csv", dtype={"noise": str})
    specifications = pd.read_csv(folder / "specification_curve.csv")
    sources = ("claims.csv", "claims_comparisons.csv", "specification_curve.csv")
    scale = f"{findings.claims_scale_in_words()}\n\n"
    counts = (
        f"{scale}PF-PNE is given the paper's Delta = {PF_PNE_DELTAS[0]}. {verdict_tables.tally(verdicts)} "
        "The table"
        f" counts them by column, as the paper's + ours.\n\n"
        f"{as_markdown(verdict_tables.counts_by_column(verdicts))}\nWhere the true Delta or cyclic"
        f" cells lead to another verdict, it is given after the first. {verdict_tables.VERDICT_LEGEND}\n\n"
    )
    page, measured = "docs/claims.md", deviations.as_strings(pd.read_csv(folder / "deviations.csv"))
    measured = measured.rename(columns={name: title(name) for name in TITLES})
    in_panels = (
        f"{as_markdown(verdict_tables.primary_as_strings(primary))}\n{verdict_tables.without_phase_rule(primary)}\n"
    )
    in_words = as_list(findings.sentences(verdicts, comparisons, specifications))
    return [
        Block("README.md", "findings", sources, scale + in_words),
        Block(page, "primary", ("claims_primary.csv",), in_panels),
        Block(page, "grid", ("claims.csv",), as_markdown(findings.sign_table(verdicts))),
        Block(page, "claims", ("claims.csv",), counts + as_markdown(verdict_tables.claims_as_strings(verdicts))),
        Block("docs/deviations.md", "measured", ("deviations.csv",), as_markdown(measured)),
    ]


def printed_blocks(folder: Path) -> list[Block]:
    """The blocks about the search for the printed reading, for README and its page."""
    answer, statements, ranking = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("readings_in_words.md", "statements.md", "ranking_printed.md")
    )
    search, verdicts, ranked = (
        pd.read_csv(folder / name) for name in ("readings.csv", "statements.csv", "ranking_printed.csv")
    )
    under_printed = verdicts[verdicts["reading"] == "printed"]
    in_model = as_printed.model_in_words(verdicts)
    in_short = as_printed.in_short(search, under_printed, confirmation.complete_reading("printed", "paper"))
    in_short = as_list([*in_short, as_printed.algorithms_not_plotted_in_words(ranked, by_name=False), in_model])
    named = as_printed.algorithms_not_plotted_in_words(ranked, by_name=True)
    answer += as_list([as_printed.hct_in_words(ranked), named, in_model, as_printed.longer_model_in_words(search)])
    contributions = as_markdown(as_printed.contributions_in_words(search))
    page, files = "docs/as-printed.md", ("statements.csv", "statements_comparisons.csv")
    readme_files = ("statements.csv", "ranking_printed.csv", "readings.csv")
    return [
        Block("README.md", "printed", readme_files, in_short),
        Block(page, "readings", ("readings_in_words.md",), answer),
        Block(page, "ranking", ("ranking_printed.csv",), ranking),
        Block(page, "contributions", ("readings.csv",), contributions),
        Block(page, "statements", files, statements),
        Block(page, "untested", (), as_markdown(as_printed.tabulate_untested())),
    ]
