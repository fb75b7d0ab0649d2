"""How figures and tables look and what they call things, as plain data: labels, colours, line styles, sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Look:
    """dashes: lengths drawn and left out, in line widths; none for a solid line. marker: as matplotlib names it."""

    label: str
    color: str
    dashes: tuple[float, ...]
    marker: str


# One look an algorithm, in every figure, and the order of legends. Hues of Okabe and Ito, completed from Tol's;
# line style and marker tell them apart in grey.
LOOKS = {
    "pf-pne": Look("PF-PNE", "#D55E00", (), "o"),
    "pf-pne+": Look("PF-PNE+", "#882255", (), "*"),
    "fed-pne": Look("Fed-PNE", "#0072B2", (3.7, 1.6), "s"),
    "pe": Look("PE", "#009E73", (6.4, 1.6, 1, 1.6), "^"),
    "hct": Look("HCT", "#000000", (1, 1.65), "v"),
    "hct-pyxab": Look("HCT (PyXAB)", "#7F7F7F", (4, 1, 1, 1), "D"),
    "fed1-ucb": Look("Fed1-UCB", "#E69F00", (6, 2), ">"),
    "fn-ucb": Look("FN-UCB", "#CC79A7", (3, 1, 1, 1, 1, 1), "<"),
    "hoo": Look("HOO", "#56B4E9", (1, 1), "P"),
    "blin": Look("BLiN", "#999933", (8, 2, 2, 2), "X"),
    "centralized": Look("Centralized", "#332288", (2, 1), "h"),
}

TITLES = {
    "garland": "Garland (1-D)",
    "doublesine": "DoubleSine (1-D)",
    "himmelblau": "Himmelblau (2-D)",
    "ackley": "Ackley (2-D)",
    "rastrigin": "Rastrigin (10-D)",
    "landmine": "Landmine",
}

COLUMN = 3.4  # inches: a column of a two-column page
PAGE = 7.0  # inches: its full width
STYLE = {  # of matplotlib, whose defaults hold for the rest
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.2,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,  # of a PDF too: else it holds some fonts twice
    "savefig.dpi": 200,
}


DASH = "\N{EN DASH}"  # where a table has nothing to say


def label(algorithm: str) -> str:
    return LOOKS[algorithm].label


def title(objective: str) -> str:
    """The objective's name without its dimension."""
    return TITLES[objective].split(" ")[0]


def noise_in_words(noise: float | str) -> str:
    if noise == "bernoulli":
        return "Bernoulli rewards"
    return f"noise \N{PLUS-MINUS SIGN}{noise:g}" if noise else "no noise"


def noise_in_name(noise: float | str) -> str:
    return noise if noise == "bernoulli" else f"noise{noise:g}"
