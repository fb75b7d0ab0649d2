"""What PF-PNE+ costs a client where rewards are rare, or where one of the clients is unlike the others.

    python benchmarks/unlike_clients.py [--runs 5] [--page docs/pf-pne-plus.md]

Writes the table of the page docs/pf-pne-plus.md, between its marks. "Alone" is hct-noise with early descent, in the
same runs. In each row the regret is that of the clients that could lose: the outlier's own, else that of all but the
liar or the loud one.
"""

import argparse
import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np

import pfpne
from pfpne.algorithms import Algorithm, get_algorithm
from pfpne.algorithms.pf_pne_plus import PFPNEPlus, PlusClient, PlusServer
from pfpne.algorithms.phases import make_phased
from pfpne.paper.exhibits.drawn import Transformed, simulate_with_streams
from pfpne.paper.exhibits.pages import update_block
from pfpne.simulation.noise import noise_streams

UNIT = [[0.0, 1.0]]
COMMON, OWN = (0.6, 0.17), (1.0, 0.85)  # height and place of the common cone, and of the outlier's; their slope is 2


def hill(x: np.ndarray) -> np.ndarray:
    """0 on three fifths of the domain."""
    return np.maximum(0, 1 - np.abs(x[:, 0] - 0.7) / 0.2)


def cones(x: np.ndarray, *tops: tuple[float, float]) -> np.ndarray:
    """The largest of cones of slope 2, and 0."""
    return np.max([np.zeros(len(x)), *(height - 2 * np.abs(x[:, 0] - at) for height, at in tops)], axis=0)


class LyingServer(PlusServer):
    """A server that client 0 tells `lie` instead of its mean of the node that is best for the others."""

    lie = 0.0

    def conclude(self, means, variances, binary):
        means = means.copy()
        means[0, np.argmax(means[1:].mean(axis=0))] = self.lie
        return super().conclude(means, variances, binary)


def with_liar(lie: float) -> Algorithm:
    """PF-PNE+ with a client 0 that lies."""
    server = type("LyingServer", (LyingServer,), {"lie": lie})
    make = functools.partial(make_phased, PFPNEPlus, server, client=PlusClient)
    return dataclasses.replace(get_algorithm("pf-pne+"), make_server_and_clients=make)


def rare(M: int, run: int):
    return pfpne.problem_from_functions([hill] * M, UNIT, "bernoulli", optimum=1.0, seed=5, run=run)


def outlier(M: int, run: int, sigma: float):
    functions = [functools.partial(lambda x, tops: cones(x, *tops), tops=tops) for tops in ((COMMON, OWN), (COMMON,))]
    optimum = np.array([OWN[0]] + [COMMON[0]] * (M - 1))
    noise = sigma * 3**0.5
    return pfpne.problem_from_functions(
        [functions[0], *[functions[1]] * (M - 1)], UNIT, noise, optimum=optimum, seed=5, run=run
    )


def alike(M: int, run: int, sigma: float):
    return pfpne.make_problem("garland", M, shift=0.0, noise=sigma * 3**0.5, seed=5, run=run, common_shift=0.1)


def regret(name: str | Algorithm, problem, T: int, loud: float = 1.0, **settings) -> np.ndarray:
    """R_m(T) of each client (M,). loud: how many times wider the noise of client 0 is."""
    streams = noise_streams(problem, problem.seed, problem.run)
    streams[0] = Transformed(streams[0], lambda u: 0.5 + loud * (u - 0.5)) if loud != 1 else streams[0]
    return simulate_with_streams(streams, name, problem, T, noise=problem.noise, **settings).regret[:, -1]


ALONE = {"name": "hct-noise", "early_descent": True}


def row(title: str, T: int, runs: int, make: Callable, who: slice, loud: float = 1.0, lies: tuple = ()) -> str:
    """A row of the table: means over the runs, and over the clients in question. lies: the worst of these is shown."""

    def mean(given: dict) -> float:
        return float(np.mean([regret(problem=make(run), T=T, loud=loud, **given)[who].mean() for run in range(runs)]))

    variants = [{"name": with_liar(lie)} for lie in lies] or [{"name": "pf-pne+"}]
    ours = max(mean(given) for given in variants)
    safe, with_gp = (max(mean({**given, name: True}) for given in variants) for name in ("safe", "gaussian_process"))
    alone, fed = mean(ALONE), mean({"name": "fed-pne"}) if not lies else None
    cells = [
        f"{ours:.0f}",
        f"{safe:.0f}",
        f"{with_gp:.0f}",
        f"{alone:.0f}",
        f"{fed:.0f}" if fed is not None else "-",
        f"{ours / alone:.2f}",
        f"{with_gp / alone:.2f}",
    ]
    return f"| {title} | {' | '.join(cells)} |"


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--page", type=Path, default=Path("docs/pf-pne-plus.md"))
    given = parser.parse_args()
    everyone, first, others = slice(None), slice(0, 1), slice(1, None)
    jobs = [
        *(
            (f"rare successes, M = {M}, T = {T:,}", T, given.runs, functools.partial(rare, M), everyone)
            for M, T in ((2, 10_000), (10, 50_000), (30, 10_000))
        ),
        *(
            (
                f"an honest outlier, M = {M}, sigma = {sigma:g}, T = 50,000",
                50_000,
                given.runs,
                functools.partial(outlier, M, sigma=sigma),
                first,
            )
            for M, sigma in ((20, 0.1), (3, 0.5), (5, 0.5), (20, 0.5))
        ),
        *(
            (
                f"a client that lies, M = {M}, T = 50,000",
                50_000,
                given.runs,
                functools.partial(alike, M, sigma=0.5 / 3**0.5),
                others,
                1.0,
                (0.0, -1.0, -100.0),
            )
            for M in (3, 5, 20)
        ),
        *(
            (
                f"a client with 50 times the noise, M = {M}, T = 50,000",
                50_000,
                given.runs,
                functools.partial(alike, M, sigma=0.02),
                others,
                50.0,
            )
            for M in (2, 10, 50)
        ),
    ]
    columns = "setting", "PF-PNE+", "safe", "GP", "alone", "Fed-PNE", "PF-PNE+ / alone", "GP / alone"
    head = f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|\n"
    table = head + "".join(f"{row(*job)}\n" for job in jobs)
    print(table)
    update_block(given.page, "unlike", table)


if __name__ == "__main__":
    main()
