"""What was found, in sentences that a person reads in a minute, and the verdicts as one sign a cell.

Every number and every count comes from claims.csv, claims_comparisons.csv and specification_curve.csv, as they were
written; the sentences say what was counted, whatever came out.
"""

import re

import pandas as pd

from pfpne.paper import specification
from pfpne.paper.claims import CLAIMS, GIVEN, VERDICTS
from pfpne.paper.looks import DASH, TITLES, title

SIGNS = dict(zip(VERDICTS, ("✓", "▲", "≡", "✗", "?", "∅"), strict=True))
SHORT = {  # of a claim, less the objective that its id ends with
    "smallest": "PF-PNE has the smallest regret of the paper's five",
    "fed-better": "Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB",
    "fed-far": "Fed-PNE has twice PF-PNE's regret, or more",
    "fed-local": "Fed-PNE's regret is smaller against the global optimum",
    "fed-depends": "Fed-PNE has twice the regret that it has with alike clients, or more",
    "doublesine-hct": "PF-PNE is slightly better than HCT (PyXAB) on DoubleSine",
    "doublesine-fed": "PF-PNE is much better than Fed-PNE on DoubleSine",
    "ackley-hct": "PF-PNE is similar to HCT (PyXAB) on Ackley",
    "ackley-fed": "PF-PNE is similar to Fed-PNE on Ackley",
    "beats-centralized": "PF-PNE has less regret than one HCT that sees every reward",
    "beats-pe": "PF-PNE has less regret than PE alone, its own second stage",
    "beats-tuned-hct": "PF-PNE has less regret than HCT (PyXAB) whose c follows the noise",
    "sooner": "At T/10: PF-PNE has less regret than HCT (PyXAB) and Fed-PNE",
    "later": "At 10 T: PF-PNE has less regret than HCT (PyXAB) and Fed-PNE",
    "later-pe": "At 10 T: PF-PNE has less regret than PE alone",
    "time-fn-ucb": "FN-UCB takes much longer than the others",
    "time-others": "The others take similar times",
    "fed-grows": "Fed-PNE still communicates after T/10 and after PF-PNE's last round",
    "pf-stops": "PF-PNE's communication stops",
    "bounded": "PF-PNE's communication is bounded",
    "rounds-bound": "PF-PNE's rounds are within the theorem's bound",
    "less-talk": "PF-PNE carries fewer numbers than Fed-PNE",
    "information": "The numbers that PF-PNE carries grow more slowly than T",
    "confidential": "No single reward is sent",
    "delta-bounds": "Delta = 0.01 bounds the clients' real differences",
    "smoothness": "The objectives are as smooth as nu_1 = 1 and rho = 0.5 say",
    "similarity": "At the global maximiser every client is within 0.01 of its own best value",
    "good-event": "Confidence intervals hold with the theory's constants",
    "good-event-as-run": "Confidence intervals hold with the experiments' constants",
    "safe": "No client's maximum is eliminated",
    "falls-with-M": "Alike clients: PF-PNE's average regret falls with M",
    "falls-as-stated": "Alike clients: it falls as fast as stated for d = 2, lenient; smoothness not valid",
    "better-than-hct": "Alike clients: PF-PNE has less regret than HCT alone",
    "better-than-pe": "Alike clients: PF-PNE has less regret than PE alone",
    "delta-zero": "With Delta = 0, PF-PNE's regret is Fed-PNE's",
    "delta-zero-cost": "With Delta = 0, PF-PNE sends as much as Fed-PNE",
    "any-Delta": "Whatever Delta: PF-PNE is at most slightly worse than PE alone",
    "adapts": "However alike the clients: PF-PNE is at most slightly worse than PE alone",
    "approaches": "Clients far apart: PF-PNE's regret is PE's",
    "finds-own": "PF-PNE's clients end nearer to their own optima than the global maximiser is",
    "finds-own-hct": "PF-PNE's clients end nearer to their own optima than HCT's (PyXAB)",
    "sublinear": "PF-PNE's regret grows more slowly than T, Delta valid, smoothness not",
    "sublinear-any": "PF-PNE's regret grows more slowly than T, any Delta",
    "settings": "Moving one setting changes PF-PNE's regret little",
}


