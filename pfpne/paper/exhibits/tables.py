"""The tables of the paper and of the claims, and the pages that show some of them."""

import re
from dataclasses import replace
from pathlib import Path

import pandas as pd

from pfpne.paper.claims import verdicts as claims
from pfpne.paper.claims.evidence import Study
from pfpne.paper.claims.tests import CUT, MUCH
from pfpne.paper.exhibits import assumptions, beyond, deviations, findings, printed, sites, table1
from pfpne.paper.run.folders import FIGURES
from pfpne.paper.run.groups import PAPER
from pfpne.paper.run.notebooks import SITES
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.show.export import Exhibit, as_latex, as_list, as_markdown, in_latex, table_exhibit
from pfpne.paper.show.style import DASH, label, noise_in_words, title
from pfpne.paths import ROOT, write_atomically

OURS = "ours, on "  # before the place of what is no claim of the paper's
EVERY_NOISE = "whatever the noise"
READING = (  # how the verdicts are to be read
    "M, T, the noise and the shift are this project's, because the paper does not state them. So is what its words "
    "mean in numbers. In brackets is what decides: the part that is furthest from the claim, as a ratio of mean "
    "regrets or a mean slope; for a counted claim, what refutes it; or why nothing is decided. For identical clients "
    "the true Delta is 0, and with that PF-PNE never leaves its federated stage."
)


def make_table1(study: Study) -> Exhibit:
    """The paper's Table 1 beside what is measured: see pfpne.paper.exhibits.table1."""
    table, caption = table1.table1(study), table1.caption(study)
    shown = table1.shown(table)
    latex = (
        "% Needs \\usepackage{booktabs,graphicx}. As wide as a page of two columns.\n"
        "\\begin{table*}\n\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"
        f"\\caption{{{in_latex(caption)}}}\n\\label{{tab:table1}}\n"
        f"\\resizebox{{\\textwidth}}{{!}}{{{as_latex(shown, 'lllll rrl rr r', multicolumn_format='c')}}}\n"
        "\\end{table*}\n"
    )
    plain = shown.set_axis([", ".join(filter(None, pair)) for pair in shown.columns], axis=1)
    return table_exhibit("table1", caption, plain, {"table1": table}, latex)


def make_claims(study: Study) -> Exhibit:
    """The verdicts: see pfpne.paper.claims.verdicts. claims.csv has one row per verdict, claims_comparisons.csv one per
    comparison, and claims_runs.csv what each comparison was in each run.
    """
    verdicts, comparisons, runs = claims.evaluate(study)
    caption = (
        f"The paper's claims, tested with M = {study.n_clients} clients, T = {study.horizon:,}, shift {study.shift:g} "
        f"and up to {study.n_runs} paired runs ({study.sweep_runs} where many values are swept). Sign-flip tests of "
        f"paired differences, at level {claims.ALPHA:g} for the k claims of one family in one column (one noise, one "
        "kind of cells, one Delta for PF-PNE): each p-value is multiplied by k, because one of the two hypotheses of "
        "a claim is true and only that one can be rejected wrongly. The tests suppose that, on the border of a "
        f"claim, a difference is as likely as its opposite. Claims about every run are counted, not tested. {READING} "
        f"PF-PNE is given the paper's Delta = {claims.GIVEN[0]}, and cells are random. If the true Delta or cyclic "
        f"cells change the verdict, that verdict follows. {tally(verdicts)}"
    )
    columns = ["id", "whose", "regime", "cells", "Delta", "verdict", "measured"]
    measured = verdicts[columns].assign(regime=verdicts["regime"].map(noise_in_words))
    details = as_markdown(measured.rename(columns=str.capitalize).rename(columns={"Id": "Claim"}))
    shown, page = summary(verdicts), f"\n## What was measured\n\n{details}"
    numbers = {"claims": verdicts, "claims_comparisons": comparisons, "claims_runs": runs}
    return table_exhibit("claims", caption, shown, numbers, claims_in_latex(shown, caption), page, details)


def make_primary(study: Study) -> Exhibit:
    """The ten comparisons of the main figure on random cells: see pfpne.paper.claims.verdicts.primary."""
    table = claims.primary(study)
    every = table[table["objective"] == "all"].iloc[0]
    caption = (
        f"Whether PF-PNE has the smallest regret of the paper's five: M = {study.n_clients} clients, T ="
        f" {study.horizon:,}, random cells, {study.n_runs} paired runs, sign-flip tests with Holm's correction over the"
        " rows. The ratio is that of mean regrets to the rival with the smallest, with a 95 % bootstrap interval; the"
        " probability is that of a run of PF-PNE having less regret than one of that rival. Over all rows it is"
        f" {every['improvement']:.2f} [{every['improvement_low']:.2f}, {every['improvement_high']:.2f}], by a bootstrap"
        " over runs within each row."
    )
    return table_exhibit("claims_primary", caption, primary(table), {"claims_primary": table})


