"""Sites that tune a support vector machine on images that they may not pool: together, alone, at random, pooled.

The images are scikit-learn's digits; the machine learns whether a digit is even. There are two settings. In
UNLIKE_SITES a few sites have unequally many images, from scanners of unequal quality and of unequal mixes of digits,
and many fits. In ALIKE_SITES many sites draw alike from one kind of image, and have few fits each. The reward of (C,
gamma) at a site is the area under the ROC curve (AUC, from `decision_function`) on a random quarter of its images, of a
machine fitted to the other images. The quarter is drawn anew each time, so the reward is noisy. A way of tuning is
judged by its AUC on unseen images of the site: a machine is fitted to all of the site's own images, with the parameters
that the site would deploy. With pooled data, one machine fitted to all sites' images serves every site. Settings and
ways were fixed before any of them was run.
"""

import functools
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import seaborn as sns

from pfpne.algorithms import ALGORITHMS
from pfpne.algorithms.pf_pne_plus import PARTS_IN_WORDS
from pfpne.paper.claims import stats
from pfpne.paper.run import cache
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.progress import progress
from pfpne.paper.run.workers import run_in_order
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import HCT_NOISE_EARLY, PAGE, label
from pfpne.rng import stream
from pfpne.tuning.evaluate import tune
from pfpne.tuning.space import Float
from pfpne.validation import check_integer

SPACE = {"C": Float(1e-2, 1e3, log=True), "gamma": Float(1e-4, 1.0, log=True)}
N_UNSEEN = 900  # unseen images, of all sites together
MIN_RUNS = 6  # the fewest runs for a verdict
MAX_SITES = 9  # the images do not suffice for more sites


@dataclass(frozen=True)
class SitesSetting:
    """The sites' images. Each site has `share` times as many images as the site before, but at least `least`.

    largest: the number of images of the first site. blur: the standard deviation of the noise on a pixel in [0, 1], at
    the first site and at the last. tilt: how much rarer the digits 5 to 9 are at the last site than at the first.
    """

    name: str
    largest: int
    share: float
    least: int
    blur: tuple[float, float]
    tilt: float


UNLIKE_SITES = SitesSetting("unlike sites", largest=400, share=0.4, least=40, blur=(0.3, 0.8), tilt=0.8)
ALIKE_SITES = SitesSetting("alike sites, few fits each", largest=60, share=1.0, least=60, blur=(0.5, 0.5), tilt=0.0)
ALIKE_SCALE = {"smoke": (3, 8), "paper": (9, 12)}  # profile -> sites, and fits per site
SITE_COLUMNS = {
    **{"setting": "its name", "way": "a name of the ways", "run": "0, 1, ...", "site": "0, 1, ..."},
    **{"images": "the site's own", "C": "of the machine deployed", "gamma": "the same"},
    "auc": "its AUC on images never seen",
}
GP_SHARED = "Gaussian processes, sites together"
PF_PNE_PLUS = "PF-PNE+, sites together"
GP_ALONE, TPE_ALONE = "Gaussian process, each alone", "Optuna's TPE, each alone"
RANDOM_ALONE = "random search, each alone"
WAYS_ALONE = (GP_ALONE, TPE_ALONE, RANDOM_ALONE)
POOLED = "pooled images, one machine"
WAYS = {  # the compared ways: the algorithm (or Optuna), whether on pooled data, and its settings
    GP_SHARED: ("gp-shared", False, {}),
    PF_PNE_PLUS: ("pf-pne+", False, {}),
    GP_ALONE: ("gp", False, {}),
    TPE_ALONE: ("optuna", False, {}),
    RANDOM_ALONE: ("random", False, {}),
    POOLED: ("gp", True, {}),
}
WAYS_IN_PARTS = {  # PF-PNE+ part by part, and its search alone
    PF_PNE_PLUS: WAYS[PF_PNE_PLUS],
    **{f"without {words}": ("pf-pne+", False, {part: False}) for part, words in PARTS_IN_WORDS.items()},
    label(HCT_NOISE_EARLY): ("hct-noise", False, {"early_descent": True}),
}


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    images, digit = load_digits(return_X_y=True)
    return images / 16, digit


