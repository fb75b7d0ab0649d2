"""What a run costs as M and T grow, every algorithm: slopes, one ratio, peak memory; a table and a picture of them.

    python benchmarks/bench_scale.py

Costs are seconds of a processor, each in a process of its own that has compiled and warmed up. Written into docs/:
scale.csv, scale.png, and the tables of cluster.md. About a quarter of an hour.
"""

import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

import pfpne
from pfpne.algorithms import NAMES
from pfpne.paper.looks import LOOKS, label
from pfpne.paper.tables import as_markdown, update

DOCS = Path(__file__).resolve().parent.parent / "docs"
PHASED = ("pf-pne", "fed-pne", "pe", "blin", "fed1-ucb")
HORIZONS = {20: (1_000, 10_000, 100_000)}  # of a series in T: {M: its T}
CLIENTS = {1_000: (100, 1_000, 10_000)}  # of a series in M: {T: its M}
NEURAL = {10: (1_000, 10_000, 100_000)}, {1_000: (5, 20, 80)}  # fn-ucb's, whose networks take a thousand times as long
RATIO_T, RATIO_M = 10_000, (100, 10_000)
LARGE = [(100_000, 1_000), (1, 10_000_000)]  # (M, T) of the largest runs


def one(name: str, M: int, T: int) -> dict:
    """The cost of one run, here and now: seconds of the processor, the median of three if they are short; and memory."""
    pfpne.simulate(name, pfpne.make_problem("garland", 2), min(T, 2_500))
    problem, taken = pfpne.make_problem("garland", M), []
    problem.optimum  # found once a problem, not once a run  # noqa: B018
    while len(taken) < 3 and sum(taken) < 20:
        start = time.process_time()
        pfpne.simulate(name, problem, T)
        taken.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1e9 if sys.platform == "darwin" else 1e6)  # bytes or kB
    return {"algorithm": name, "clients": M, "horizon": T, "seconds": sorted(taken)[len(taken) // 2], "peak_GB": peak}


def alone(name: str, M: int, T: int) -> dict:
    """The same in a process of its own."""
    command = [sys.executable, __file__, name, str(M), str(T)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(found.strip(), flush=True)
    return json.loads(found)


def series(name: str) -> list[tuple[int, int]]:
    """The (M, T) that an algorithm is measured at."""
    horizons, clients = NEURAL if name == "fn-ucb" else (HORIZONS, CLIENTS)
    points = [(M, T) for M, every in horizons.items() for T in every] + [(M, T) for T, every in clients.items() for M in every]
    points += LARGE if name in PHASED else LARGE[1:]
    return points + ([] if name == "fn-ucb" else [(M, RATIO_T) for M in RATIO_M])


def slope(costs: pd.DataFrame, of: str) -> float:
    """The exponent of `of` in the cost, between the two largest of its series."""
    (x0, y0), (x1, y1) = costs.sort_values(of)[[of, "seconds"]].to_numpy()[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def summary(costs: pd.DataFrame) -> pd.DataFrame:
    """A row an algorithm, in words."""
    rows = []
    for name, mine in costs.groupby("algorithm", sort=False):
        horizons, clients = NEURAL if name == "fn-ucb" else (HORIZONS, CLIENTS)
        (M, every_T), (T, every_M) = *horizons.items(), *clients.items()
        at = mine.drop_duplicates(["clients", "horizon"]).set_index(["clients", "horizon"])
        by_T = at.loc[[(M, t) for t in every_T]].reset_index()
        by_M = at.loc[[(m, T) for m in every_M]].reset_index()
        few, many = (at["seconds"].get((m, RATIO_T), math.nan) / m for m in RATIO_M)
        large = [at.loc[where] if where in at.index else None for where in LARGE]
        rows.append(
            {
                "Algorithm": label(name),
                "exponent of T": f"{slope(by_T, 'horizon'):.2f}",
                "exponent of M": f"{slope(by_M, 'clients'):.2f}",
                f"a client of {RATIO_M[1]:,} over one of {RATIO_M[0]}": "" if math.isnan(many) else f"{many / few:.2f}",
                **{
                    f"M = {m:,}, T = {t:,}": "" if row is None else f"{row['seconds']:.0f} s, {row['peak_GB']:.1f} GB"
                    for (m, t), row in zip(LARGE, large, strict=True)
                },
            }
        )
    return pd.DataFrame(rows)


def draw(costs: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    for ax, of, other in zip(figure.subplots(1, 2), ("horizon", "clients"), (HORIZONS, CLIENTS), strict=True):
        for name, mine in costs.groupby("algorithm", sort=False):
            (fixed, every), *_ = (NEURAL[of == "clients"] if name == "fn-ucb" else other).items()
            beside = "clients" if of == "horizon" else "horizon"
            line = mine[(mine[beside] == fixed) & mine[of].isin(every)].drop_duplicates(of).sort_values(of)
            look = LOOKS[name]
            ax.plot(line[of], line["seconds"], color=look.color, marker=look.marker, markersize=4, label=look.label)
        ax.set(xscale="log", yscale="log", xlabel={"horizon": "T", "clients": "M"}[of], ylabel="seconds a run")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right", fontsize=7)
    return figure


def main() -> None:
    costs = pd.DataFrame([alone(name, *point) for name in NAMES for point in series(name)])
    costs.to_csv(DOCS / "scale.csv", index=False, float_format="%.4g", lineterminator="\n")
    draw(costs).savefig(DOCS / "scale.png", dpi=150, metadata={"Software": None})
    table = as_markdown(summary(costs))
    print(table)
    update(DOCS / "cluster.md", "scale", f"*Made by `python benchmarks/bench_scale.py`; do not edit.*\n\n{table}")


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(one(sys.argv[1], *map(int, sys.argv[2:]))))
    else:
        main()
