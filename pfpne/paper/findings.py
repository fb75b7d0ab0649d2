"""What was found, in sentences that a person reads in a minute, and the verdicts as one sign a cell.

Every number and every count comes from claims.csv and claims_comparisons.csv, as they were written; the sentences say
what was counted, whatever came out.
"""

import pandas as pd

from pfpne.paper.claims import GIVEN
from pfpne.paper.looks import DASH, TITLES, title

SIGNS = {"holds": "\N{CHECK MARK}", "does not hold": "\N{BALLOT X}", "undecided": "?"}
SHORT = {  # of a claim, less the objective that its id ends with
    "smallest": "PF-PNE has the smallest regret of the paper's five",
    "fed-better": "Fed-PNE has less regret than HCT (PyXAB), Fed1-UCB and FN-UCB",
    "fed-far": "Fed-PNE has twice the regret of one of the other four, or more",
    "fed-depends": "Fed-PNE has twice the regret that it has with alike clients, or more",
    "doublesine-hct": "PF-PNE is slightly better than HCT (PyXAB) on DoubleSine",
    "doublesine-fed": "PF-PNE is much better than Fed-PNE on DoubleSine",
    "ackley-hct": "PF-PNE is similar to HCT (PyXAB) on Ackley",
    "ackley-fed": "PF-PNE is similar to Fed-PNE on Ackley",
    "time-fn-ucb": "FN-UCB takes much longer than the others",
    "time-others": "The others take similar times",
    "fed-grows": "Fed-PNE's communication keeps growing",
    "pf-stops": "PF-PNE's communication stops",
    "bounded": "PF-PNE's communication is bounded",
    "rounds-bound": "PF-PNE's rounds are within the theorem's bound",
    "delta-bounds": "Delta = 0.01 bounds the clients' real differences",
    "falls-with-M": "Alike clients: PF-PNE's average regret falls with M",
    "falls-as-stated": "Alike clients: it falls as fast as stated",
    "better-than-hct": "Alike clients: PF-PNE has less regret than HCT alone",
    "better-than-pe": "Alike clients: PF-PNE has less regret than PE alone",
    "delta-zero": "With Delta = 0, PF-PNE's regret is Fed-PNE's",
    "delta-zero-cost": "With Delta = 0, PF-PNE's communication is Fed-PNE's",
    "sublinear": "PF-PNE's regret grows more slowly than T, Delta valid",
    "sublinear-any": "PF-PNE's regret grows more slowly than T, any Delta",
    "settings": "Moving one setting changes PF-PNE's regret little",
}


def _parts(claim: str) -> tuple[str, str]:
    """What a claim's id is about, a key of SHORT, and the objective that it ends with, or nothing."""
    kind, _, last = claim.rpartition("-")
    return (kind, last) if claim not in SHORT and last in TITLES else (claim, "")


def grid(verdicts: pd.DataFrame, in_words) -> pd.DataFrame:
    """A row a claim, a column a regime (named by in_words), one sign a cell: with the paper's Delta."""
    paper = verdicts[verdicts["Delta"] != "true"]
    signs = paper.set_index(["id", "regime"])["verdict"].map(SIGNS).unstack(sort=False, fill_value=DASH)
    signs = signs.loc[paper["id"].unique(), paper["regime"].unique()].rename(columns=in_words)
    names = [f"{SHORT[kind]}{objective and f' · {title(objective)}'}" for kind, objective in map(_parts, signs.index)]
    signs.insert(0, "Claim", names)
    return signs.rename_axis(columns=None).reset_index(drop=True)


