"""What was found, in sentences that a person reads in a minute, and the verdicts as one sign a cell.

Every number and every count comes from claims.csv, claims_comparisons.csv and specification_curve.csv, as they were
written; the sentences say what was counted, whatever came out.
"""

import re
from typing import NamedTuple

import pandas as pd

from pfpne.paper import specification
from pfpne.paper.claims import CLAIMS, GIVEN, VERDICTS
from pfpne.paper.looks import DASH, TITLES, noise_in_words, title

SIGNS = dict(zip(VERDICTS, "✓▲≡✗?∅", strict=True))
# The places of the claims that the README shows: what the main text says by a figure, a table or a theorem.
MAIN_TEXT = r"(?!Appendix).*(?:Figure|Table|Theorem)"


def _parts(claim: str) -> tuple[str, str]:
    """What a claim's id is about, its kind, and the objective that it ends with, or nothing."""
    kind, _, last = claim.rpartition("-")
    return (kind, last) if last in TITLES else (claim, "")


SHORT = {_parts(claim.id)[0]: claim.short for claim in CLAIMS}
OURS = {_parts(claim.id)[0] for claim in CLAIMS if claim.ours}


def grid(verdicts: pd.DataFrame) -> pd.DataFrame:
    """A row a kind of claim, a column a regime: a sign an objective, in the order that it names.

    With the paper's Delta, on random cells; on cyclic ones after a stroke, where that is another.
    """
    paper = verdicts[verdicts["Delta"] != "true"]
    cells = paper.assign(sign=paper["verdict"].map(SIGNS)).groupby(["id", "regime"], sort=False)["sign"]
    signs = cells.agg(lambda found: "/".join(dict.fromkeys(found))).unstack(sort=False)
    signs = signs.reindex(index=paper["id"].unique(), columns=paper["regime"].unique())
    parts = [_parts(claim) for claim in signs.index]
    table = signs.groupby([kind for kind, _ in parts], sort=False).agg(lambda row: " ".join(row.dropna()) or DASH)
    on = [", ".join(title(objective) for of, objective in parts if of == kind and objective) for kind in table.index]
    ours = [" (ours)" * (kind in OURS) for kind in table.index]
    names = [f"{SHORT[kind]}{of}{on and f' · {on}'}" for kind, of, on in zip(table.index, ours, on, strict=True)]
    return table.rename(columns=noise_in_words).set_axis(names).rename_axis(index="Claim", columns=None).reset_index()


