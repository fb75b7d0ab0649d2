"""What the regime map costs on many workers: its jobs, by the seconds that its own runs took, laid out on them.

    python benchmarks/bench_cluster.py

A job is all runs of one objective, noise, shift and M. The map has to be there: `make map` keeps the seconds of each
run (what is missing is run now). Written into docs/cluster.md.
"""

import heapq
import itertools
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from pfpne.paper.claims import evidence
from pfpne.paper.exhibits import regimes
from pfpne.paper.exhibits.pages import update_block
from pfpne.paper.run.experiment import Experiment
from pfpne.paper.run.parameters import complete
from pfpne.paper.run.workers import run_unordered
from pfpne.paper.show.export import as_markdown

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cluster.md"
WORKERS = (2, 16, 64, 256, 1_000)
START = (
    "from pfpne.paper.claims import evidence; from pfpne.paper.exhibits import regimes; "
    "from pfpne.paper.run.parameters import complete"
)
EMPTY = 1_000  # jobs


def jobs(p) -> list[list[tuple]]:
    """The regimes of each job of the map, in order."""
    return [
        [*of] for _, of in itertools.groupby(regimes.Grid.from_parameters(p).regimes(), key=lambda regime: regime[:4])
    ]


def experiments(p, job: list[tuple]) -> list[Experiment]:
    places = {"n_runs": p.n_runs, "seed": p.seed, "cells": p.cells, "common_shift": regimes.COMMON_SHIFT}
    return [
        Experiment(
            objective, algorithms=(name,), settings=settings, noise=noise, shift=shift, n_clients=M, horizon=T, **places
        )
        for objective, noise, shift, M, T in job
        for name, settings in regimes.MAP_CONTENDERS.values()
    ]


def makespan(costs: list[float], workers: int) -> float:
    """When the last job ends, if each goes to the first worker that is free, in order."""
    free = [0.0] * workers
    for cost in costs:
        heapq.heappush(free, heapq.heappop(free) + cost)
    return max(free)


def main() -> None:
    p = complete("8_regime_map", {"profile": "paper"})
    every = jobs(p)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", START], check=True)
    started = time.perf_counter() - start
    start = time.perf_counter()
    assert len([*run_unordered(divmod, [(7, 2)] * EMPTY, n_jobs=2)]) == EMPTY
    handed = (time.perf_counter() - start) / EMPTY
    found = evidence.summarize_many([experiments(p, job) for job in every])
    costs = [sum(table["seconds"].sum() for table in job) for job in found]
    rows = [(f"{n:,}", f"{(started + makespan(costs, n)) / 60:.1f}", f"{sum(costs) / n / 60:.1f}") for n in WORKERS]
    table = as_markdown(pd.DataFrame(rows, columns=["Workers", "minutes", "minutes, if all were busy to the end"]))
    text = (
        f"The map of the `paper` profile has {len(every):,} jobs, {sum(map(len, every)):,} regimes and "
        f"{sum(map(len, every)) * p.n_runs * len(regimes.MAP_CONTENDERS):,} runs. They took {sum(costs) / 3600:.1f} "
        f"hours of simulation by the clock, and the longest job {max(costs):.0f} s. A worker starts in "
        f"{started:.1f} s, as compiled code is kept. Handing it a job and taking the answer costs "
        f"{1e3 * handed:.1f} ms.\n\n{table}\n"
        f"More workers than the {len(every):,} jobs gain nothing, and the map is never done before its longest job.\n"
    )
    print(text)
    update_block(PAGE, "cost", f"*Made by `python benchmarks/bench_cluster.py`; do not edit.*\n\n{text}")


if __name__ == "__main__":
    main()