def primary(table: pd.DataFrame) -> pd.DataFrame:
    """The primary family, as the page on the claims shows it: see pfpne.paper.claims.verdicts.primary."""
    rows = []
    for row in table[table["objective"] != "all"].to_dict("records"):
        cut = f" ({row['phase']:.0%} of T is one phase)" if row["phase"] > CUT else ""
        rows.append(
            {
                "Objective": title(row["objective"]),
                "Noise": noise_in_words(row["regime"]),
                "Best rival": label(row["rival"]),
                "PF-PNE / rival": f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]",
                "P(PF-PNE has less)": f"{row['improvement']:.2f}",
                "Verdict": f"{row['verdict']}{cut}",
            }
        )
    return pd.DataFrame(rows)


def claims_in_latex(shown: pd.DataFrame, caption: str) -> str:
    """On as many pages as it needs, with columns of fixed widths."""
    regimes, caption = len(shown.columns) - 2, in_latex(caption)
    widths = (0.09, 0.27, *[round(0.56 / regimes, 3)] * regimes)
    columns = "".join(rf">{{\raggedright\arraybackslash}}p{{{width}\textwidth}}" for width in widths)
    latex = as_latex(shown, columns, longtable=True, caption=caption, label="tab:claims")
    latex = latex.replace(rf"\caption[]{{{caption}}}", r"\caption[]{The same, continued.}")
    return (
        "% Needs \\usepackage{booktabs,longtable,array}. A longtable wants pages of one column: hence \\onecolumn,\n"
        "% and \\twocolumn after it. Leave both out where there is one column anyway.\n"
        "\\onecolumn\n{\\scriptsize\\setlength{\\tabcolsep}{3pt}\\setlength{\\LTcapwidth}{\\textwidth}\n"
        f"{latex}}}\n\\twocolumn\n"
    )


def make_times(study: Study) -> Exhibit:
    """The seconds behind the claims on time, apart from what must be the same twice."""
    table = claims.times(study)
    caption = (
        "Median wall time of one run in seconds, as implemented here, with several runs at a time on one machine. "
        f"Then the share of runs in which FN-UCB takes at least {MUCH:g} times as long as each of the others, and the "
        f"share in which none of the others takes more than {MUCH:g} times as long as another."
    )
    names = {name: label(name) for name in PAPER} | {"slower": "FN-UCB slower", "alike": "Others similar"}
    formats = dict.fromkeys(PAPER, "{:.3g}") | dict.fromkeys(("slower", "alike"), "{:.0%}")
    shown = table.apply(lambda column: column.map(formats.get(column.name, "{}").format))
    shown = shown.rename(columns=lambda name: names.get(name, name.capitalize()))
    return table_exhibit("claims_times", caption, shown, {"claims_times": table})


def summary(verdicts: pd.DataFrame) -> pd.DataFrame:
    """One row per claim, one column per noise; in brackets what decides; other verdicts if they differ."""
    ours = verdicts["whose"] == "ours"
    verdicts = verdicts.assign(place=verdicts["place"].mask(ours, OURS + verdicts["place"]))
    by_claim = verdicts.groupby(["id", "place", "statement", "regime"], sort=False)
    cells = by_claim[["cells", "Delta", "verdict", "decided_by"]].apply(_cell)
    cells = cells.unstack(sort=False, fill_value=DASH)[verdicts["regime"].unique()]
    table = cells.rename(columns=noise_in_words).rename_axis(columns=None).reset_index().drop(columns="id")
    return table.rename(columns={"place": "In the paper", "statement": "Claim, as tested"})


def _cell(verdicts: pd.DataFrame) -> str:
    """verdicts: with the paper's Delta first, then with the true one; then the same on cyclic cells."""
    words = []
    for row in verdicts.to_dict("records"):
        found = f"{row['verdict']} ({row['decided_by']})" if row["decided_by"] else row["verdict"]
        where = ["cyclic cells"] * (row["cells"] == "cyclic") + ["true Delta"] * (row["Delta"] == "true")
        if not words or row["verdict"] != verdicts["verdict"].iloc[0]:
            words.append(f"{', '.join(where)}: {found}" if words else found)
    return "; ".join(words)


