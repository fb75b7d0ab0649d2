"""Problems of model tuning, each made of scikit-learn's data, and what a way of tuning is worth on them.

    python benchmarks/own_problems.py tabulate              # the score tables, once; some minutes
    python benchmarks/own_problems.py run held-out          # every search on the held-out problems
    python benchmarks/own_problems.py run development random gp     # two of them on the others
    python benchmarks/own_problems.py write                 # the table of docs/own-problem.md

Every run is kept in benchmarks/own_problems/, so that `write` needs no run. A run that is there is not made again.

There are two sets. DEVELOPMENT served to develop the searches of `tune`. HELD_OUT was declared before any method was
run on it, and at last decided the default: other data, other models, other numbers of sites; on three of its problems
the sites are alike and five or more.

A problem: M sites, and a score in [0, 1] (1 the best) of a model that is fitted to a random part of a site's own data.
The score is tabulated once, for REPEATS random splits on a grid of the box of parameters. An evaluation draws one of
the splits and interpolates its table, so that it has the noise of a real fit. The true value is the mean of all splits.
The search sees the unit cube. A seed cuts a quarter of each side of the box away, at random on either end, since some
algorithms begin in the middle, where people put the best.

The measure: the gap of the deployed point, in % of (best - average) of the true values of that site in the cut box,
averaged over sites, then over problems, and at last over seeds (with a 95 % bootstrap interval over seeds). Every
search is judged by two points from the same evaluations: the one that the model of `tune` deploys ("model"), and the
one of the best value ("value"), which is what Optuna gives. Searches, budgets and seeds were declared, as SEARCHES and
SEEDS have them, before the runs with 300 evaluations and those of Optuna that a model deploys had been made.

The runs with 2,000 evaluations are for the default beyond 1,000, and only of the searches SEARCHES_FOR_MANY. Declared
before any of them was made: `pf-pne+` with gaussian_process=True becomes that default unless its gap, deployed by the
model and on all problems, is above that of `pf-pne+` by more than chance (the 95 % interval of the difference is above
0), and if it passes on the map (benchmarks/gp_on_map.py).
"""

import argparse
import csv
import functools
import itertools
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np  # noqa: E402  threads are limited before
import pandas as pd  # noqa: E402  threads are limited before

import pfpne  # noqa: E402  threads are limited before
from pfpne.rng import stream  # noqa: E402  threads are limited before

HERE = Path(__file__).resolve().parent
TABLES, RUNS, DOCS = HERE / "results" / "own_problems", HERE / "own_problems", HERE.parent / "docs"
SEEDS = {30: 10, 100: 6, 300: 6, 2_000: 4}  # n, evaluations per site, and how many seeds
MIN_EVALUATIONS_TO_VARY = 4  # seeds: of fewer no interval is given
CHOICES = ("model", "value")  # what is deployed: see above
REPEATS = 8  # random splits per point of the grid
GRID = {1: 33, 2: 11, 3: 7}  # points per parameter, by the number of parameters
CUT = 0.25  # of each side of the box
TEST = 0.3  # of a site's data, in each split


