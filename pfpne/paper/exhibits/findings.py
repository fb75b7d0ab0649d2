"""The findings in sentences that a person reads in a minute, and the verdicts as signs.

Every number in them comes from claims.csv, claims_comparisons.csv and specification_curve.csv. No outcome is presumed:
the sentences state the counts.
"""

from typing import NamedTuple

import pandas as pd

from pfpne.paper.claims.outcomes import LONG_LAST_PHASE, PAPER_SETTINGS, difference_name
from pfpne.paper.claims.verdicts import CLAIMS, PF_PNE_DELTAS, VERDICTS
from pfpne.paper.exhibits import specification
from pfpne.paper.run.profiles import PROFILES
from pfpne.paper.show.style import DASH, TITLES, noise_in_words, title

SIGNS = dict(zip(VERDICTS, "✓▲≡✗?∅", strict=True))


# The topic of each claim, and the objective that it is tested on, if it is one of several such claims.
TOPIC_OF_CLAIM = {claim.id: claim.topic for claim in CLAIMS}
OBJECTIVE_OF_CLAIM = {claim.id: claim.objectives[0] if claim.id != claim.topic else "" for claim in CLAIMS}
TOPICS_IN_WORDS = {claim.topic: claim.short for claim in CLAIMS}
OUR_TOPICS = {claim.topic for claim in CLAIMS if claim.is_ours}