# The places of the claims that the README shows: what the main text says by a figure, a table or a theorem.
MAIN_TEXT = r"(?!Appendix).*(?:Figure|Table|Theorem)"


def _parts(claim: str) -> tuple[str, str]:
    """What a claim's id is about, a key of SHORT, and the objective that it ends with, or nothing."""
    kind, _, last = claim.rpartition("-")
    return (kind, last) if claim not in SHORT and last in TITLES else (claim, "")


OURS = {_parts(claim.id)[0] for claim in CLAIMS if claim.ours}


def grid(verdicts: pd.DataFrame, in_words) -> pd.DataFrame:
    """A row a kind of claim, a column a regime (named by in_words): a sign an objective, in the order that it names.

    With the paper's Delta, on random cells; on cyclic ones after a stroke, where that is another.
    """
    paper = verdicts[verdicts["Delta"] != "true"]
    cells = paper.assign(sign=paper["verdict"].map(SIGNS)).groupby(["id", "regime"], sort=False)["sign"]
    signs = cells.agg(lambda found: "/".join(dict.fromkeys(found))).unstack(sort=False)
    signs = signs.reindex(index=paper["id"].unique(), columns=paper["regime"].unique())
    kinds = pd.DataFrame([_parts(claim) for claim in signs.index], index=signs.index, columns=["kind", "objective"])
    rows = []
    for kind, mine in kinds.groupby("kind", sort=False):
        on = ", ".join(title(objective) for objective in mine["objective"] if objective)
        found = {in_words(regime): " ".join(signs.loc[mine.index, regime].dropna()) or DASH for regime in signs}
        ours = " (ours)" if kind in OURS else ""
        rows.append({"Claim": f"{SHORT[kind]}{ours}{on and f' · {on}'}", **found})
    return pd.DataFrame(rows)