def main_text(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The rows of the claims of MAIN_TEXT, chosen by where they stand in the paper, whatever their verdicts."""
    return verdicts[verdicts["place"].str.match(MAIN_TEXT)]


class _Verdicts(NamedTuple):
    """The verdicts and comparisons of one kind of claim, with one Delta for PF-PNE ("0.01", "true")."""

    verdicts: pd.DataFrame
    comparisons: pd.DataFrame

    @staticmethod
    def of(table: pd.DataFrame, kind: str, Delta: str = GIVEN[0]) -> pd.DataFrame:
        mine = table["id"].map(lambda claim: _parts(claim)[0] == kind)
        return table[mine & table["Delta"].isin((Delta, ""))]

    @staticmethod
    def where(row: dict) -> str:
        objective, regime = _parts(row["id"])[1], noise_in_words(row["regime"])
        cells = ", cyclic cells" if row["cells"] == "cyclic" else ""
        return (f"{title(objective)}, {regime}" if objective and objective != row["regime"] else regime) + cells

    def having(self, verdict: str, kind: str, Delta: str = GIVEN[0], of: tuple = VERDICTS) -> tuple[int, int, str]:
        """In how many cells the claim has the verdict, of how many with one of these, and where it has it."""
        mine = self.of(self.verdicts, kind, Delta)
        mine = mine[mine["verdict"].isin(of)]
        found = mine[mine["verdict"] == verdict]
        return len(found), len(mine), "; ".join(map(self.where, found.to_dict("records")))

    def among(self, kind: str, Delta: str = GIVEN[0]) -> str:
        holds, cells, _ = self.having("holds", kind, Delta)
        return f"{holds} of {cells}"

    def decidable(self, kind: str) -> str:
        """In how many cells it holds, of those whose runs can tell, and where it does."""
        holds, cells, where = self.having("holds", kind, of=("holds", "does not hold", "undecided"))
        return f"{holds} of the {cells} decidable columns{where and f' ({where})'}"

    def decided(self, kind: str, Delta: str = GIVEN[0]) -> str:
        """In how many cells it holds, and what became of the others."""
        found = [*self.of(self.verdicts, kind, Delta)["verdict"]]
        words = {name: "refuted" if name == "does not hold" else name for name in VERDICTS[1:] if name in found}
        others = ", ".join(f"{found.count(name)} {word}" for name, word in words.items())
        none = set(found) <= {"undecided", "not decidable"}
        holds = f"no cell of {len(found)} decided" if none else f"{found.count('holds')} of {len(found)} cells"
        return f"{holds} ({others})" if others else holds

    def span(self, kind: str, column: str, Delta: str = GIVEN[0], refuted: bool = False) -> str:
        """From the smallest to the largest of a column of the comparisons, or of the largest of each refuted cell."""
        mine = self.of(self.comparisons, kind, Delta).dropna(subset=column)
        if refuted:
            cell, verdicts = ["id", "regime", "cells"], self.of(self.verdicts, kind, Delta)
            mine = mine.merge(verdicts.loc[verdicts["verdict"] == "does not hold", cell])
            mine = mine.loc[mine.groupby(cell)[column].idxmax()]
        if mine.empty:
            return ""
        low, high = (mine.loc[found] for found in (mine[column].idxmin(), mine[column].idxmax()))
        return f"{low[column]:.3g} ({self.where(low)}) to {high[column]:.3g} ({self.where(high)})"

    def against(self, rival: str, kinds: tuple[str, ...], regime: str, cells: str = "random") -> str:
        """PF-PNE's regret over a rival's, by objective, in each of these kinds of claims, one after the other."""
        found = self.comparisons
        found = found[(found["what"] == f"PF-PNE - {rival}") & (found["regime"] == regime) & (found["cells"] == cells)]
        found = found[found["Delta"] == GIVEN[0]].drop_duplicates("id").set_index("id")["ratio"]
        objectives = [name for name in TITLES if all(f"{kind}-{name}" in found.index for kind in kinds)]
        ratios = (", ".join(f"{found[f'{kind}-{name}']:.3g}" for kind in kinds) for name in objectives)
        return "; ".join(f"{title(name)} {of}" for name, of in zip(objectives, ratios, strict=True))


def _told(runs: str, name: str) -> str:
    """A number of the words of claims.csv on the runs, such as M or n."""
    return re.search(rf"\b{name} = ([\d.,]*\d)", runs)[1]


def scale(verdicts: pd.DataFrame) -> str:
    """The runs that the findings and tables are about, in a sentence."""
    runs = verdicts.drop_duplicates("id").set_index("id")["runs"]
    main, swept, long = (runs[f"{kind}-garland"] for kind in ("smallest", "settings", "later"))
    M, T, shift, n = (_told(main, name) for name in ("M", "T", "shift", "n"))
    return (
        f"M = {M} clients, T = {T} evaluations a client, shift {shift} (landmine: fields), n = {n} paired runs "
        f"({_told(swept, 'n')} where many values are swept, {_told(long, 'n')} at 10 T), unless another number is "
        "named; the paper states none of these. A cell is an objective in a column, a column a noise with a kind of "
        "cells."
    )


def sentences(verdicts: pd.DataFrame, comparisons: pd.DataFrame, readings: pd.DataFrame) -> list[str]:
    """The findings, Markdown. verdicts, comparisons: claims.csv, every column a string, and claims_comparisons.csv;
    readings: specification_curve.csv.
    """
    found = _Verdicts(verdicts, comparisons)
    Delta, own = GIVEN
    holds, cells, where = found.having("holds", "smallest")
    refuted, _, _ = found.having("does not hold", "smallest")
    behind = found.span("smallest", "ratio", refuted=True)
    rest = behind and f" Where the contrary was shown ({refuted} of {cells}), its regret is {behind} times that of the "
    rest = rest and f"{rest}best rival; {cells - holds - refuted} undecided."
    alike = readings["cut phase"] == specification.CHOICES["cut phase"][0]  # by all
    first, spared = (specification.shares(some).iloc[0] for some in (readings, readings[alike]))
    firsts = ", ".join(f"{first[f]:.1%} ({spared[f]:.1%}) on {title(f)}" for f in first.index)
    differences = found.of(verdicts, "delta-bounds").drop_duplicates("id")  # whatever the noise
    bounded = (differences["verdict"] == "holds").sum()
    measured = "; ".join(differences["decided_by"].where(differences["decided_by"] != "", differences["measured"]))
    longer = found.against("HCT (PyXAB)", ("sooner", "smallest", "later"), "bernoulli")
    than_pe = found.against("PE", ("beats-pe", "later-pe"), "bernoulli")
    runs = verdicts.drop_duplicates("id").set_index("id")
    (lost, noise), sent = (
        runs.loc["safe-garland", ["measured", "regime"]],
        runs.loc["confidential", ["measured", "runs"]],
    )
    M, T = (_told(sent["runs"], name) for name in ("M", "T"))
    shift, long_n = _told(runs.loc["smallest-garland", "runs"], "shift"), _told(runs.loc["later-garland", "runs"], "n")
    return [
        f"**PF-PNE has the smallest regret of the paper's five in {found.among('smallest')} comparisons** (objective, "
        f"noise, kind of cells{f'; {where}' if where else ''}), and in {found.among('smallest', own)} if it is given "
        f"the clients' own Delta.{rest}",
        f"**Other choices, other winners**: over all {len(readings):,} combinations of cells, horizon, noise, clients, "
        f"Delta, c, cut phase and HCT's c (means of {readings['n'].iloc[0]} runs, no test; in brackets without those "
        f"that spare PF-PNE alone the phase that the horizon cuts), PF-PNE is the smallest of the five in {firsts}. "
        f"Against HCT (PyXAB) whose c follows the noise it has less regret in {found.among('beats-tuned-hct')} "
        f"comparisons, with the clients' own Delta in {found.among('beats-tuned-hct', own)}.",
        f"**Its place changes with T**: PF-PNE's regret over HCT's (PyXAB) at T/10, T and 10 T (there n = {long_n}), "
        f"Bernoulli rewards: {longer or DASH}. Over PE's at T and 10 T: {than_pe or DASH}.",
        f"**Delta = {Delta}, as the paper sets it, bounds the clients' real differences on {bounded} of "
        f"{len(differences)} objectives** ({measured}). Where it does not, the theorem says nothing.",
        f"**Against PE, its own second stage without any federation**, PF-PNE has less regret in "
        f"{found.among('beats-pe')} comparisons with our clients (shift {shift}; the paper states none; in "
        f"{found.among('beats-pe', own)} with their own Delta), and with alike clients in "
        f"{found.among('better-than-pe')} ({found.among('better-than-pe', own)}).",
        f"**More clients, where they are alike**: that the average regret falls with M holds, with the clients' own "
        f"Delta, in {found.decided('falls-with-M', own)}, slopes {found.span('falls-with-M', 'mean', own)}; with the "
        f"paper's Delta: {found.decided('falls-with-M')}.",
        f"**Elimination**: with the experiments' c = 0.1 all confidence intervals hold in "
        f"{found.decidable('good-event-as-run')}, with the theory's c = 2 in {found.decidable('good-event')}; no "
        f"client's maximum is lost in {found.among('safe')} comparisons ({noise_in_words(noise)}, {lost}).",
        f"**Communication** stops by design; PF-PNE carries fewer numbers than Fed-PNE in {found.among('less-talk')} "
        f"comparisons, {found.span('less-talk', 'ratio')} times as many (its broadcast carries three numbers a node, "
        f"Fed-PNE's one); with the clients' own Delta in {found.among('less-talk', own)}, "
        f"{found.span('less-talk', 'ratio', own)} times as many. At M = {M} and T = {T}, {sent['measured']}. Fed-PNE "
        f"has twice the regret that it has with alike clients, or more, in {found.among('fed-depends')}.",
    ]
