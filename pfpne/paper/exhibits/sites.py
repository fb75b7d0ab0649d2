"""Sites that tune a support vector machine on images that they may not pool: together, alone, at random, pooled.

The images are scikit-learn's digits; what is learned is even or odd. Site m = 0, 1, ... has SHARE times as many images
as the one before, from a worse scanner (more noise) and of another mix of digits. The reward of (C, gamma) at a site is
the area under the ROC curve (AUC, from `decision_function`) on a random quarter of its images, the machine fitted to
the others: another quarter each time, so it is noisy. What a way of tuning is worth is the AUC, on images of the same
site never seen before, of the machine fitted to all of the site's own with the parameters that it would deploy; with
pooled data one machine, fitted to the images of all, serves them all.
"""

import functools
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.pf_pne_plus import PARTS
from pfpne.paper.claims import stats
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import unordered
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import EARLY, PAGE, label
from pfpne.rng import stream
from pfpne.tuning.evaluate import tune
from pfpne.tuning.space import Float
from pfpne.validation import check_integer

SPACE = {"C": Float(1e-2, 1e3, log=True), "gamma": Float(1e-4, 1.0, log=True)}
LARGEST, SHARE, LEAST = 400, 0.4, 40  # images of the first site, and of any at least
UNSEEN = 900  # images to judge by, of all sites
FEWEST = 6  # runs that a verdict is given on
MOST = 9  # sites: there are no more images
BLUR = 0.3, 0.8  # standard deviation of the noise on a pixel in [0, 1], from the first site to the last
TILT = 0.8  # the digits 5 to 9 are so much rarer at the last site than at the first
OURS = "PF-PNE+, sites together"
COLUMNS = {
    **{"way": "a name of the ways", "run": "0, 1, ...", "site": "0, 1, ...", "images": "the site's own"},
    **{"C": "of the machine deployed", "gamma": "the same", "auc": "its AUC on images never seen"},
}
WAYS = {  # what is compared: the algorithm, whether on pooled data, and its settings
    OURS: ("pf-pne+", False, {}),
    f"{label('hct-noise')}, each alone": ("hct-noise", False, {}),
    "random search, each alone": ("random", False, {}),
    "pooled images, one machine": ("hct-noise", True, {}),
}
IN_PARTS = {  # the same for PF-PNE+ part by part, and for its search alone
    OURS: WAYS[OURS],
    **{f"without {words}": ("pf-pne+", False, {part: False}) for part, words in PARTS.items()},
    label(EARLY): ("hct-noise", False, {"early_descent": True}),
}


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    return images / 16, digit