def main_text(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The rows of the claims of MAIN_TEXT, chosen by where they stand in the paper, whatever their verdicts."""
    return verdicts[verdicts["place"].str.match(MAIN_TEXT)]


class _Verdicts:
    """The verdicts and comparisons of one kind of claim, with one Delta for PF-PNE ("0.01", "true")."""

    def __init__(self, verdicts: pd.DataFrame, comparisons: pd.DataFrame, in_words):
        self.verdicts, self.comparisons, self.in_words = verdicts, comparisons, in_words

    def _of(self, table: pd.DataFrame, kind: str, Delta: str) -> pd.DataFrame:
        mine = table["id"].map(lambda claim: _parts(claim)[0] == kind)
        return table[mine & table["Delta"].isin((Delta, ""))]

    def where(self, row: dict) -> str:
        objective, regime = _parts(row["id"])[1], self.in_words(row["regime"])
        cells = ", cyclic cells" if row["cells"] == "cyclic" else ""
        return (f"{title(objective)}, {regime}" if objective and objective != row["regime"] else regime) + cells

    def holding(self, kind: str, Delta: str = GIVEN[0], verdicts=("holds",)) -> tuple[int, int, str]:
        """In how many cells the claim has one of these verdicts, of how many, and where."""
        mine = self._of(self.verdicts, kind, Delta)
        holds = mine[mine["verdict"].isin(verdicts)]
        return len(holds), len(mine), "; ".join(map(self.where, holds.to_dict("records")))

    def among(self, kind: str, Delta: str = GIVEN[0], verdicts=("holds",)) -> str:
        holds, cells, _ = self.holding(kind, Delta, verdicts)
        return f"{holds} of {cells}"

    def decided(self, kind: str, Delta: str = GIVEN[0]) -> str:
        """In how many cells it holds, and what became of the others."""
        found = self._of(self.verdicts, kind, Delta)["verdict"]
        others = ", ".join(
            f"{(found == verdict).sum()} {'refuted' if verdict == 'does not hold' else verdict}"
            for verdict in VERDICTS[1:]
            if (found == verdict).any()
        )
        none = set(found) <= {"undecided", "not decidable"}
        holds = f"no cell of {len(found)} decided" if none else f"{(found == 'holds').sum()} of {len(found)} cells"
        return f"{holds} ({others})" if others else holds

    def decidable(self, kind: str) -> str:
        """In how many cells it holds, of those whose runs can tell, and where it does."""
        mine = self._of(self.verdicts, kind, GIVEN[0])
        mine = mine[mine["verdict"].isin(("holds", "does not hold", "undecided"))]
        _, _, where = _Verdicts(mine, self.comparisons, self.in_words).holding(kind)
        return f"{(mine['verdict'] == 'holds').sum()} of the {len(mine)} decidable columns{where and f' ({where})'}"

    def facts(self, kind: str) -> tuple[int, pd.DataFrame]:
        """On how many objectives it holds, of facts that do not depend on the noise; a row an objective."""
        mine = self._of(self.verdicts, kind, GIVEN[0]).drop_duplicates("id")
        return (mine["verdict"] == "holds").sum(), mine

    def span(self, kind: str, column: str, Delta: str = GIVEN[0], worst: bool = False, refuted: bool = False) -> str:
        """From the smallest to the largest of a column of the comparisons; worst: of the largest of each cell."""
        cell, mine = ["id", "regime", "cells"], self._of(self.comparisons, kind, Delta)
        if refuted:
            cells = self._of(self.verdicts, kind, Delta)
            mine = mine.merge(cells.loc[cells["verdict"] == "does not hold", cell])
        mine = mine.dropna(subset=column)
        if worst:
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


def sentences(verdicts: pd.DataFrame, comparisons: pd.DataFrame, readings: pd.DataFrame, in_words) -> list[str]:
    """The findings, Markdown. verdicts, comparisons: claims.csv, every column a string, and claims_comparisons.csv;
    readings: specification_curve.csv.
    """
    found = _Verdicts(verdicts, comparisons, in_words)
    Delta, own = GIVEN
    holds, cells, where = found.holding("smallest")
    refuted, _, _ = found.holding("smallest", verdicts=("does not hold",))
    behind = found.span("smallest", "ratio", worst=True, refuted=True)
    rest = behind and f" Where the contrary was shown ({refuted} of {cells}), its regret is {behind} times that of the "
    rest = rest and f"{rest}best rival; {cells - holds - refuted} undecided."
    alike = readings["cut phase"] == specification.CHOICES["cut phase"][0]  # by all
    first, spared = (specification.shares(some).iloc[0] for some in (readings, readings[alike]))
    firsts = ", ".join(f"{first[f]:.1%} ({spared[f]:.1%}) on {title(f)}" for f in first.index)
    bounded, differences = found.facts("delta-bounds")
    measured = "; ".join(differences["decided_by"].where(differences["decided_by"] != "", differences["measured"]))
    longer = found.against("HCT (PyXAB)", ("sooner", "smallest", "later"), "bernoulli")
    than_pe = found.against("PE", ("beats-pe", "later-pe"), "bernoulli")
    runs = verdicts.drop_duplicates("id").set_index("id")
    lost, sent = runs.loc["safe-garland", "measured"], runs.loc["confidential", ["measured", "runs"]]
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
        f"client's maximum is lost in {found.among('safe')} comparisons ({lost}).",
        f"**Communication** stops by design; PF-PNE carries fewer numbers than Fed-PNE in {found.among('less-talk')} "
        f"comparisons, {found.span('less-talk', 'ratio')} times as many (its broadcast carries three numbers a node, "
        f"Fed-PNE's one); with the clients' own Delta in {found.among('less-talk', own)}, "
        f"{found.span('less-talk', 'ratio', own)} times as many. At M = {M} and T = {T}, {sent['measured']}. Fed-PNE "
        f"has twice the regret that it has with alike clients, or more, in {found.among('fed-depends')}.",
    ]