# --- the data and the models ------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    """data(rng) -> [(x, y)] per site; fit(point, train, test) -> score in [0, 1]; space: as in `tune`; alike: whether
    all sites draw from one distribution."""

    data: Callable
    fit: Callable
    space: dict
    alike: bool = False


def split_sites(x, y, rng, M: int, tilt: float = 0.0, blur: tuple = (0.0, 0.0), sizes: tuple = (1.0, 1.0)) -> list:
    """The rows shared out among M sites: unequal sizes, from a worse instrument (blur) and another mix of y (tilt)."""
    x = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-9)
    order = np.argsort(np.argsort(y, kind="stable")) / len(y)
    free, sites = np.ones(len(y), dtype=bool), []
    weights = np.linspace(*sizes, M)
    counts = np.floor(len(y) * weights / weights.sum()).astype(int)
    for m in range(M):
        share = m / max(1, M - 1)
        chance = free * np.exp(tilt * (2 * share - 1) * (2 * order - 1))
        rows = rng.choice(len(y), counts[m], replace=False, p=chance / chance.sum())
        free[rows] = False
        noise = blur[0] + share * (blur[1] - blur[0])
        sites.append((x[rows] + noise * rng.standard_normal(x[rows].shape), y[rows]))
    return sites


def loaded(name: str) -> tuple[np.ndarray, np.ndarray]:
    from sklearn import datasets

    return getattr(datasets, f"load_{name}")(return_X_y=True)


def accuracy(model, train, test) -> float:
    return float((model.fit(*train).predict(test[0]) == test[1]).mean())


def closeness(model, train, test) -> float:
    """1 less the root mean squared error over twice the standard deviation, at least 0."""
    error = np.sqrt(np.mean((model.fit(*train).predict(test[0]) - test[1]) ** 2))
    return float(max(0.0, 1 - error / (2 * test[1].std() + 1e-9)))


def svm(p, train, test) -> float:
    from sklearn.svm import SVC

    return accuracy(SVC(C=p["C"], gamma=p["gamma"]), train, test)


def logistic(p, train, test) -> float:
    from sklearn.linear_model import SGDClassifier

    how = {"penalty": "elasticnet", "alpha": p["alpha"], "l1_ratio": p["l1"], "max_iter": 60, "tol": None}
    return accuracy(SGDClassifier("log_loss", random_state=0, **how), train, test)


def ridge(p, train, test) -> float:
    from sklearn.kernel_ridge import KernelRidge

    center = train[1].mean()
    model = KernelRidge(alpha=p["alpha"], kernel="rbf", gamma=p["gamma"])
    return closeness(model, (train[0], train[1] - center), (test[0], test[1] - center))


def tree(p, train, test) -> float:
    from sklearn.tree import DecisionTreeRegressor

    how = {"max_depth": round(p["depth"]), "min_samples_leaf": round(p["leaf"])}
    return closeness(DecisionTreeRegressor(random_state=0, ccp_alpha=p["alpha"] * train[1].var(), **how), train, test)


def classification_tree(p, train, test) -> float:
    from sklearn.tree import DecisionTreeClassifier

    how = {"max_depth": round(p["depth"]), "min_samples_leaf": round(p["leaf"]), "max_features": p["share"]}
    return accuracy(DecisionTreeClassifier(random_state=0, **how), train, test)


def discriminant(p, train, test) -> float:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    return accuracy(LinearDiscriminantAnalysis("lsqr", shrinkage=p["shrinkage"]), train, test)


def neighbours(p, train, test) -> float:
    from sklearn.neighbors import KNeighborsClassifier

    k = int(min(round(p["k"]), len(train[1])))
    how = {"weights": lambda d: 1 / (d + 1e-9) ** p["power"], "algorithm": "brute"}
    return accuracy(KNeighborsClassifier(k, **how), train, test)


def passive_steps(p, train, test) -> float:
    from sklearn.linear_model import SGDClassifier

    how = {"learning_rate": "constant", "eta0": p["eta"], "alpha": p["alpha"], "max_iter": 15, "tol": None}
    return accuracy(SGDClassifier("hinge", random_state=0, **how), train, test)


def vector_regression(p, train, test) -> float:
    from sklearn.svm import SVR

    scale = train[1].std()
    model = SVR(C=p["C"], gamma=p["gamma"], epsilon=p["epsilon"])
    return closeness(model, (train[0], train[1] / scale), (test[0], test[1] / scale))


def made_classes(rng, M: int, n: int, differ: float) -> list:
    """Two classes in ten dimensions; of sites that differ, the directions turn and more labels are wrong."""
    from sklearn.datasets import make_classification

    how = {"n_features": 10, "n_informative": 4, "n_redundant": 2, "n_clusters_per_class": 2, "class_sep": 0.9}
    sites = []
    common = int(rng.integers(2**31))
    for m in range(M):
        wrong = 0.05 + differ * 0.25 * m / max(1, M - 1)
        x, y = make_classification(M * n, random_state=common + (m if differ else 0), flip_y=wrong, **how)
        sites.append((x[m * n : (m + 1) * n], y[m * n : (m + 1) * n]))
    return sites


def made_numbers(rng, M: int, n: int, kind: str, differ: float) -> list:
    from sklearn import datasets

    sites = []
    for m in range(M):
        noise = (1.0 if kind == "make_friedman1" else 60.0) * (1 + differ * 3 * m / max(1, M - 1))
        x, y = getattr(datasets, kind)(n, noise=noise, random_state=int(rng.integers(2**31)))
        sites.append(((x - x.mean(axis=0)) / x.std(axis=0), y))
    return sites


def digits(rng, M: int, n: int, alike: bool) -> list:
    x, y = loaded("digits")
    keep = rng.permutation(len(y))[: M * n]
    if alike:
        return split_sites(x[keep], y[keep], rng, M)
    return split_sites(x[keep], y[keep] % 2, rng, M, tilt=1.0, blur=(0.2, 0.8), sizes=(1.6, 0.6))


log, lin = functools.partial(pfpne.Float, log=True), pfpne.Float
SVM = {"C": log(1e-2, 1e3), "gamma": log(1e-4, 1.0)}
RIDGE = {"alpha": log(1e-4, 1e1), "gamma": log(1e-4, 1.0)}

DEVELOPMENT = {
    "digits, SVM": Problem(lambda rng: digits(rng, 4, 150, alike=False), svm, SVM),
    "cancer, SVM": Problem(lambda rng: split_sites(*loaded("breast_cancer"), rng, 6, 1.0, (0.3, 1.5)), svm, SVM),
    "cancer, logistic": Problem(
        lambda rng: split_sites(*loaded("breast_cancer"), rng, 5),
        logistic,
        {"alpha": log(1e-5, 1e0), "l1": lin(0, 1)},
        alike=True,
    ),
    "diabetes, kernel ridge": Problem(
        lambda rng: split_sites(*loaded("diabetes"), rng, 4, 1.0, (0.0, 1.0), (1.5, 0.7)), ridge, RIDGE
    ),
    "diabetes, tree": Problem(
        lambda rng: split_sites(*loaded("diabetes"), rng, 4, 1.0, (0.0, 1.0)),
        tree,
        {"depth": lin(1, 10), "leaf": log(1, 40), "alpha": log(1e-4, 1e-1)},
    ),
}

HELD_OUT = {
    "wine, SVM": Problem(lambda rng: split_sites(*loaded("wine"), rng, 3, 0.5, (0.5, 1.5)), svm, SVM),
    "iris, discriminant": Problem(
        lambda rng: split_sites(*loaded("iris"), rng, 3, 0.0, (0.5, 1.5)),
        discriminant,
        {"shrinkage": lin(0, 1)},
    ),
    "cancer, neighbours": Problem(
        lambda rng: split_sites(*loaded("breast_cancer"), rng, 7, 1.0, (0.5, 2.0), (1.4, 0.6)),
        neighbours,
        {"k": log(1, 40), "power": lin(0, 4)},
    ),
    "classes, tree": Problem(
        lambda rng: made_classes(rng, 6, 150, differ=1.0),
        classification_tree,
        {"depth": lin(1, 12), "leaf": log(1, 40), "share": lin(0.1, 1)},
    ),
    "friedman2, vector regression": Problem(
        lambda rng: made_numbers(rng, 5, 90, "make_friedman2", differ=1.0),
        vector_regression,
        {"C": log(1e-2, 1e3), "gamma": log(1e-4, 1.0), "epsilon": log(1e-3, 1.0)},
    ),
    "digits, steps": Problem(
        lambda rng: digits(rng, 6, 150, alike=True),
        passive_steps,
        {"eta": log(1e-5, 1e0), "alpha": log(1e-5, 1e0)},
        alike=True,
    ),
    "classes, SVM": Problem(lambda rng: made_classes(rng, 8, 100, differ=0.0), svm, SVM, alike=True),
    "friedman1, kernel ridge": Problem(
        lambda rng: made_numbers(rng, 10, 80, "make_friedman1", differ=0.0), ridge, RIDGE, alike=True
    ),
}
SETS = {"development": DEVELOPMENT, "held-out": HELD_OUT}


# --- the tables -------------------------------------------------------------------------------------


class Surface:
    """A site's tabulated scores (splits, *grid), cut to a box inside the unit cube, low and high (d,) each."""

    def __init__(self, table: np.ndarray, low: np.ndarray, high: np.ndarray):
        self.table, self.low, self.high = table, low, high
        self.truth = table.mean(axis=0)
        d, fine = len(low), {1: 401, 2: 61, 3: 25}[len(low)]
        values = self._values(self.truth, np.array(list(itertools.product(np.linspace(0, 1, fine), repeat=d))))
        self.best, self.average = values.max(), values.mean()

    def _values(self, table: np.ndarray, u: np.ndarray) -> np.ndarray:
        """The table (*grid), interpolated linearly at u (n, d) of the cut box."""
        d = u.shape[1]
        position = (self.low + u * (self.high - self.low)) * (np.array(table.shape) - 1)
        cell = np.clip(position.astype(int), 0, np.array(table.shape) - 2)
        part, total = position - cell, 0.0
        for corner in itertools.product((0, 1), repeat=d):
            weight = np.prod(np.where(corner, part, 1 - part), axis=1)
            total = total + weight * table[tuple((cell + corner).T)]
        return total

    def score(self, u: np.ndarray, rng: np.random.Generator) -> float:
        """A noisy evaluation at u (d,): the score of a random split."""
        return float(self._values(self.table[rng.integers(len(self.table))], u[None])[0])

    def gap(self, u: np.ndarray) -> float:
        """By how much the true value at u (d,) is below the best, in % of (best - average)."""
        value = self._values(self.truth, u[None])[0]
        return 100 * max(0.0, self.best - value) / (self.best - self.average)


