"""When to federate, with which algorithm and with which Delta: rules and sentences made from the regime map."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from pfpne.paper.exhibits.regimes import RANKED_ON_MAP, REGIME_COLUMNS, identical_clients
from pfpne.paper.show.export import Exhibit, text_exhibit
from pfpne.paper.show.style import HCT_NOISE_EARLY, PF_PNE_WITH_TRUE_DELTA, label, listed, rounded, title

KNOWN_IN_ADVANCE = {  # the quantities that a user may know before a run, in words
    "sigma": "noise",
    "spread": "clients' spread",
    "clients": "M",
    "horizon": "T",
}
NEAR_BEST = 1.1  # an algorithm whose regret is at most so many times the best one's counts as equally good
FAR_BEHIND = 1.3  # an algorithm whose regret is above so many times the best one's counts as clearly worse
STRONG_NOISE = 0.18  # the standard deviation of a reward above which PF-PNE+'s lead with identical clients is counted
TUNED_OBJECTIVES = (
    "garland",
    "doublesine",
    "levy",
    "styblinski",
    "himmelblau",
    "ackley",
)  # the objectives that PF-PNE+ was tuned on, with other seeds


def write_guide(table: pd.DataFrame, break_even: pd.DataFrame, held_out: pd.DataFrame) -> Exhibit:
    """Say in rules and sentences when to federate, how, and with which Delta.

    Parameters
    ----------
    table : pandas.DataFrame
        The map, as `regimes.measure` returns it.
    break_even : pandas.DataFrame
        PF-PNE with each Delta, as `regimes.break_even` returns it.
    held_out : pandas.DataFrame
        The regimes that are not on the map, as `regimes.held_out` returns them.

    Returns
    -------
    Exhibit
        The text, in Markdown.
    """
    rules, trust = _rules(table)
    ours = [_words_on_ours(table), *_words_by_objective(table), _words_on_held_out(held_out)]
    sentences = [*trust, *ours, _which_Delta(break_even)]
    parts = [
        (
            "The last three columns compare each choice with the best algorithm of each regime. They are the"
            " geometric mean of the additional regret, the share of regimes in which it is at most "
            f"{NEAR_BEST - 1:.0%}, and"
            " the worst ratio of the two regrets."
        ),
        rules.to_markdown(index=False),
        "".join(f"- {sentence}\n" for sentence in sentences).rstrip(),
        "How often a search with a federation has less regret than the same search alone:",
        _federation_adds(table).to_markdown(index=False),
    ]
    text = "\n\n".join(parts) + "\n"
    return text_exhibit("regime_guide", "When to federate, with which algorithm, and which Delta.", text)


def _federation_adds(table: pd.DataFrame) -> pd.DataFrame:
    """The share of regimes in which a federated search has less regret than the same one alone: one row per pair."""
    identical, rows = identical_clients(table), []
    for name, other in (
        ("pf-pne+", HCT_NOISE_EARLY),
        ("pf-pne", "pe"),
        (PF_PNE_WITH_TRUE_DELTA, "pe"),
        ("fed-pne", "pe"),
    ):
        counted = table["noise"].ne("bernoulli") | (name != "pf-pne+")  # there it knows more of the noise, too
        less = table[name] < table[other]
        note = " (uniform noise alone)" if name == "pf-pne+" else ""
        row = {"Federated": _label(name) + note, "Alone": label(other)}
        for clients, mask in (("Identical clients", identical), ("Differing clients", ~identical)):
            row[clients] = f"{less[mask & counted].mean():.0%}"
        rows.append(row)
    return pd.DataFrame(rows)


def _words_on_ours(table: pd.DataFrame) -> str:
    """How near PF-PNE+ comes to the best of the others, where it was tuned and where not."""
    lead = ratio_to_others(table)[identical_clients(table) & table["sigma"].gt(STRONG_NOISE)]
    return (
        f"**{label('pf-pne+')} on the whole map.** It is within {NEAR_BEST - 1:.0%} of the best of the others "
        f"{_near_the_best(table, [])} With identical clients and noise above {STRONG_NOISE}, it has at least 30% "
        "less regret "
        f"than any other in {(lead <= 0.7).sum()} of {len(lead)} regimes."
    )


def _words_by_objective(table: pd.DataFrame) -> list[str]:
    """How near PF-PNE+ comes to the best of the others on each objective, the best first; nothing on one objective."""
    ratios = ratio_to_others(table).groupby(table["objective"])
    near = ratios.agg(lambda ratio: (ratio <= NEAR_BEST).mean()).sort_values(ascending=False, kind="stable")
    far = ratios.agg(lambda ratio: (ratio > FAR_BEHIND).mean())
    if len(near) == 1:
        return []
    shares = [f"{share:.0%} ({far[objective]:.0%}) on {title(objective)}" for objective, share in near.items()]
    return [
        f"**{label('pf-pne+')} by objective.** This is how often it is within {NEAR_BEST - 1:.0%} of the best of the "
        f"others, and in brackets how often it has more than {FAR_BEHIND} times the regret: {listed(shares)}."
    ]


def _words_on_held_out(held_out: pd.DataFrame) -> str:
    """How near PF-PNE+ comes to the best of the others in the regimes that were held out."""
    lead = ratio_to_others(held_out)[identical_clients(held_out)]
    return (
        f"**Held out.** {len(held_out)} regimes were fixed before any of them was run. They have another seed, and M "
        "and T that are not on the map. Their shifts and noises are not on the map either, except 0 and Bernoulli "
        f"rewards. Rastrigin is in two dimensions. There {label('pf-pne+')} is within {NEAR_BEST - 1:.0%} of the best "
        f"of the others {_near_the_best(held_out, ['cells'])} With identical clients it has at least 30% less regret "
        f"than any other in {(lead <= 0.7).sum()} of {len(lead)}."
    )


def ratio_to_others(table: pd.DataFrame, algorithm: str = "pf-pne+") -> pd.Series:
    """The ratio of an algorithm's mean regret to the best other algorithm's."""
    return table[algorithm] / table[[name for name in RANKED_ON_MAP if name != algorithm]].min(axis=1)


def _near_the_best(table: pd.DataFrame, by: list[str]) -> str:
    """How often PF-PNE+ is within NEAR_BEST of the best of the others, by these columns and whether tuned there."""
    ratio, parts, previous_words = ratio_to_others(table), [], []
    rows = table[by].assign(near=ratio <= NEAR_BEST, tuned=table["objective"].isin(TUNED_OBJECTIVES))
    for kinds, group in rows.groupby(by, sort=False) if by else [((), rows)]:
        where = "".join(f"on {kind} cells " for kind in kinds)
        sides = {
            words: side["near"]
            for words, side in (
                (" regimes with objectives that it was tuned on", group[group["tuned"]]),
                (" regimes with other objectives", group[~group["tuned"]]),
            )
            if len(side)
        }
        # The words of the part before serve again.
        shares = (
            f"{near.mean():.0%} of {len(near):,}{'' if previous_words == [*sides] else words}"
            for words, near in sides.items()
        )
        parts.append(f"{where}in {' and '.join(shares)}")
        previous_words = [*sides]
    return f"{'; '.join(parts)}. At worst it has {ratio.max():.2g} times the regret of the best."


def _label(name: str) -> str:
    return f"{label('pf-pne')} with the true Delta" if name == PF_PNE_WITH_TRUE_DELTA else label(name)


def _rules(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Rules for which of RANKED_ON_MAP to use, one row per rule, by KNOWN_IN_ADVANCE; and a sentence on their worth.

    The worth is measured on objectives that are left out in turn. With a single objective there is no such sentence.
    """
    behind = table[RANKED_ON_MAP].div(table[RANKED_ON_MAP].min(axis=1), axis=0)
    known = np.log(table[[*KNOWN_IN_ADVANCE]].clip(lower=1e-3))
    tree, leaf = _tree(known, behind)
    rules = []
    for node, conditions in _leaves(tree.tree_):
        regimes = behind[leaf == node]
        best_algorithm = np.log(regimes).mean().idxmin()
        rules.append(
            {"If": _in_words(conditions), "Take": label(best_algorithm), **_behind_the_best(regimes[best_algorithm])}
        )
    objectives, parts = table["objective"].unique(), []
    if len(objectives) == 1:
        return pd.DataFrame(rules), []
    for objective in objectives:
        out = table["objective"] == objective
        tree, leaf = _tree(known[~out], behind[~out])
        names = np.log(behind[~out]).groupby(leaf).mean().idxmin(axis=1)
        chosen = names.loc[tree.apply(known[out])]
        parts.append(
            pd.Series([ratios[name] for (_, ratios), name in zip(behind[out].iterrows(), chosen, strict=True)])
        )
    more, near, worst = _behind_the_best(pd.concat(parts)).values()
    trust = (
        "**How far to trust the rules.** We made them without one objective and followed them on that objective, for "
        f"each in turn. Then they have {more} more regret than the best algorithm, on average, and are within "
        f"{NEAR_BEST - 1:.0%} of it in {near}. At worst they have {worst} times its regret."
    )
    return pd.DataFrame(rules), [trust]


