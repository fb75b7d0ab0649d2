"""What was found, in sentences that a person reads in a minute, and the verdicts as one sign a cell.

Every number and every count comes from claims.csv, claims_comparisons.csv and specification_curve.csv, as they were
written; the sentences say what was counted, whatever came out.
"""

import pandas as pd

from pfpne.paper import specification
from pfpne.paper.claims import GIVEN, VERDICTS
from pfpne.paper.looks import DASH, TITLES, title

SIGNS = dict(zip(VERDICTS, ("✓", "▲", "≡", "✗", "?", "∅"), strict=True))
SHORT = {  # of a claim, less the objective that its id ends with
    "smallest": "PF-PNE has the smallest regret of the paper's five",
    "fed-better": "Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB",
    "fed-far": "Fed-PNE has twice PF-PNE's regret, or more",
    "fed-depends": "Fed-PNE has twice the regret that it has with alike clients, or more",
    "doublesine-hct": "PF-PNE is slightly better than HCT (PyXAB) on DoubleSine",
    "doublesine-fed": "PF-PNE is much better than Fed-PNE on DoubleSine",
    "ackley-hct": "PF-PNE is similar to HCT (PyXAB) on Ackley",
    "ackley-fed": "PF-PNE is similar to Fed-PNE on Ackley",
    "beats-centralized": "PF-PNE has less regret than one HCT that sees every reward",
    "beats-pe": "PF-PNE has less regret than PE alone, its own second stage",
    "beats-tuned-hct": "PF-PNE has less regret than HCT (PyXAB) whose c follows the noise",
    "sooner": "At T/10: PF-PNE has less regret than HCT (PyXAB) and Fed-PNE",
    "later": "At 10 T: PF-PNE has less regret than HCT (PyXAB), Fed-PNE and PE",
    "time-fn-ucb": "FN-UCB takes much longer than the others",
    "time-others": "The others take similar times",
    "fed-grows": "Fed-PNE's communication keeps growing",
    "pf-stops": "PF-PNE's communication stops",
    "bounded": "PF-PNE's communication is bounded",
    "rounds-bound": "PF-PNE's rounds are within the theorem's bound",
    "less-talk": "PF-PNE carries fewer numbers than Fed-PNE",
    "confidential": "No single reward is sent",
    "delta-bounds": "Delta = 0.01 bounds the clients' real differences",
    "smoothness": "The objectives are as smooth as nu_1 = 1 and rho = 0.5 say",
    "similarity": "The global maximum is good for every client",
    "good-event": "Confidence intervals hold with the theory's constants",
    "good-event-as-run": "Confidence intervals hold with the experiments' constants",
    "safe": "No client's maximum is eliminated",
    "falls-with-M": "Alike clients: PF-PNE's average regret falls with M",
    "falls-as-stated": "Alike clients: it falls as fast as stated",
    "better-than-hct": "Alike clients: PF-PNE has less regret than HCT alone",
    "better-than-pe": "Alike clients: PF-PNE has less regret than PE alone",
    "delta-zero": "With Delta = 0, PF-PNE's regret is Fed-PNE's",
    "delta-zero-cost": "With Delta = 0, PF-PNE sends as much as Fed-PNE",
    "any-Delta": "Whatever Delta: PF-PNE is at most slightly worse than PE alone",
    "adapts": "However alike the clients: PF-PNE is at most slightly worse than PE alone",
    "sublinear": "PF-PNE's regret grows more slowly than T, Delta valid",
    "sublinear-any": "PF-PNE's regret grows more slowly than T, any Delta",
    "settings": "Moving one setting changes PF-PNE's regret little",
}


# The places of the claims that the README shows: what the main text says by a figure, a table or a theorem.
MAIN_TEXT = r"(?!Appendix).*(?:Figure|Table|Theorem)"


def _parts(claim: str) -> tuple[str, str]:
    """What a claim's id is about, a key of SHORT, and the objective that it ends with, or nothing."""
    kind, _, last = claim.rpartition("-")
    return (kind, last) if claim not in SHORT and last in TITLES else (claim, "")


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
        rows.append({"Claim": f"{SHORT[kind]}{on and f' · {on}'}", **found})
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


def sentences(verdicts: pd.DataFrame, comparisons: pd.DataFrame, readings: pd.DataFrame, in_words) -> list[str]:
    """The findings, Markdown. verdicts, comparisons: claims.csv, every column a string, and claims_comparisons.csv;
    readings: specification_curve.csv.
    """
    found = _Verdicts(verdicts, comparisons, in_words)
    Delta, own = GIVEN
    _, _, where = found.holding("smallest")
    behind = found.span("smallest", "ratio", worst=True, refuted=True)
    rest = behind and f" Where it has not, its regret is {behind} times that of the best rival."
    shares = specification.shares(readings).iloc[0]
    firsts = ", ".join(f"{share:.0%} on {title(objective)}" for objective, share in shares.items())
    bounded = verdicts[verdicts["id"] == "delta-bounds"]
    differences = bounded["decided_by"].iloc[0] or bounded["measured"].iloc[0]
    longer = found.against("HCT (PyXAB)", ("sooner", "smallest", "later"), "bernoulli")
    lost = verdicts[verdicts["id"] == "safe-garland"]["measured"].iloc[0]
    return [
        f"**PF-PNE has the smallest regret of the paper's five in {found.among('smallest')} comparisons** (objective, "
        f"noise, kind of cells{f'; {where}' if where else ''}), and in {found.among('smallest', own)} if it is given "
        f"the clients' own Delta.{rest}",
        f"**Other choices, other winners**: over all {len(readings):,} combinations of cells, horizon, noise, clients, "
        f"Delta, c, cut phase and HCT's c, PF-PNE is the smallest of the five in {firsts}. Against HCT (PyXAB) whose c "
        f"follows the noise it has less regret in {found.among('beats-tuned-hct')} comparisons.",
        f"**Its place changes with T**: PF-PNE's regret over HCT's (PyXAB) at T/10, T and 10 T, Bernoulli rewards: "
        f"{longer or DASH}.",
        f"**Delta = {Delta}, as the paper sets it, bounds the clients' real differences in "
        f"{found.among('delta-bounds')} columns** (a noise and a kind of cells; {differences}). Where it "
        "does not, the theorem says nothing.",
        f"**Against PE, its own second stage without any federation**, PF-PNE has less regret in "
        f"{found.among('beats-pe')} comparisons with the paper's clients (in {found.among('beats-pe', own)} with their "
        f"own Delta), and with alike clients in {found.among('better-than-pe')} "
        f"({found.among('better-than-pe', own)}).",
        f"**More clients help only if Delta says that they are alike**: the average regret falls with M in "
        f"{found.among('falls-with-M')} cells with the paper's Delta, in {found.among('falls-with-M', own)} with the "
        f"clients' own (slopes {found.span('falls-with-M', 'mean', own)}).",
        f"**Elimination**: with the experiments' c = 0.1 all confidence intervals hold in "
        f"{found.among('good-event-as-run')} columns, with the theory's c = 2 in {found.among('good-event')}; no "
        f"client's maximum is lost in {found.among('safe')} comparisons ({lost}).",
        f"**Communication** stops by design; PF-PNE carries fewer numbers than Fed-PNE in {found.among('less-talk')} "
        f"comparisons, {found.span('less-talk', 'ratio')} times as many. No mean sent is a single reward in "
        f"{found.among('confidential')} columns. Fed-PNE has twice the regret that it has with alike clients, or more, "
        f"in {found.among('fed-depends')}.",
    ]