def tabulate(name: str, problem: Problem) -> None:
    """Write the table (M, splits, *grid) of a problem, unless it is there."""
    path = TABLES / f"{name}.npy"
    if path.exists():
        return
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils._testing import ignore_warnings

    start, space, d = time.perf_counter(), pfpne.Space(problem.space), len(problem.space)
    sides = [np.linspace(0, 1, GRID[d])] * d
    sites, rows = problem.data(stream(0, "own problems", name)), []
    fit = ignore_warnings(category=ConvergenceWarning)(problem.fit)
    for m, (x, y) in enumerate(sites):
        for repeat in range(REPEATS):
            order = stream(0, "own problems", name, m, repeat).permutation(len(y))
            cut = int(len(y) * TEST)
            test, train = (x[order[:cut]], y[order[:cut]]), (x[order[cut:]], y[order[cut:]])
            rows.append([fit(space.point(u), train, test) for u in itertools.product(*sides)])
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, np.reshape(rows, (len(sites), REPEATS, *([GRID[d]] * d))))
    print(f"{name}: {len(sites)} sites, {time.perf_counter() - start:.0f} s", flush=True)


def surfaces(name: str, seed: int) -> list[Surface]:
    """The sites of a problem, their box cut by the seed."""
    tables = np.load(TABLES / f"{name}.npy")
    low = CUT * stream(seed, "own problems", name, "cut").random(tables.ndim - 2)
    return [Surface(table, low, low + 1 - CUT) for table in tables]


