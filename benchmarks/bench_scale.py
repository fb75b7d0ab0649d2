"""What a run costs as M and T grow, every algorithm: slopes, one ratio, peak memory; a table and a picture of them.

    python benchmarks/bench_scale.py

Costs are seconds of a processor, in a process that has compiled and warmed up. Written into docs/:
scale.csv, scale.png, and the tables of cluster.md. About twenty minutes.
"""

import json
import math
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import joblib
import matplotlib
import pandas as pd
from matplotlib.figure import Figure

import pfpne
from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.exhibits.pages import update_block
from pfpne.paper.show.export import as_markdown
from pfpne.paper.show.style import LOOKS, PAGE, STYLE, label

DOCS = Path(__file__).resolve().parent.parent / "docs"
PHASED = ("pf-pne", "fed-pne", "pe", "pf-pne+", "blin", "fed1-ucb")
HORIZONS = {20: (1_000, 10_000, 100_000, 1_000_000)}  # of a series in T: {M: its T}
CLIENTS = {10_000: (100, 1_000, 10_000)}  # of a series in M: {T: its M}
# fn-ucb's, whose networks take a thousand times as long
NEURAL = {10: (1_000, 10_000, 100_000, 1_000_000)}, {1_000: (5, 20, 80)}
LARGE = [(100_000, 1_000), (1, 10_000_000)]  # (M, T) of the largest runs
SLOPE, CLIENT, GB = 1.05, 1.2, 4.0  # what an exponent, the ratio of two clients and a peak of memory are to stay within


def one(name: str, M: int, T: int) -> dict:
    """The cost of a run, here and now: seconds of the processor, the median of three, of more if they are short, of
    one or two if they are long; and the peak of this process's memory so far."""
    pfpne.simulate(name, pfpne.make_problem("garland", 2), min(T, 2_500))
    problem, taken = pfpne.make_problem("garland", M), []
    problem.optimum  # found once a problem, not once a run  # noqa: B018
    while sum(taken) < (70 if len(taken) < 3 else 1):
        start = time.process_time()
        pfpne.simulate(name, problem, T)
        taken.append(time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    return {"algorithm": name, "clients": M, "horizon": T, "seconds": sorted(taken)[len(taken) // 2], "peak_GB": peak}


def alone(name: str, points: list[tuple[int, int]]) -> list[dict]:
    """The cost at each (M, T), one after another, in a process of their own."""
    command = [sys.executable, __file__, name, json.dumps(points)]
    found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    print(found.strip(), flush=True)
    return [json.loads(line) for line in found.splitlines()]


def axes(name: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The (M, T) of an algorithm's series in T, and of that in M."""
    by_T, by_M = NEURAL if name == "fn-ucb" else (HORIZONS, CLIENTS)
    return [(M, T) for M, every in by_T.items() for T in every], [(M, T) for T, every in by_M.items() for M in every]


def processes(name: str) -> list[list[tuple[int, int]]]:
    """The (M, T) that an algorithm is measured at, by process: the largest have theirs, for their memory."""
    return [sum(axes(name), []), *([point] for point in (LARGE if name in PHASED else LARGE[1:]))]


def slope(costs: pd.DataFrame, of: str) -> float:
    """The exponent of `of` in the cost, between the two largest of its series."""
    (x0, y0), (x1, y1) = costs.reset_index()[[of, "seconds"]].to_numpy()[-2:]
    return math.log(y1 / y0) / math.log(x1 / x0)


def summary(costs: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """One row per algorithm, in words; and what is over SLOPE, CLIENT or GB."""
    rows, over = [], []
    for name, mine in costs.groupby("algorithm", sort=False):
        at = mine.set_index(["clients", "horizon"])
        in_T, in_M = (at.loc[points] for points in axes(name))
        of_one = (in_M["seconds"] / in_M.index.get_level_values("clients")).to_numpy()
        found = {
            "exponent of T": (slope(in_T, "horizon"), SLOPE),
            "exponent of M": (slope(in_M, "clients"), SLOPE),
            "cost per client, largest M over smallest": (of_one[-1] / of_one[0], CLIENT),
        }
        row = {"Algorithm": label(name)} | {what: f"{value:.2f}" for what, (value, _) in found.items()}
        found["the peak of memory in GB"] = (mine["peak_GB"].max(), GB)
        over += [f"{label(name)}, {what} ({value:.3f})" for what, (value, bar) in found.items() if value > bar]
        for M, T in LARGE:
            seconds, peak = at.loc[(M, T), ["seconds", "peak_GB"]] if (M, T) in at.index else ("", "")
            row[f"M = {M:,}, T = {T:,}"] = f"{seconds:.1f} s, {peak:.1f} GB" if seconds else ""
        rows.append(row)
    return pd.DataFrame(rows), over


def draw(costs: pd.DataFrame) -> Figure:
    figure = Figure(figsize=(PAGE, 3.2))
    for i, (ax, of) in enumerate(zip(figure.subplots(1, 2), ("horizon", "clients"), strict=True)):
        for name, mine in costs.groupby("algorithm", sort=False):
            line = mine.set_index(["clients", "horizon"]).loc[axes(name)[i]].reset_index()
            look = LOOKS[name]
            style = {"linestyle": look.linestyle, "color": look.color, "marker": look.marker}
            ax.plot(line[of], line["seconds"], **style, label=look.label)
        ax.set(xscale="log", yscale="log", xlabel={"horizon": "T", "clients": "M"}[of], ylabel="seconds per run")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside right")
    return figure


def publish(costs: pd.DataFrame) -> None:
    costs.to_csv(DOCS / "scale.csv", index=False, float_format="%.4g", lineterminator="\n")
    with matplotlib.rc_context(STYLE):
        draw(costs).savefig(DOCS / "scale.png", metadata={"Software": None})
    made = "*Made by `python benchmarks/bench_scale.py`; do not edit.*"
    busy = (
        f"The times are seconds on one of {joblib.cpu_count()} processors. The machine's load was"
        f" {os.getloadavg()[2]:.0f} at the end."
    )
    table, over = summary(costs)
    bars = (
        f"We want exponents of at most {SLOPE}, a ratio of the costs per client of at most {CLIENT}, and memory under "
        f"{GB:g} GB. These are above: {'; '.join(over) or 'none'}."
    )
    text = f"{made} {busy}\n\n{as_markdown(table)}\n{bars}\n"
    print(text)
    picture = "![Seconds per run against T and M](scale.png)\n\n"
    update_block(DOCS / "cluster.md", "scale", picture + text)


if __name__ == "__main__":
    if sys.argv[1:]:
        for point in json.loads(sys.argv[2]):
            print(json.dumps(one(sys.argv[1], *point)))
    else:
        publish(
            pd.DataFrame(
                [cost for name in UNLIMITED_ALGORITHMS for points in processes(name) for cost in alone(name, points)]
            )
        )