def make_sites(M: int, seed: int, run: int) -> list[tuple[tuple, tuple]]:
    """Of each site, its own images and those never seen, (x (n, 64), even (n,)) each; none is there twice."""
    check_integer("n_clients (M)", M, 1, MOST, ": there are no images for more")
    images, digit = _digits()
    rng, free, sites = stream(seed, "sites", run), np.ones(len(digit), dtype=bool), []
    for m in range(M):
        share = m / max(1, M - 1)
        n, blur = max(LEAST, int(LARGEST * SHARE**m)), BLUR[0] + share * (BLUR[1] - BLUR[0])
        weight = np.where(digit >= 5, 1 - TILT * share, 1.0)

        def take(k: int, weight=weight, blur=blur) -> tuple:
            chance = weight * free
            which = rng.choice(len(digit), k, replace=False, p=chance / chance.sum())
            free[which] = False
            return images[which] + blur * rng.standard_normal((k, images.shape[1])), digit[which] % 2 == 0

        sites.append((take(n), take(UNSEEN // M)))
    return sites


def auc(point: dict, train: tuple, test: tuple) -> float:
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import SVC

    return float(roc_auc_score(test[1], SVC(**point).fit(*train).decision_function(test[0])))


def objective(own: tuple, rng: np.random.Generator):
    """(C, gamma) -> AUC on a random quarter of a site's own images."""
    from sklearn.model_selection import train_test_split

    def reward(point: dict) -> float:
        cut = int(rng.integers(2**31))
        x, x_left, y, y_left = train_test_split(*own, test_size=0.25, stratify=own[1], random_state=cut)
        return auc(point, (x, y), (x_left, y_left))

    return reward


def one_run(M: int, n_evaluations: int, seed: int, ways: dict, run: int) -> list[list]:
    """A row a way and site, columns as in COLUMNS. M n_evaluations fits a way."""
    sites, rows = make_sites(M, seed, run), []
    every = tuple(map(np.concatenate, zip(*(own for own, _ in sites), strict=True)))
    for way, (algorithm, pooled, settings) in ways.items():
        data = [every] if pooled else [own for own, _ in sites]
        rewards = [objective(own, stream(seed, "sites", run, "quarters", m)) for m, own in enumerate(data)]
        budget = n_evaluations * M // len(data)
        found = tune(rewards, SPACE, budget, algorithm=algorithm, seed=seed, progress=False, **settings)
        points = [*found.deploy.values()]
        for m, (_, unseen) in enumerate(sites):
            mine = 0 if pooled else m
            at = [way, run, m, len(sites[m][0][1]), *points[mine].values()]
            rows.append([*at, auc(points[mine], data[mine], unseen)])
    return rows


def results(p: Parameters, ways: dict = WAYS, folder: Path = RESULTS) -> pd.DataFrame:
    """The rows of all runs, kept; p: n_clients is the number of sites, horizon the fits of a site."""
    of_run = (p.n_clients, p.horizon, p.seed, ways)

    def make() -> list:
        jobs = [(*of_run, run) for run in range(p.n_runs)]
        return sum((rows for _, rows in sorted(unordered(one_run, jobs, p.n_jobs, progress("digits")))), [])

    content = {"sites": of_run, "n_runs": p.n_runs, "scikit-learn": version("scikit-learn")}
    key = cache.key(content, one_run, *(ALGORITHMS[name] for name, *_ in ways.values()))
    return pd.DataFrame(cache.rows(key, make, folder), columns=[*COLUMNS])


def compared(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """A row a rival and site (or all): by how much the AUC of PF-PNE+ is above, paired by run, with a 95 % interval."""
    rows, rivals = [], [way for way in table["way"].unique() if way != OURS]
    for site, mine in [("all", table), *table.groupby("site")]:
        wide = mine.pivot_table(index="run", columns="way", values="auc")
        for way in rivals:
            difference = (wide[OURS] - wide[way]).to_numpy()
            low, high = stats.interval(difference, stream(seed, "sites", way, str(site)))
            head = {"against": way, "site": site, "n": len(wide)}
            rows.append({**head, "difference": difference.mean(), "low": low, "high": high})
    return pd.DataFrame(rows)


@our_style()
def draw(table: pd.DataFrame, differences: pd.DataFrame, p: Parameters) -> Exhibit:
    """The AUC of each way at each site, and the differences."""
    fits = p.n_clients * p.horizon
    caption = (
        f"Left: AUC on images never seen, by site (with its number of images), in {p.n_runs} paired runs. A dot is "
        "one run, a bar the mean. Right: AUC of PF-PNE+ less that of each other way, over all sites, with a "
        f"bootstrap 95 % interval. Each way has {fits} fits per run: {p.horizon} per site, or all of them on the "
        "pooled images."
    )

    figure, ((left, right),) = new_figure((PAGE, 2.6), columns=2, width_ratios=(1.5, 1))
    named = table.assign(place=[f"{m + 1} ({n})" for m, n in table[["site", "images"]].to_numpy()])
    how = {"data": named, "x": "place", "y": "auc", "hue": "way", "palette": "colorblind", "dodge": True, "ax": left}
    sns.stripplot(**how, size=2.2, alpha=0.6, legend=False, jitter=False)  # of the global random state
    sns.pointplot(**{**how, "dodge": 0.6}, linestyle="none", marker="_", markersize=9, errorbar=None)
    left.set(xlabel="site (its images)", ylabel="AUC, images never seen")
    left.legend(fontsize=6.5, loc="lower left")
    pooled = differences[differences["site"] == "all"].iloc[::-1]
    right.axvline(0, color="0.6", linewidth=0.8)
    lengths = np.abs(pooled[["low", "high"]].to_numpy().T - pooled["difference"].to_numpy())
    right.errorbar(pooled["difference"], range(len(pooled)), xerr=np.nan_to_num(lengths), fmt="o", color="black")
    names = [f"less {way}".replace(", each", ",\neach") for way in pooled["against"]]
    right.set_yticks(range(len(pooled)), names)
    right.set(xlabel="difference of AUC", ylim=(-0.6, len(pooled) - 0.4))
    return figure_exhibit(figure, "tune_your_own", caption, table)


def sentences(differences: pd.DataFrame) -> list[str]:
    """What was found, Markdown: whether federation paid, whatever came out."""
    found = []
    for row in differences[differences["site"] == "all"].itertuples():
        sure = "better" if row.low > 0 else "worse" if row.high < 0 else "neither better nor worse for certain"
        found.append(
            f"Against **{row.against}**, PF-PNE+ is {sure}: the difference of AUC is {row.difference:+.4f}, with the "
            f"95 % interval [{row.low:+.4f}, {row.high:+.4f}]."
        )
    if differences["n"].min() < FEWEST:
        these = [line.replace(": the difference", " in these runs: the difference") for line in found]
        return ["**Too few runs for a verdict.**", *these]
    alone = differences[(differences["site"] == "all") & differences["against"].str.contains("alone")]
    paid, lost = (alone["low"] > 0).all(), (alone["high"] < 0).any()
    verdict = (
        "Federation paid here, against each way of tuning alone."
        if paid
        else "Federation did not pay here: tuning alone was better in at least one way."
        if lost
        else "Federation did not pay for certain here: tuning alone, or at random, is as good within the intervals."
    )
    return [f"**{verdict}**", *found]