class _Verdicts:
    """The verdicts and comparisons of one kind of claim, with one Delta for PF-PNE ("0.01", "true")."""

    def __init__(self, verdicts: pd.DataFrame, comparisons: pd.DataFrame, in_words):
        self.verdicts, self.comparisons, self.in_words = verdicts, comparisons, in_words

    def _of(self, table: pd.DataFrame, kind: str, Delta: str) -> pd.DataFrame:
        mine = table["id"].map(lambda claim: _parts(claim)[0] == kind)
        return table[mine & table["Delta"].isin((Delta, ""))]

    def where(self, row: dict) -> str:
        objective, regime = _parts(row["id"])[1], self.in_words(row["regime"])
        return f"{title(objective)}, {regime}" if objective and objective != row["regime"] else regime

    def holding(self, kind: str, Delta: str = GIVEN[0]) -> tuple[int, int, str]:
        """In how many cells the claim holds, of how many, and where."""
        mine = self._of(self.verdicts, kind, Delta)
        holds = mine[mine["verdict"] == "holds"]
        return len(holds), len(mine), "; ".join(map(self.where, holds.to_dict("records")))

    def span(self, kind: str, column: str, Delta: str = GIVEN[0], worst: bool = False, refuted: bool = False) -> str:
        """From the smallest to the largest of a column of the comparisons; worst: of the largest of each cell."""
        mine = self._of(self.comparisons, kind, Delta)
        if refuted:
            cells = self._of(self.verdicts, kind, Delta)
            mine = mine.merge(cells.loc[cells["verdict"] == "does not hold", ["id", "regime"]])
        mine = mine.dropna(subset=column)
        if worst:
            mine = mine.loc[mine.groupby(["id", "regime"])[column].idxmax()]
        if mine.empty:
            return ""
        low, high = (mine.loc[found] for found in (mine[column].idxmin(), mine[column].idxmax()))
        return f"{low[column]:.3g} ({self.where(low)}) to {high[column]:.3g} ({self.where(high)})"


def sentences(verdicts: pd.DataFrame, comparisons: pd.DataFrame, in_words) -> list[str]:
    """The findings, Markdown. verdicts, comparisons: claims.csv, every column a string, and claims_comparisons.csv."""
    found = _Verdicts(verdicts, comparisons, in_words)
    Delta, own = GIVEN
    first, cells, where = found.holding("smallest")
    own_first, _, own_where = found.holding("smallest", own)
    behind = found.span("smallest", "ratio", worst=True, refuted=True)
    rest = behind and f" Where it has not, its regret is {behind} times that of the best rival."
    alike, alike_cells, _ = found.holding("better-than-pe")
    own_alike, _, _ = found.holding("better-than-pe", own)
    falls, falls_cells, _ = found.holding("falls-with-M")
    own_falls, _, _ = found.holding("falls-with-M", own)
    depends, depends_cells, depends_where = found.holding("fed-depends")
    stops, stops_cells, _ = found.holding("pf-stops")
    grows, grows_cells, _ = found.holding("fed-grows")
    slow, slow_cells, slow_where = found.holding("sublinear")
    bounded, bounded_cells, _ = found.holding("delta-bounds")
    differences = verdicts[verdicts["id"] == "delta-bounds"]["decided_by"].iloc[0]
    little, settings, _ = found.holding("settings")
    return [
        f"**PF-PNE has the smallest regret of the paper's five in {first} of {cells} panels** of the main figure"
        f"{f' ({where})' if where else ''}.{rest}",
        f"**Delta = {Delta}, as the paper sets it, bounds the clients' real differences in {bounded} of "
        f"{bounded_cells} regimes** ({differences}). Given the clients' own Delta, PF-PNE has the smallest regret in "
        f"{own_first} of {cells} panels{f' ({own_where})' if own_where else ''}.",
        f"**Against PE, its own second stage without any federation**, and with clients that are alike, PF-PNE has "
        f"less regret in {alike} of {alike_cells} cells with the paper's Delta, in {own_alike} with the clients' own.",
        f"**More clients help only if Delta says that they are alike**: the average regret falls with M in {falls} of "
        f"{falls_cells} cells with the paper's Delta, in {own_falls} with the clients' own (slopes "
        f"{found.span('falls-with-M', 'mean', own)}).",
        f"**Fed-PNE depends on how alike the clients are** in {depends} of {depends_cells} cells "
        f"({depends_where or 'none'}): {found.span('fed-depends', 'ratio')} times its regret with alike clients.",
        f"**PF-PNE's communication stops**, as stated, in {stops} of {stops_cells} regimes; Fed-PNE's goes on in {grows} "
        f"of {grows_cells}.",
        f"**Sublinear regret**, where Delta is valid, is seen in {slow} of {slow_cells} regimes "
        f"({slow_where or 'none'}); a slope over these horizons does not refute an asymptotic "
        f"bound. One setting moved alone changes the regret by less than a factor 1.25 in {little} of {settings} cells.",
    ]