def counted(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The rows of head counts, with the column they are in: with the paper's Delta, and facts of all noises once."""
    mine = verdicts[verdicts["Delta"] != "true"]
    once = mine["once"] == "once"
    column = mine["regime"].map(noise_in_words) + ", " + mine["cells"] + " cells"
    return mine.assign(column=column.mask(once, EVERY_NOISE))[~(once & mine.duplicated(["id", "measured"]))]


def tally(verdicts: pd.DataFrame) -> str:
    """How many verdicts of each kind, in sentences: of the paper's claims, and of ours."""
    words = ""
    for whose, mine in counted(verdicts).groupby("whose", sort=False):
        found = [*mine["verdict"]]
        counts = ", ".join(f"{verdict} {found.count(verdict)}" for verdict in claims.VERDICTS if verdict in found)
        what = "questions of ours" if whose == "ours" else "claims of the paper"
        words += f" {len(found)} verdicts on {what}: {counts}."
    return words.strip()


def heads(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The same, one row per column: the paper's + ours."""
    rows = []
    for column, mine in counted(verdicts).groupby("column", sort=False):
        ours, theirs = (mine["verdict"][(mine["whose"] == "ours") == whose].tolist() for whose in (True, False))
        rows.append({"Column": column} | {v: f"{theirs.count(v)} + {ours.count(v)}" for v in claims.VERDICTS})
    return pd.DataFrame(rows)


def make_assumptions(problems: pd.DataFrame, p: Parameters) -> Exhibit:
    """What the paper assumes, measured: see pfpne.paper.exhibits.assumptions."""
    caption = (
        f"Medians over {p.n_runs} problems of M = {p.n_clients} clients, cells down to depth "
        f"{assumptions.DEEPEST[p.profile]}. Delta is the smallest that satisfies Assumption 3. Delta (4) is the "
        "smallest that satisfies Assumption 4 with any omega. The two omega are the smallest with Delta (or none) "
        "and with Delta (4). nu_1 and rho are what the cells of the worst client satisfy, rho by least squares, with "
        "a dash if cells do not shrink. The dimensions are counted with 1 and 0.5, which the algorithms are given: "
        "the smallest and the largest of the clients, that of f-bar, and d_new. They are slopes over these depths, "
        "not limits."
    )
    names = {"Delta_4": "Delta (4)", "omega_4": "omega (4)", "d_mean": "d-bar"}
    shown = assumptions.summary(problems)
    shown = shown.rename(columns=names | {name: name.capitalize() for name in ("objective", "shift", "cells")})
    latex = as_latex(shown, "lrl" + "r" * (len(shown.columns) - 3))
    return table_exhibit("assumptions_table", caption, shown, {"assumptions_table": problems}, latex)


def make_beyond_sites(p: Parameters) -> Exhibit:
    """The parts of PF-PNE+ on the problem of notebook 6, at its scale: what each adds to the AUC on unseen images."""
    of = replace(p, **SITES[p.profile])
    table = sites.compared(sites.results(of, sites.IN_PARTS), of.seed)
    every = table[table["site"] == "all"]
    caption = (
        "How far the AUC of PF-PNE+ on images never seen is above that of each variant, with a bootstrap 95 % "
        f"interval: the {of.n_clients} sites of notebook 6, {of.horizon} fits per site, {of.n_runs} paired runs. The "
        f"interval is above 0 in {(every['low'] > 0).sum()} of {len(every)} rows, and below 0 in "
        f"{(every['high'] < 0).sum()}."
    )
    differences = every[["difference", "low", "high"]].to_numpy()
    shown = pd.DataFrame({"Variant": every["against"]})
    shown["PF-PNE+ minus it"] = [f"{x:+.4f} [{a:+.4f}, {b:+.4f}]" for x, a, b in differences]
    return table_exhibit("beyond_sites", caption, shown, {"beyond_sites": table}, as_latex(shown, "lr"))


def make_deviations(study: Study) -> Exhibit:
    """What other readings of the paper would change: see pfpne.paper.exhibits.deviations."""
    table = deviations.measure(study)
    caption = (
        "Mean R(T)/M under another reading of the paper over mean R(T)/M under ours, with a bootstrap 95 % interval. "
        f"M = {study.n_clients}, T = {study.horizon:,}, {study.figure_runs} paired runs, Bernoulli rewards unless "
        "another noise is named."
    )
    return table_exhibit("deviations", caption, ratios(table), {"deviations": table})


def ratios(table: pd.DataFrame) -> pd.DataFrame:
    """One row per reading, one column per objective."""
    names = {"deviation": "#", "algorithm": "Algorithm", "other reading": "Other reading"}
    cells = table.assign(deviation=table["deviation"].map("*{}*".format), cell=table.apply(_ratio, axis=1))
    cells = cells.set_index([*names, "objective"])["cell"].unstack(sort=False, fill_value=DASH)
    return cells[table["objective"].unique()].rename_axis(columns=None).reset_index().rename(columns=names)


def _ratio(row: pd.Series) -> str:
    if all(f"{row[name]:.6g}" == "1" for name in ("ratio", "low", "high")):  # as the CSV has it
        return "1 in every run"
    return f"{row['ratio']:.3f}" if pd.isna(row["low"]) else "{ratio:.3f} [{low:.3f}, {high:.3f}]".format(**row)


def update(page: Path, name: str, block: str) -> None:
    """Write the block between the page's lines that say where `name` begins and ends; ValueError without them."""
    begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
    found = re.fullmatch(f"(.*{begin}).*({end}.*)", page.read_text(encoding="utf-8"), re.DOTALL)
    if not found:
        raise ValueError(f"{page.name} needs the lines {begin.strip()} and {end}, in this order.")
    write_atomically(page, f"{found[1]}{block}{found[2]}".encode())


def printed_blocks(folder: Path) -> list[tuple[str, str, str, str]]:
    """(page, block, files, text) of what the search for the printed reading says, for README and its page."""
    page = "docs/as-printed.md"
    words, statements, ranking = (
        (folder / name).read_text(encoding="utf-8")
        for name in ("readings_in_words.md", "statements.md", "ranking_printed.md")
    )
    tested = pd.read_csv(folder / "statements.csv")
    words += as_list(printed.where_it_ends(pd.read_csv(folder / "ranking_printed.csv"), tested))
    contributions = as_markdown(printed.contributions_in_words(pd.read_csv(folder / "readings.csv")))
    return [
        ("README.md", "printed", "readings_in_words.md ranking_printed.csv statements.csv", words),
        (page, "readings", "readings_in_words.md", words),
        (page, "ranking", "ranking_printed.csv", ranking),
        (page, "contributions", "readings.csv", contributions),
        (page, "statements", "statements.csv statements_comparisons.csv", statements),
        (page, "untested", "", as_markdown(printed.untested())),
    ]


def update_pages(root: Path = ROOT, folder: Path = FIGURES) -> None:
    """Write what the files in folder say into the README and the pages, each block where the page says."""
    verdicts = pd.read_csv(folder / "claims.csv", dtype=str, keep_default_na=False)  # as they were written
    compared = pd.read_csv(folder / "claims_comparisons.csv", dtype={"Delta": str}).fillna({"Delta": ""})
    compared_first = pd.read_csv(folder / "claims_primary.csv", dtype={"regime": str})
    found = findings.sentences(verdicts, compared, pd.read_csv(folder / "specification_curve.csv"))
    other_readings = as_markdown(ratios(pd.read_csv(folder / "deviations.csv")))
    scale = f"{findings.scale()}\n\n"
    reading = (
        f"{scale}With the paper's Delta = {claims.GIVEN[0]}: {tally(verdicts)} By column, as the paper's + ours:\n\n"
        f"{as_markdown(heads(verdicts))}\nIf the true Delta or cyclic cells change the verdict, that verdict follows. "
        f"{READING}\n\n"
    )
    blocks = [
        ("README.md", "findings", "claims.csv claims_comparisons.csv specification_curve.csv", scale + as_list(found)),
        ("docs/claims.md", "primary", "claims_primary.csv", as_markdown(primary(compared_first))),
        ("docs/claims.md", "grid", "claims.csv", as_markdown(findings.grid(verdicts))),
        ("docs/claims.md", "claims", "claims.csv", reading + as_markdown(summary(verdicts))),
        ("docs/deviations.md", "measured", "deviations.csv", other_readings),
    ]
    if (path := folder / "readings.csv").exists():  # of a notebook that may not have been run yet
        blocks += printed_blocks(folder)
    if (path := folder / "beyond.csv").exists() and (unseen := folder / "held_out.csv").exists():  # the same
        table = pd.read_csv(path)
        short = beyond.in_short(table, pd.read_csv(unseen))
        blocks.append(("README.md", "beyond", f"{unseen.name} {path.name}", as_list(short)))
        blocks.append(("docs/pf-pne-plus.md", "beyond", path.name, as_list(beyond.sentences(table))))
    if (path := folder / "regime_guide.md").exists():  # the same
        blocks.append(("docs/choosing.md", "guide", path.name, path.read_text(encoding="utf-8")))
    if (path := folder / "tune_your_own.csv").exists():  # the same
        text = as_list(sites.sentences(sites.compared(pd.read_csv(path), seed=0)))
        blocks.append(("docs/choosing.md", "sites", path.name, text))
    if (path := folder / "lemmas.md").exists():  # the same
        blocks.append(("docs/lemmas.md", "lemmas", path.name, path.read_text(encoding="utf-8")))
    for page, name, sources, block in blocks:
        files = ", ".join(f"figures/{source}" for source in sources.split()) or "the package"
        update(
            root / page,
            name,
            f"<!-- Made by `python -m pfpne.paper readme` from {files}: do not edit. -->\n\n{block}\n",
        )
