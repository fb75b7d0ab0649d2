"""PyXAB's own VHCT and StroquOOL beside our searches of a client alone, on the same cells and the same noise.

    python benchmarks/pyxab_rivals.py [--runs 10] [--page docs/baselines.md]

Writes the table of the page docs/baselines.md, between its marks.

PyXAB's classes have the constants that they have by default. StroquOOL's is a budget of 1,000 evaluations, which is T
here. Their cells are ours, so nothing is drawn from a global random state.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PyXAB.algos.StroquOOL import StroquOOL
from PyXAB.algos.VHCT import VHCT

import pfpne
from pfpne.paper.exhibits.pages import update_block
from pfpne.simulation.noise import draw_rewards, noise_streams
from pfpne.simulation.record import gaps
from pfpne.simulation.simulate import partition_of

T, N_RUNS = 1_000, 10
OBJECTIVES = ("garland", "doublesine", "levy", "styblinski", "himmelblau", "ackley")
NOISES = (0.1, 0.7, "bernoulli")
PYXAB = {"PyXAB's VHCT": VHCT, "PyXAB's StroquOOL": StroquOOL}
EARLY = "`hct-noise`, early descent"
OURS = {
    "`hct`": ("hct", {}),
    "`hoo`": ("hoo", {}),
    "`blin`": ("blin", {}),
    "`hct-noise`": ("hct-noise", {}),
    EARLY: ("hct-noise", {"early_descent": True}),
    "`pf-pne+`": ("pf-pne+", {}),
}
REFERENCES = ("`hct-noise`", EARLY)  # whose regret the others' is divided by
STANDARD_ERRORS = 2  # by which a ratio must differ from 1 to be called lower or higher


def pyxab_regret(algorithm: Callable, problem, horizon: int) -> float:
    """Return R(T) of one of PyXAB's algorithms, on the cells and the noise that `simulate` has in the same run."""
    partition = partition_of(problem, "random", problem.seed, problem.run)
    search = algorithm(domain=problem.domain.tolist(), partition=pfpne.to_pyxab(partition))
    rng, values = noise_streams(problem, problem.seed, problem.run)[0], []
    for t in range(1, horizon + 1):
        value = problem.client_values(0, np.array([search.pull(t)]))
        search.receive_reward(t, float(draw_rewards(value, np.array([1]), problem.noise, rng)[0]))
        values.append(value[0])
    return float(gaps(problem.optimum[0], np.array(values)).sum())


