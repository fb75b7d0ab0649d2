"""The named profiles, which set the scale of all runs, and the named readings of what the paper leaves open."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Profile:
    """One scale at which everything is run.

    Parameters
    ----------
    n_clients, horizon : int
        M, and T: evaluations per client.
    figure_runs, claim_runs : int
        Paired runs of a figure, and of a claim.
    noises : tuple
        The noises of the synthetic objectives; figures of one noise have the first.
    landmine_noise, shift : float
        As in `pfpne.make_problem`.
    cells : str
        As in `pfpne.simulate`.
    """

    n_clients: int
    horizon: int
    figure_runs: int
    claim_runs: int
    noises: tuple = ("bernoulli",)
    landmine_noise: float = 0.0
    shift: float = 0.1
    cells: str = "random"


PROFILES = {
    "smoke": Profile(n_clients=4, horizon=1_000, figure_runs=3, claim_runs=3),
    "paper": Profile(n_clients=20, horizon=100_000, figure_runs=10, claim_runs=30, noises=("bernoulli", 0.1, 2.0)),
}


@dataclass(frozen=True)
class ReadingPreset:
    """A reading's values for the choices that decide the paper's figures most: noise and T.

    Parameters
    ----------
    noises : tuple
        The noises of the synthetic objectives; figures of one noise have the first.
    landmine_noise : float
        The noise of landmine.
    horizon : int
        T in the paper profile; the smoke profile has its own.
    """

    noises: tuple
    landmine_noise: float
    horizon: int


# "printed": the simplest of the readings under which the most of the paper's statements hold: see notebook 11.
# "model": the paper's reward model, rewards in [0, 1], at the scale of the evidence; and the other noises beside it.
READING_PRESETS = {
    "printed": ReadingPreset(noises=(1.0,), landmine_noise=1.0, horizon=1_000_000),
    "model": ReadingPreset(noises=PROFILES["paper"].noises, landmine_noise=0.0, horizon=PROFILES["paper"].horizon),
}


def default_noise(profile: str, reading: str | None, objective: str | None) -> float | str:
    """Return the noise in the figures of an objective, under a reading or, without one, in a profile."""
    scale = READING_PRESETS[reading] if reading else PROFILES[profile]
    return scale.landmine_noise if objective == "landmine" else scale.noises[0]
