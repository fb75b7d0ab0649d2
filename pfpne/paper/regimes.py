"""When federation pays: who has the smallest regret over a grid of regimes, and PF-PNE's regret against its Delta."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from pfpne.paper.evidence import sketch
from pfpne.paper.experiment import Experiment
from pfpne.paper.parameters import Parameters, progress

COMMON = 0.1  # the shift that the clients of a run share, so that runs of alike clients differ


@dataclass(frozen=True)
class Grid:
    """The regimes of the map: every combination of these, but for the largest clients x horizon: `most` of the noises.

    landmine, which has no shift, is in it once.
    """

    objectives: tuple[str, ...]
    noises: tuple
    shifts: tuple[float, ...]
    clients: tuple[int, ...]
    horizons: tuple[int, ...]
    most: tuple

    def regimes(self) -> list[tuple]:
        """(objective, noise, shift, M, T) of each, those that share a problem in a row."""
        every = itertools.product(self.objectives, self.noises, self.shifts, self.clients, self.horizons)
        largest = (self.clients[-1], self.horizons[-1])
        return [
            (objective, noise, shift, M, T)
            for objective, noise, shift, M, T in every
            if (objective != "landmine" or shift == self.shifts[0]) and ((M, T) != largest or noise in self.most)
        ]


GRIDS = {
    "smoke": Grid(("garland", "landmine"), ("bernoulli", 0.1), (0.0, 0.1), (4,), (1_000,), ("bernoulli", 0.1)),
    "paper": Grid(
        ("garland", "doublesine", "himmelblau", "ackley", "landmine"),
        (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, "bernoulli"),
        (0.0, 0.01, 0.02, 0.05, 0.1, 0.2),
        (5, 20, 100),
        (1_000, 10_000, 100_000),
        (0.1, 1.0, "bernoulli"),
    ),
}
OWN = "pf-pne, own Delta"
PLAYERS = {  # what is compared on the map: the algorithm, its settings
    "pf-pne": ("pf-pne", {}),
    OWN: ("pf-pne", {"Delta": "true"}),
    **{name: (name, {}) for name in ("pf-pne+", "fed-pne", "pe", "hct", "hct-noise")},
}
REGIME = ["objective", "noise", "shift", "clients", "horizon"]
DELTAS = (0.0, *(2.0**-h for h in range(12, -1, -1)))  # H_0 is infinite, 12, 11, ..., 0; others give no other run


def _play(p: Parameters, regimes: list[tuple], players: dict, what: str) -> pd.DataFrame:
    """A row a run of each player, (algorithm, settings), in each regime: REGIME, player, run, regret R(T)/M, Delta."""
    places = {"n_runs": p.n_runs, "seed": p.seed, "cells": p.cells, "common": COMMON}

    def experiments(objective, noise, shift, M, T) -> list[Experiment]:
        scale = {"noise": noise, "shift": shift, "n_clients": M, "horizon": T, **places}
        return [Experiment(objective, (name,), settings=settings, **scale) for name, settings in players.values()]

    groups = [[*of] for _, of in itertools.groupby(regimes, key=lambda regime: regime[:4])]  # each shares its problem
    found = sketch([sum((experiments(*of) for of in group), []) for group in groups], p.n_jobs, progress(what))
    places = [dict(zip(REGIME, regime, strict=True)) for group in groups for regime in group]
    tables = zip(itertools.product(places, players), sum(found, []), strict=True)
    parts = [table[["run", "regret", "Delta"]].assign(**place, player=name) for (place, name), table in tables]
    return pd.concat(parts, ignore_index=True)


def measure(p: Parameters, grid: Grid) -> pd.DataFrame:
    """A row a regime, REGIME and for each of PLAYERS its mean R(T)/M; Delta, the clients' own; every run is simulated."""
    rows = _play(p, grid.regimes(), PLAYERS, "regimes")
    means = rows.pivot_table("regret", REGIME, "player", sort=False)[[*PLAYERS]]
    own = rows[rows["player"] == OWN].groupby(REGIME, sort=False)["Delta"].mean()
    return means.assign(Delta=own).reset_index()


def break_even(p: Parameters, grid: Grid) -> pd.DataFrame:
    """A row a Delta that PF-PNE may be given, with each objective, shift and M of the grid, at the notebook's noise, T.

    REGIME; given, one of DELTAS; ratio, of the mean R(T)/M to PE's; fed, Fed-PNE's; Delta, the clients' own.
    """
    players = {Delta: ("pf-pne", {"Delta": Delta}) for Delta in DELTAS}
    players |= {name: (name, {}) for name in ("pe", "fed-pne")} | {OWN: ("pf-pne", {"Delta": "true"})}
    one = replace(grid, noises=(p.noise,), horizons=(p.horizon,), most=(p.noise,))
    rows = _play(p, one.regimes(), players, "break-even")
    means = rows.pivot_table("regret", REGIME, "player", sort=False)
    own = rows[rows["player"] == OWN].groupby(REGIME, sort=False)["Delta"].mean()
    table = means[[*DELTAS]].div(means["pe"], axis=0).rename_axis(columns="given").stack().rename("ratio").reset_index()
    more = pd.DataFrame({"fed": means["fed-pne"] / means["pe"], "Delta": own}).reset_index()
    return table.merge(more, on=REGIME)