def _tree(known: pd.DataFrame, behind: pd.DataFrame) -> tuple:
    """A regression tree of the logarithms of `behind` (ratios to the best), and the leaf of each row."""
    from sklearn.tree import DecisionTreeRegressor  # slow, so not before it is needed

    tree = DecisionTreeRegressor(max_leaf_nodes=5, min_samples_leaf=max(1, len(known) // 20), random_state=0)
    return tree, tree.fit(known, np.log(behind)).apply(known)


def _behind_the_best(behind: pd.Series) -> dict[str, str]:
    """Summarise ratios to the best: their geometric mean less 1, the share near 1, and the largest."""
    return {
        "More regret": f"{np.exp(np.log(behind).mean()) - 1:.0%}",
        f"Within {NEAR_BEST - 1:.0%}": f"{(behind <= NEAR_BEST).mean():.0%} of {len(behind):,} regimes",
        "At worst": f"{behind.max():.2g}",
    }


def _leaves(tree, node: int = 0, conditions: tuple = ()) -> list[tuple]:
    """(leaf, conditions), a condition (feature, whether below, threshold), of a fitted tree of scikit-learn."""
    if tree.children_left[node] < 0:
        return [(node, conditions)]
    split = [*KNOWN_IN_ADVANCE][tree.feature[node]], math.exp(tree.threshold[node])
    sides = (tree.children_left[node], True), (tree.children_right[node], False)
    return sum((_leaves(tree, child, (*conditions, (split[0], below, split[1]))) for child, below in sides), [])


def _in_words(conditions: tuple) -> str:
    """The conditions of a leaf as the condition of a rule."""
    parts = []
    for feature, feature_name in KNOWN_IN_ADVANCE.items():
        highest = min((x for name, below, x in conditions if name == feature and below), default=None)
        lowest = max((x for name, below, x in conditions if name == feature and not below), default=None)
        if lowest and highest:
            parts.append(f"{feature_name} between {rounded(lowest)} and {rounded(highest)}")
        elif lowest or highest:
            parts.append(f"{feature_name} {'above' if lowest else 'below'} {rounded(lowest or highest)}")
    return ", ".join(parts) or "always"


def _which_Delta(break_even: pd.DataFrame) -> str:
    """Which Delta to give PF-PNE, from what `regimes.break_even` returns."""
    rows = []
    for _, curve in break_even.sort_values("given").groupby(REGIME_COLUMNS):
        at_zero, best_row = curve.iloc[0], curve.loc[curve["ratio"].idxmin()]
        # Whether the regret is at most 1% above PE's with this Delta and every larger one.
        pays = curve["ratio"].le(1.01)[::-1].cummin()[::-1]
        row = {"true_Delta": at_zero["Delta"], "best_Delta": best_row["given"]}
        row |= {"least_paying_Delta": curve.loc[pays, "given"].min()}
        row |= {"ratio_true_Delta": at_zero["ratio_true_Delta"], "ratio_at_zero": at_zero["ratio"]}
        rows.append(row | {"true_over_best": at_zero["ratio_true_Delta"] / best_row["ratio"]})
    cases = pd.DataFrame(rows)
    differ, identical = cases[cases["true_Delta"] > 0], cases[cases["true_Delta"] == 0]
    pays_again = (differ["least_paying_Delta"] > 0) & (differ["ratio_at_zero"] < 1)
    return (
        f"**Which Delta to give {label('pf-pne')}.** Each Delta is a median, with its quartiles in brackets. With"
        f" differing clients the true Delta is {_range(differ['true_Delta'])}. Given it, the regret is below PE's in"
        f" {(differ['ratio_true_Delta'] < 1).sum()} of {len(differ)} cases, and within {NEAR_BEST - 1:.0%} of that with"
        f" the best Delta in {(differ['true_over_best'] <= NEAR_BEST).sum()}. The best Delta is"
        f" {_range(differ['best_Delta'])}. With every Delta from {_range(differ['least_paying_Delta'])} upwards, the"
        f" regret is at most 1% above PE's. In {pays_again.sum()} cases some smaller Delta costs more than that, but"
        f" Delta = 0 has less regret than PE. With identical clients, Delta = 0 is within {NEAR_BEST - 1:.0%} of the"
        f" best in {(identical['true_over_best'] <= NEAR_BEST).sum()} of {len(identical)} cases."
    )


def _range(values: pd.Series) -> str:
    low, middle, high = values.quantile([0.25, 0.5, 0.75])
    return f"{middle:.2g} ({low:.2g} to {high:.2g})"