def make_sites(M: int, seed: int, run: int, setting: SitesSetting = UNLIKE_SITES) -> list[tuple[tuple, tuple]]:
    """Draw the images of each site.

    Parameters
    ----------
    M : int
        The number of sites.
    seed, run : int
        The names of the random stream.
    setting : SitesSetting
        The sites' images.

    Returns
    -------
    list of tuple
        For each site, its own images and its unseen images, (x (n, 64), even (n,)) each; no image occurs twice.
    """
    check_integer("n_clients (M)", M, 1, MAX_SITES, ": there are no images for more")
    images, digit = _digits()
    key = () if setting == UNLIKE_SITES else (setting.name,)
    rng, free, sites = stream(seed, "sites", *key, run), np.ones(len(digit), dtype=bool), []
    for m in range(M):
        place = m / max(1, M - 1)
        n = max(setting.least, int(setting.largest * setting.share**m))
        blur = setting.blur[0] + place * (setting.blur[1] - setting.blur[0])
        weight = np.where(digit >= 5, 1 - setting.tilt * place, 1.0)

        def take(k: int, weight=weight, blur=blur) -> tuple:
            chance = weight * free
            drawn = rng.choice(len(digit), k, replace=False, p=chance / chance.sum())
            free[drawn] = False
            return images[drawn] + blur * rng.standard_normal((k, images.shape[1])), digit[drawn] % 2 == 0

        sites.append((take(n), take(N_UNSEEN // M)))
    return sites


def auc(point: dict, train: tuple, test: tuple) -> float:
    """The AUC on the test images (x, y) of a machine with this point's parameters, fitted to the training images."""
    from sklearn.metrics import roc_auc_score
    from sklearn.svm import SVC

    return float(roc_auc_score(test[1], SVC(**point).fit(*train).decision_function(test[0])))


def objective(own: tuple, rng: np.random.Generator):
    """Make the reward of a site: a function of (C, gamma) that returns the AUC on a random quarter of its own images.

    Parameters
    ----------
    own : tuple
        The site's images, (x (n, 64), even (n,)).
    rng : numpy.random.Generator
        The generator that draws the quarters.

    Returns
    -------
    callable
        {"C": ..., "gamma": ...} -> AUC.
    """
    from sklearn.model_selection import train_test_split

    def reward(point: dict) -> float:
        cut = int(rng.integers(2**31))
        x, x_left, y, y_left = train_test_split(*own, test_size=0.25, stratify=own[1], random_state=cut)
        return auc(point, (x, y), (x_left, y_left))

    return reward


def search_points(rewards: list, n_evaluations: int, algorithm: str, settings: dict, seed: int) -> list[dict]:
    """The points {"C": ..., "gamma": ...} that each site deploys after its own number of fits."""
    if algorithm != "optuna":
        result = tune(rewards, SPACE, n_evaluations, algorithm=algorithm, seed=seed, progress=False, **settings)
        return [*result.deploy.values()]
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    points = []
    for m, reward in enumerate(rewards):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed + m))
        study.optimize(lambda trial, reward=reward: reward(_suggested(trial)), n_trials=n_evaluations)
        points.append(study.best_params)
    return points


def _suggested(trial) -> dict:
    """A point of SPACE, as Optuna suggests it."""
    return {name: trial.suggest_float(name, part.low, part.high, log=part.log) for name, part in SPACE.items()}


def run_ways(setting: SitesSetting, M: int, n_evaluations: int, seed: int, ways: dict, run: int) -> list[list]:
    """One row per way and site, columns as in SITE_COLUMNS. Each way has M n_evaluations fits."""
    sites, rows = make_sites(M, seed, run, setting), []
    pooled_images = tuple(map(np.concatenate, zip(*(own for own, _ in sites), strict=True)))
    for way, (algorithm, pooled, settings) in ways.items():
        data = [pooled_images] if pooled else [own for own, _ in sites]
        key = ("sites", run) if setting == UNLIKE_SITES else ("sites", setting.name, run)
        rewards = [objective(own, stream(seed, *key, "quarters", m)) for m, own in enumerate(data)]
        points = search_points(rewards, n_evaluations * M // len(data), algorithm, settings, seed + 1_000 * run)
        for m, (_, unseen) in enumerate(sites):
            k = 0 if pooled else m
            place = [setting.name, way, run, m, len(sites[m][0][1])]
            rows.append([*place, *points[k].values(), auc(points[k], data[k], unseen)])
    return rows


def results(
    p: Parameters,
    ways: dict = WAYS,
    settings: tuple[SitesSetting, ...] = (UNLIKE_SITES, ALIKE_SITES),
    folder: Path = RESULTS_FOLDER,
) -> pd.DataFrame:
    """Tune at the sites in each way, or read the stored rows.

    Parameters
    ----------
    p : Parameters
        The notebook's parameters: n_clients is the number of unlike sites, horizon the fits of each. The alike sites
        are as in ALIKE_SCALE.
    ways : dict
        The ways of tuning that are compared, as WAYS.
    settings : tuple of SitesSetting
        The settings of the sites.
    folder : Path
        The folder of stored rows.

    Returns
    -------
    pandas.DataFrame
        One row per setting, way, run and site, columns as in SITE_COLUMNS.
    """
    tables = []
    for setting in settings:
        M, fits = (p.n_clients, p.horizon) if setting == UNLIKE_SITES else ALIKE_SCALE[p.profile]
        of_run = (setting, M, fits, p.seed, ways)

        def make(of_run=of_run, setting=setting) -> list:
            jobs = [(*of_run, run) for run in range(p.n_runs)]
            return sum(run_in_order(run_ways, jobs, p.n_jobs, progress(setting.name)), [])

        libraries = {name: version(name) for name in ("scikit-learn", "optuna")}
        content = {"sites": [asdict(setting), *of_run[1:]], "n_runs": p.n_runs, **libraries}
        names = [name for name, *_ in ways.values() if name in ALGORITHMS]
        key = cache.key(content, run_ways, *(ALGORITHMS[name] for name in names))
        tables.append(pd.DataFrame(cache.stored_rows(key, make, folder), columns=[*SITE_COLUMNS]))
    return pd.concat(tables, ignore_index=True)


def compare(table: pd.DataFrame, seed: int, ours: str = GP_SHARED) -> pd.DataFrame:
    """Compare the AUC of our way with each other's, paired by run.

    Parameters
    ----------
    table : pandas.DataFrame
        As `results` returns it.
    seed : int
        The seed of the bootstrap.
    ours : str
        The way that the others are compared with.

    Returns
    -------
    pandas.DataFrame
        One row per setting, rival and site: difference (our AUC minus the rival's), and the ends low and high of its
        95 % bootstrap interval. The site "all" is the mean over the sites.
    """
    rows = []
    for setting, of_setting in table.groupby("setting", sort=False):
        rivals = [way for way in of_setting["way"].unique() if way != ours]
        for site, part in [("all", of_setting), *of_setting.groupby("site")]:
            wide = part.pivot_table(index="run", columns="way", values="auc")
            for way in rivals:
                difference = (wide[ours] - wide[way]).to_numpy()
                low, high = stats.mean_interval(difference, stream(seed, "sites", setting, way, str(site)))
                head = {"setting": setting, "against": way, "site": site, "n": len(wide)}
                rows.append({**head, "difference": difference.mean(), "low": low, "high": high})
    return pd.DataFrame(rows)


@our_style()
def draw(table: pd.DataFrame, differences: pd.DataFrame, p: Parameters) -> Exhibit:
    """Draw the AUC of each way at each site, and the differences: one row of panels per setting.

    Parameters
    ----------
    table : pandas.DataFrame
        As `results` returns it.
    differences : pandas.DataFrame
        As `compare` returns them.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    settings = [*table["setting"].unique()]
    scales = {UNLIKE_SITES.name: (p.n_clients, p.horizon), ALIKE_SITES.name: ALIKE_SCALE[p.profile]}
    budgets = "; ".join(f"{words}: {scales[words][0]} sites with {scales[words][1]} fits each" for words in settings)
    caption = (
        f"Left: AUC on images never seen, by site (with its number of images), in {p.n_runs} paired runs. A dot is "
        "one run, a bar the mean. On the pooled images one search has the fits of all. Right: AUC of Gaussian "
        "processes that share what they believe, less that of each other way that pools nothing, with a bootstrap "
        f"95 % interval; right of the line sharing is better. {budgets[0].upper()}{budgets[1:]}."
    )
    figure, axes = new_figure((PAGE, 2.7 * len(settings)), rows=len(settings), columns=2, width_ratios=(1.6, 1))
    for (left, right), setting in zip(axes, settings, strict=True):
        part = table[table["setting"] == setting]
        named = part.assign(place=[f"{m + 1} ({n})" for m, n in part[["site", "images"]].to_numpy()])
        how = {"data": named, "x": "place", "y": "auc", "hue": "way", "palette": "colorblind", "ax": left}
        sns.stripplot(**how, dodge=True, size=2, alpha=0.5, legend=False, jitter=False)  # of the global random state
        sns.pointplot(**how, dodge=0.66, linestyle="none", marker="_", markersize=6, errorbar=None)
        left.set(xlabel="site (its images)", ylabel="AUC, images never seen", title=setting)
        left.get_legend().remove()
        of_all = differences[(differences["site"] == "all") & (differences["setting"] == setting)]
        rows = of_all[of_all["against"] != POOLED].iloc[::-1]  # so far off that the others could not be told apart
        right.axvline(0, color="0.6", linewidth=0.8)
        lengths = np.abs(rows[["low", "high"]].to_numpy().T - rows["difference"].to_numpy())
        right.errorbar(rows["difference"], range(len(rows)), xerr=np.nan_to_num(lengths), fmt="o", color="black")
        right.set_yticks(
            range(len(rows)), [f"less {way}".replace(", ", ",\n") for way in rows["against"]], fontsize=6.5
        )
        right.set(xlabel="difference of AUC", ylim=(-0.6, len(rows) - 0.4))
    handles, names = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=3, fontsize=7)
    return figure_exhibit(figure, "tune_your_own", caption, table)


def sentences(differences: pd.DataFrame) -> list[str]:
    """Summarise each setting. Federation paid if every way of tuning alone is worse for certain.

    Parameters
    ----------
    differences : pandas.DataFrame
        As `compare` returns them.

    Returns
    -------
    list of str
        The sentences, in Markdown.
    """
    lines = []
    for setting, rows in differences.groupby("setting", sort=False):
        rows = rows[rows["site"] == "all"]
        alone = rows[rows["against"].isin(WAYS_ALONE)]
        better, within_chance = alone[alone["high"] < 0], alone[alone["low"] <= 0]
        if rows["n"].min() < MIN_RUNS:
            verdict, why = "there are too few runs for a verdict", ""
        elif len(better):
            verdict = "federation did not pay"
            why = f" This way of tuning alone is better for certain: {'; '.join(better['against'])}."
        elif len(within_chance):
            names = "; ".join(within_chance["against"])
            verdict, why = "it is open whether federation pays", f" Within chance these are as good: {names}."
        else:
            verdict, why = "federation paid: every way of tuning alone is worse", ""
        parts = [f"{row.against} {row.difference:+.3f} [{row.low:+.3f}, {row.high:+.3f}]" for row in rows.itertuples()]
        above = "The AUC of Gaussian processes that share is above that of each other way by this much"
        lines.append(f"**With {setting}, {verdict}.**{why} {above}: {'; '.join(parts)}.")
    return lines