def final_regrets(objective: str, noise, n_runs: int, horizon: int = T, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the regret (runs,) of each algorithm at the horizon."""
    regrets = {label: np.empty(n_runs) for label in (*PYXAB, *OURS)}
    for run in range(n_runs):
        problem = pfpne.make_problem(objective, n_clients=1, noise=noise, seed=seed, run=run)
        for label, algorithm in PYXAB.items():
            regrets[label][run] = pyxab_regret(algorithm, problem, horizon)
        for label, (name, settings) in OURS.items():
            regrets[label][run] = pfpne.simulate(name, problem, horizon, **settings).regret[0, -1]
    return regrets


def ratios(regrets: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the ratio (comparisons,) of mean regrets, from the regrets (comparisons, runs) of both."""
    return regrets.mean(axis=1) / reference.mean(axis=1)


def geometric_mean(regrets: np.ndarray, reference: np.ndarray) -> float:
    """Return the geometric mean of the ratios over comparisons."""
    return float(np.exp(np.log(ratios(regrets, reference)).mean()))


def standard_error(regrets: np.ndarray, reference: np.ndarray) -> float:
    """Return the standard error of the geometric mean's logarithm, by leaving out one run after another (jackknife)."""
    n_runs = regrets.shape[1]
    without_one = [
        np.log(geometric_mean(np.delete(regrets, run, axis=1), np.delete(reference, run, axis=1)))
        for run in range(n_runs)
    ]
    return float(np.sqrt((n_runs - 1) * np.var(without_one)))


def cell(regrets: np.ndarray, reference: np.ndarray) -> str:
    """Return the geometric mean of the ratios, and the share of comparisons in which the regret is lower."""
    if np.array_equal(regrets, reference):
        return "equal"
    n_lower = int((ratios(regrets, reference) < 1).sum())
    return f"{geometric_mean(regrets, reference):.2f} ({100 * n_lower / len(regrets):.0f} %)"


def noise_in_words(noise) -> str:
    return "Bernoulli" if noise == "bernoulli" else f"±{noise} (sigma {noise / 3**0.5:.2f})"


def table(regrets: dict[str, np.ndarray], noise_of: np.ndarray) -> list[str]:
    """Return the table's lines, from the regrets (comparisons, runs) and the noise (comparisons,) of each."""
    subsets = {"all": np.ones(len(noise_of), dtype=bool)}
    subsets |= {noise_in_words(noise): noise_of == str(noise) for noise in NOISES}
    heads = [f"over {reference}: {subset}" for reference in REFERENCES for subset in subsets]
    lines = ["| algorithm | " + " | ".join(heads) + " |", "|---" * (1 + len(heads)) + "|"]
    for label, regret in regrets.items():
        cells = [
            cell(regret[chosen], regrets[reference][chosen]) for reference in REFERENCES for chosen in subsets.values()
        ]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return lines


def what_was_run(n_runs: int) -> str:
    n_comparisons = len(NOISES) * len(OBJECTIVES)
    return (
        f"There are {n_comparisons} comparisons, of the objectives {', '.join(OBJECTIVES)} under each of three noises, "
        f"with {n_runs} runs of one client and T = {T:,}; a number is the geometric mean, over comparisons, of the "
        "mean R(T) over that of the algorithm in the head, and in brackets stands the share of comparisons in which "
        "it is lower."
    )


def verdict(regrets: np.ndarray, reference: np.ndarray) -> str:
    """Return whether the geometric mean is surely below 1, surely above, or neither."""
    log_ratio = np.log(geometric_mean(regrets, reference))
    if np.array_equal(regrets, reference):
        return "equal"
    if abs(log_ratio) <= STANDARD_ERRORS * standard_error(regrets, reference):
        return "not told apart"
    return "lower" if log_ratio < 0 else "higher"


def what_it_shows(regrets: dict[str, np.ndarray]) -> str:
    """Return a sentence on the verdicts over all comparisons, against each reference."""
    parts = []
    for reference in REFERENCES:
        labels_of: dict[str, list[str]] = {}
        for label in regrets.keys() - {reference}:
            labels_of.setdefault(verdict(regrets[label], regrets[reference]), []).append(label)
        verdicts = [
            f"{word} with {', '.join(sorted(labels_of[word], key=list(regrets).index))}"
            for word in ("lower", "equal", "not told apart", "higher")
            if word in labels_of
        ]
        parts.append(f"compared with {reference}, the regret is {'; '.join(verdicts)}")
    return (
        f"Over all comparisons, where a difference counts beyond {STANDARD_ERRORS} standard errors of the geometric "
        f"mean (jackknife over runs): {'. And '.join(parts)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=N_RUNS, help="of each comparison, at least 2")
    parser.add_argument("--page", type=Path, default=Path("docs/baselines.md"))
    arguments = parser.parse_args()
    noise_of = np.array([str(noise) for noise in NOISES for _ in OBJECTIVES])
    compared = [final_regrets(objective, noise, arguments.runs) for noise in NOISES for objective in OBJECTIVES]
    regrets = {label: np.array([each[label] for each in compared]) for label in compared[0]}
    made_by = "*Made by `python benchmarks/pyxab_rivals.py`; do not edit.*"
    lines = [f"{made_by} {what_was_run(arguments.runs)}", "", *table(regrets, noise_of), "", what_it_shows(regrets)]
    block = "\n".join(lines)
    print(block)
    update_block(arguments.page, "pyxab", f"{block}\n")


if __name__ == "__main__":
    main()