# --- what is compared -------------------------------------------------------------------------------


def tuned(algorithm: str, **settings) -> Callable:
    """`pfpne.tune` by an algorithm: its `deploy`, and its `found`."""

    def search(objectives: list, d: int, n: int, seed: int) -> dict[str, np.ndarray]:
        named = [lambda p, f=f: f(np.array(list(p.values()))) for f in objectives]
        result = pfpne.tune(named, cube(d), n, algorithm=algorithm, seed=seed, progress=False, **settings)
        pairs = zip(CHOICES, (result.deploy, result.found), strict=True)
        return {choice: np.array([list(point.values()) for point in points.values()]) for choice, points in pairs}

    return search


def cube(d: int) -> dict:
    return {f"x{j}": pfpne.Float(0, 1) for j in range(d)}


def optuna_alone(objectives: list, d: int, n: int, seed: int) -> dict[str, np.ndarray]:
    """Optuna's TPE, a study per site: what the model of `tune` deploys of its trials, and its best_params."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    points = {choice: [] for choice in CHOICES}
    for m, f in enumerate(objectives):
        sampler = optuna.samplers.TPESampler(seed=1000 * seed + m)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        study.optimize(lambda t, f=f: f(np.array([t.suggest_float(name, 0, 1) for name in cube(d)])), n_trials=n)
        known = {"site": [(trial.params, trial.value) for trial in study.trials]}
        result = pfpne.Search(["site"], cube(d), 1, algorithm="random", known=known).result()
        for choice, point in zip(CHOICES, (result.deploy["site"], study.best_params), strict=True):
            points[choice].append([point[name] for name in cube(d)])
    return {choice: np.array(chosen) for choice, chosen in points.items()}


ALGORITHMS = ("gp", "gp-shared", "pf-pne+", "hct-noise", "random")
PLUS_GP = "pf-pne+ gp"
SEARCHES = {
    **{name: tuned(name) for name in ALGORITHMS},
    "optuna": optuna_alone,
    PLUS_GP: tuned("pf-pne+", gaussian_process=True),
}
SEARCHES_FOR_MANY = ("pf-pne+", PLUS_GP, "hct-noise", "random")  # those of the largest budget
COLUMNS = ("search", "deployed", "problem", "n", "seed", "gap", "ms")


def one(search: str, name: str, n: int, seed: int) -> list[tuple]:
    """One run of a search on a problem, a row as in COLUMNS for each choice.

    gap is the mean over the sites, and ms the processor's milliseconds per evaluation.
    """
    sites = surfaces(name, seed)
    streams = [stream(seed, "own problems", name, m, "splits") for m in range(len(sites))]
    objectives = [lambda u, s=s, rng=rng: s.score(u, rng) for s, rng in zip(sites, streams, strict=True)]
    start = time.process_time()
    chosen = SEARCHES[search](objectives, len(sites[0].low), n, seed)
    milliseconds = 1000 * (time.process_time() - start) / (n * len(sites))
    rows = []
    for choice, points in chosen.items():
        gaps = [site.gap(u) for site, u in zip(sites, points, strict=True)]
        rows.append((search, choice, name, n, seed, f"{np.mean(gaps):.4f}", f"{milliseconds:.3f}"))
    return rows


def kept(which: str) -> pd.DataFrame:
    """The runs that there are, columns as in COLUMNS."""
    path = RUNS / f"{which}.csv"
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=[*COLUMNS])


def run(which: str, searches: list[str], budgets: list[int], seeds: int) -> None:
    """Every run that is not there yet, one after another, written as they are made; seeds: at most so many."""
    path, done = RUNS / f"{which}.csv", set(kept(which)[["search", "problem", "n", "seed"]].itertuples(index=False))
    path.parent.mkdir(exist_ok=True)
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if file.tell() == 0:
            writer.writerow(COLUMNS)
        for n in budgets:
            for seed, search, name in itertools.product(range(min(seeds, SEEDS[n])), searches, SETS[which]):
                if (search, name, n, seed) not in done:
                    writer.writerows(one(search, name, n, seed))
                    file.flush()


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """The mean of values (seeds,), and its 95 % bootstrap interval."""
    drawn = stream(0, "own problems", "bootstrap").choice(values, (2000, len(values))).mean(axis=1)
    return float(np.mean(values)), *map(float, np.quantile(drawn, (0.025, 0.975)))


def gaps(which: str, n: int) -> pd.DataFrame:
    """The gaps of a budget, of the searches that were run on all problems.

    One row per seed that all of them have, one column per (search, problem, deployed).
    """
    runs = kept(which)
    wide = runs[runs["n"] == n].pivot_table(index="seed", columns=["search", "problem", "deployed"], values="gap")
    whole = [search for search in SEARCHES if wide.get(search, pd.DataFrame()).shape[1] == 2 * len(SETS[which])]
    return wide[whole].dropna()


def of(wide: pd.DataFrame, search: str, deployed: str, problems: list[str]) -> np.ndarray:
    """The mean gap over some problems (seeds,)."""
    return np.mean([wide[search, problem, deployed] for problem in problems], axis=0)


def summary(which: str) -> pd.DataFrame:
    """One row per budget, search and choice: the gap on all problems, and where sites are similar or differ."""
    rows, runs = [], kept(which)
    for n, search, deployed in itertools.product(SEEDS, SEARCHES, CHOICES):
        wide = gaps(which, n)
        if len(wide) < 2 or search not in wide:
            continue
        row = {"n": n, "search": search, "deployed": deployed, "seeds": len(wide)}
        for words, problems in groups(which).items():
            row |= {words: (numbers := interval(of(wide, search, deployed, problems)))[0]}
            row |= {f"{words}, low": numbers[1], f"{words}, high": numbers[2]}
        own = runs[(runs["n"] == n) & (runs["search"] == search)]
        rows.append({**row, "ms": own["ms"].median()})
    return pd.DataFrame(rows)


def groups(which: str) -> dict[str, list[str]]:
    """All problems, and those whose sites are similar or differ."""
    problems = SETS[which]
    return {
        "all": [*problems],
        "alike": [name for name in problems if problems[name].alike],
        "differ": [name for name in problems if not problems[name].alike],
    }


def comparisons(which: str) -> list[str]:
    """One sentence per budget: what the default gains on others, and sharing on searching alone, paired by seed."""
    sentences = []
    for n in SEEDS:
        wide, parts = gaps(which, n), []
        if PLUS_GP in wide:
            for rival in (name for name in SEARCHES_FOR_MANY if name != PLUS_GP and name in wide):
                ours, its = (of(wide, name, "model", groups(which)["all"]) for name in (PLUS_GP, rival))
                parts.append(f"`{rival}` {in_words(ours - its)}")
            words = "The gap of `pf-pne+` with `gaussian_process=True` minus that of another search"
            sentences.append(f"**{n:,} evaluations.** {words}, each deployed by the model: {'; '.join(parts)}.")
            continue
        if len(wide) < 2 or not {"gp", "gp-shared", "optuna", "random"} <= set(wide.columns.get_level_values(0)):
            sentences.append(f"**{n:,} evaluations.** Not run yet.")
            continue
        for rival, deployed, words in (
            ("optuna", "value", "Optuna"),
            ("optuna", "model", "Optuna with our model"),
            ("random", "value", "random search"),
            ("random", "model", "random search with our model"),
        ):
            less = of(wide, "gp", "model", groups(which)["all"]) - of(wide, rival, deployed, groups(which)["all"])
            parts.append(f"{words} {in_words(less)}")
        shared = []
        for words, problems in groups(which).items():
            own, alone = (of(wide, search, "model", problems) for search in ("gp-shared", "gp"))
            place = {"all": "on all problems", "alike": "where sites are similar", "differ": "where they differ"}[words]
            shared.append(f"{in_words(own - alone)} {place} ({own.mean() / alone.mean():.2f} times)")
        sentences.append(
            f"**{n} evaluations.** The gap of `gp` minus that of another search: {'; '.join(parts)}. The gap of"
            f" `gp-shared` minus that of `gp`: {'; '.join(shared)}."
        )
    return sentences


def in_words(values: np.ndarray) -> str:
    mean, low, high = interval(values)
    return f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]" if len(values) >= MIN_EVALUATIONS_TO_VARY else f"{mean:+.1f}"


LABELS = {
    "gp": "**`gp`, the default**: a Gaussian process at each site alone",
    "gp-shared": "`gp-shared`: the same, and sites share what they believe",
    "optuna": "Optuna's TPE, each site alone",
    "random": "random search",
    "hct-noise": "`hct-noise`, each site alone",
    "pf-pne+": "`pf-pne+`: together, then alone",
    PLUS_GP: "`pf-pne+` with `gaussian_process=True`",
}


def write() -> None:
    """The held-out runs as the table of docs/own-problem.md."""
    from pfpne.paper.exhibits.pages import update_block
    from pfpne.paper.show.export import as_markdown

    def cell(row: pd.Series, group: str) -> str:
        ends = (
            f" [{row[f'{group}, low']:.1f}, {row[f'{group}, high']:.1f}]"
            if row["seeds"] >= MIN_EVALUATIONS_TO_VARY
            else ""
        )
        return f"{row[group]:.1f}{ends}"

    rows = []
    for (n, search), both in summary("held-out").sort_values("deployed").groupby(["n", "search"]):
        model, value = (row for _, row in both.iterrows())
        rows.append(
            {
                "n": f"{n:,}",
                "search": LABELS[search],
                "gap, deployed by the model": cell(model, "all"),
                "by the best value": cell(value, "all"),
                "by the model, similar sites": cell(model, "alike"),
                "by the model, differing sites": cell(model, "differ"),
                "seeds": str(model["seeds"]),
                "budget": n,
                "order": model["all"],
            }
        )
    page = pd.DataFrame(rows).sort_values(["budget", "order"])
    source = (
        "*Made by `python benchmarks/own_problems.py write` from "
        "[the runs](../benchmarks/own_problems/held-out.csv); do not edit.*"
    )
    lines = "".join(f"- {sentence}\n" for sentence in comparisons("held-out"))
    cells = as_markdown(page.drop(columns=["order", "budget"]))
    update_block(DOCS / "own-problem.md", "budgets", f"{source}\n\n{cells}\n{lines}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("tabulate", "run", "show", "write"))
    parser.add_argument("which", nargs="?", choices=tuple(SETS))
    parser.add_argument("searches", nargs="*", metavar="search", help=", ".join(SEARCHES))
    parser.add_argument("--n", type=int, nargs="+", default=list(SEEDS), choices=tuple(SEEDS))
    parser.add_argument("--seeds", type=int, default=max(SEEDS.values()), help="at most so many")
    given = parser.parse_args()
    if given.what == "tabulate":
        for problems in SETS.values():
            for name, problem in problems.items():
                tabulate(name, problem)
    elif given.what == "write":
        write()
    elif given.which is None:
        parser.error("say which problems: development or held-out.")
    elif given.what == "run":
        run(given.which, given.searches or list(SEARCHES), given.n, given.seeds)
    if given.which is not None:
        print(summary(given.which).round(2).to_string(index=False))


if __name__ == "__main__":
    sys.exit(main())