def sign_table(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Put the verdicts into signs: one row per topic of the claims, one column per noise.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As in claims.csv, every column a string.

    Returns
    -------
    pandas.DataFrame
        In a cell one sign per objective, in the order that the row names. The signs are for the paper's Delta and
        random cells. A sign for cyclic cells follows after a slash if it differs.
    """
    paper = verdicts[verdicts["Delta"] != "true"]
    by_claim = paper.assign(sign=paper["verdict"].map(SIGNS)).groupby(["id", "noise"], sort=False)["sign"]
    signs = by_claim.agg(lambda column: "/".join(dict.fromkeys(column))).unstack(sort=False)
    signs = signs.reindex(index=paper["id"].unique(), columns=paper["noise"].unique())
    topics = [TOPIC_OF_CLAIM[claim] for claim in signs.index]
    table = signs.groupby(topics, sort=False).agg(lambda row: " ".join(row.dropna()) or DASH)
    names = []
    for topic in table.index:
        claims = [claim for claim in signs.index if TOPIC_OF_CLAIM[claim] == topic]
        objectives = ", ".join(title(OBJECTIVE_OF_CLAIM[claim]) for claim in claims if OBJECTIVE_OF_CLAIM[claim])
        names.append(f"{TOPICS_IN_WORDS[topic]}{' (ours)' * (topic in OUR_TOPICS)}{objectives and f' · {objectives}'}")
    return table.rename(columns=noise_in_words).set_axis(names).rename_axis(index="Claim", columns=None).reset_index()


# The group in which a verdict counts. A claim that is true by construction is shown. A claim that two algorithms are
# similar is refuted if either of them is far better.
VERDICT_GROUPS = {
    "shown": ("holds", "true by construction"),
    "refuted": ("does not hold", "better than claimed"),
    "open": ("undecided", "not decidable"),
}


def count_groups(verdicts: pd.Series) -> dict[str, int]:
    """How many of these verdicts are shown, refuted and open."""
    return {group: int(verdicts.isin(names).sum()) for group, names in VERDICT_GROUPS.items()}


class _ClaimResults(NamedTuple):
    """The verdicts and comparisons of every claim, as claims.csv and claims_comparisons.csv have them.

    The column "noise" of both has the name of the noise, or "landmine".
    """

    verdicts: pd.DataFrame
    comparisons: pd.DataFrame

    @staticmethod
    def on_topic(table: pd.DataFrame, topic: str, Delta: str = PF_PNE_DELTAS[0]) -> pd.DataFrame:
        """The rows of the claims of one topic, with one Delta for PF-PNE ("0.01", "true")."""
        return table[(table["id"].map(TOPIC_OF_CLAIM) == topic) & table["Delta"].isin((Delta, ""))]

    def count(self, topic: str, Delta: str = PF_PNE_DELTAS[0]) -> dict[str, int]:
        """The number of cases in which the claim is shown, refuted and open, and the number of all cases ("of")."""
        verdicts = self.on_topic(self.verdicts, topic, Delta)["verdict"]
        return count_groups(verdicts) | {"of": len(verdicts)}

    def count_in_brief(self, topic: str, Delta: str = PF_PNE_DELTAS[0]) -> str:
        """The count without words: "3/12/2"."""
        return "{shown}/{refuted}/{open}".format(**self.count(topic, Delta))

    def range_in_words(self, topic: str, column: str, refuted: bool = False) -> str:
        """The range of a column of the comparisons; with `refuted`, the range of its largest value per refuted case."""
        rows = self.on_topic(self.comparisons, topic).dropna(subset=column)
        if refuted:
            case_columns, verdicts = ["id", "noise", "cells"], self.on_topic(self.verdicts, topic)
            rows = rows.merge(verdicts.loc[verdicts["verdict"] == "does not hold", case_columns])
            rows = rows.loc[rows.groupby(case_columns)[column].idxmax()]
        if rows.empty:
            return ""
        low, high = rows[column].min(), rows[column].max()
        return f"{low:.2g} to {high:.2g}"

    def unfinished_in_words(self, topic: str) -> str:
        """The number of cases that are open only because of a long last phase, and in how many a rival is ahead."""
        case_columns, verdicts = ["id", "noise", "cells"], self.on_topic(self.verdicts, topic)
        unfinished = verdicts[verdicts["decided_by"].str.endswith(LONG_LAST_PHASE)]
        if unfinished.empty:
            return ""
        ratios = self.on_topic(self.comparisons, topic).merge(unfinished[case_columns]).groupby(case_columns)["ratio"]
        ahead = (ratios.max() > 1).sum()
        return (
            f" {len(unfinished)} are open only because T truncates PF-PNE's last phase; rivals lead in"
            f" {'all' if ahead == len(unfinished) else ahead}."
        )

    def eliminated_in_words(self, topic: str) -> str:
        """The largest mean number of clients whose optimal cell is eliminated, over all cases, with either Delta."""
        counts = self.verdicts["measured"].str.extract(r"eliminated of (?P<lost>[\d.]+) of (?P<clients>\d+) clients")
        table = self.verdicts.assign(lost=counts["lost"].astype(float), clients=counts["clients"])
        worst, worst_of_true = (self.on_topic(table, topic, Delta).nlargest(1, "lost") for Delta in PF_PNE_DELTAS)
        return (
            f"the optimal cell of {worst['lost'].item():.3g} of {worst['clients'].item()} clients"
            f" (mean over runs; with the true Delta {worst_of_true['lost'].item():.3g})"
        )

    def against(self, rival: str, topics: tuple[str, ...], noise: str) -> str:
        """The ratio of PF-PNE's regret to a rival's on random cells, by objective, for the claims of each topic.

        noise: its name in the column "noise".
        """
        rows = self.comparisons
        rows = rows[(rows["what"] == difference_name("pf-pne", rival)) & (rows["Delta"] == PF_PNE_DELTAS[0])]
        rows = rows[(rows["noise"] == noise) & (rows["cells"] == "random")].drop_duplicates("id")
        ratio = {(TOPIC_OF_CLAIM[row.id], OBJECTIVE_OF_CLAIM[row.id]): row.ratio for row in rows.itertuples()}
        objectives = [name for name in TITLES if all((topic, name) in ratio for topic in topics)]
        ratios = (", ".join(f"{ratio[topic, name]:.2f}" for topic in topics) for name in objectives)
        return "; ".join(f"{title(name)} {numbers}" for name, numbers in zip(objectives, ratios, strict=True))


def claims_scale_in_words() -> str:
    """Say which runs the findings and tables are about, and define the words in them.

    Returns
    -------
    str
        Sentences, in Markdown.
    """
    p = PROFILES["paper"]
    return (
        f"M = {p.n_clients}, T = {p.horizon:,}, clients shifted by {p.shift:g} of the domain's width,"
        f" {p.claim_runs} paired runs. A *case* is one objective, one noise (Bernoulli rewards, ±0.1 or ±2; none"
        " on landmine) and one way to cut cells. Counts are shown/refuted/open by a paired test."
    )


def sentences(verdicts: pd.DataFrame, comparisons: pd.DataFrame, specifications: pd.DataFrame) -> list[str]:
    """Say the findings in sentences.

    Parameters
    ----------
    verdicts : pandas.DataFrame
        As in claims.csv, every column a string.
    comparisons : pandas.DataFrame
        As in claims_comparisons.csv.
    specifications : pandas.DataFrame
        As in specification_curve.csv.

    Returns
    -------
    list of str
        The sentences, in Markdown.
    """
    claims = _ClaimResults(verdicts, comparisons)
    Delta, own = PF_PNE_DELTAS
    worse = claims.range_in_words("smallest", "ratio", refuted=True)
    worse = worse and f" Where refuted, it has {worse} times a rival's regret."
    held = specification.claims_held(specifications)[specification.MAIN_CLAIM]
    first = held.groupby([specifications["objective"], specifications["noise"]], sort=False).mean()
    noises = ", ".join(noise_in_words(noise) for noise in first.unstack(sort=False).columns)
    by_noise = "; ".join(
        f"{title(objective)} {', '.join(f'{share:.0%}' for share in shares)}"
        for objective, shares in first.unstack(sort=False).iterrows()
    )
    longer = claims.against("hct-pyxab", ("smallest", "later"), "bernoulli")
    bounded = claims.on_topic(verdicts, "delta-bounds").drop_duplicates("id")  # whatever the noise
    smooth = claims.on_topic(verdicts, "smoothness").drop_duplicates("id")
    broken = [set(rows.loc[rows["verdict"] != "holds", "id"].map(OBJECTIVE_OF_CLAIM)) for rows in (bounded, smooth)]
    broken = set.intersection(*broken)
    sent = claims.on_topic(verdicts, "confidential").iloc[0]
    private = "holds" if sent["verdict"] == "holds" else f"is refuted: {sent['decided_by']}"
    return [
        (
            f"**Has PF-PNE the smallest regret of the paper's five?** {claims.count_in_brief('smallest')}; with the"
            f" true Delta: {claims.count_in_brief('smallest', own)}.{worse}{claims.unfinished_in_words('smallest')}"
        ),
        (f"**By noise.** Over all choices left open, PF-PNE is first this often ({noises}): {by_noise}."),
        (
            f"**By the length of the run.** PF-PNE's regret divided by HCT's, at T and 10 T (Bernoulli rewards):"
            f" {longer or DASH}."
        ),
        (
            f"**The theorem's premises** fail on {len(broken)} of {len(smooth)} objectives: functions are less smooth"
            f" than it supposes, and with our shifts Delta = {Delta} is too small."
        ),
        (
            f"**Does PF-PNE beat PE?** {claims.count_in_brief('beats-pe')} with"
            f" differing clients, {claims.count_in_brief('better-than-pe')} with identical ones. **Are the"
            " points that PF-PNE ends with better than the average function's best point?**"
            f" {claims.count_in_brief('finds-own')}. Better than HCT's? {claims.count_in_brief('finds-own-hct')}."
        ),
        (
            f"**Elimination.** With the experiments' c = {PAPER_SETTINGS.c:g}, in the worst case PF-PNE eliminates"
            f" {claims.eliminated_in_words('safe')}."
        ),
        (
            "**Communication** stops by design. PF-PNE sends"
            f" {claims.range_in_words('less-talk', 'ratio')} times as much as Fed-PNE. With the true Delta, does it"
            f" send less? {claims.count_in_brief('less-talk', own)}. **Privacy** {private}."
        ),
    ]
