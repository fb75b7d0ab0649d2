"""The looks and the names in figures and tables, as plain data: labels, colours, line styles, sizes.

An algorithm without a row of LOOKS is shown in grey under its own name, and an objective without a row of TITLES under
its own.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pfpne.algorithms import UNLIMITED_ALGORITHMS
from pfpne.paper.run.selections import PF_PNE_WITH_TRUE_DELTA
from pfpne.problems import OBJECTIVES


class Look(NamedTuple):
    """How one algorithm is shown.

    dashes: lengths drawn and left out, in line widths; empty for a solid line. marker: as matplotlib names it.
    """

    label: str
    color: str
    dashes: tuple[float, ...]
    marker: str

    @property
    def linestyle(self):
        return (0, self.dashes) if self.dashes else "-"


HCT_NOISE_EARLY = "hct-noise, early descent"  # PF-PNE+'s second stage alone, with its early descent

# One look for each algorithm, in every figure, and the order of legends. Hues of Okabe and Ito, completed from Tol's;
# line style and marker tell them apart in grey.
LOOKS = {
    "pf-pne": Look("PF-PNE", "#D55E00", (), "o"),
    PF_PNE_WITH_TRUE_DELTA: Look("PF-PNE, own Δ", "#F0986E", (2, 1.2), "p"),
    "pf-pne+": Look("PF-PNE+", "#882255", (), "*"),
    "fed-pne": Look("Fed-PNE", "#0072B2", (3.7, 1.6), "s"),
    "pe": Look("PE", "#009E73", (6.4, 1.6, 1, 1.6), "^"),
    "hct": Look("HCT", "#000000", (1, 1.65), "v"),
    "hct-noise": Look("HCT, noise measured", "#117733", (1, 1, 3, 1), "d"),
    HCT_NOISE_EARLY: Look("HCT, noise, early descent", "#44AA99", (5, 1, 1, 1), "H"),
    "hct-pyxab": Look("HCT (PyXAB)", "#7F7F7F", (4, 1, 1, 1), "D"),
    "fed1-ucb": Look("Fed1-UCB", "#E69F00", (6, 2), ">"),
    "fn-ucb": Look("FN-UCB", "#CC79A7", (3, 1, 1, 1, 1, 1), "<"),
    "hoo": Look("HOO", "#56B4E9", (1, 1), "P"),
    "blin": Look("BLiN", "#999933", (8, 2, 2, 2), "X"),
    "centralized": Look("Centralized", "#332288", (2, 1), "h"),
}
LOOKS |= {name: Look(name, "#666666", (1, 3), ".") for name in UNLIMITED_ALGORITHMS if name not in LOOKS}

IN_SENTENCES = {
    PF_PNE_WITH_TRUE_DELTA: "PF-PNE with the true Delta",
    "hct-noise": "HCT with measured noise",
    HCT_NOISE_EARLY: "HCT with measured noise and early descent",
}

TITLES = {
    "garland": "Garland (1-D)",
    "doublesine": "DoubleSine (1-D)",
    "himmelblau": "Himmelblau (2-D)",
    "ackley": "Ackley (2-D)",
    "rastrigin": "Rastrigin (10-D)",
    "landmine": "Landmine",
    "landmine-log": "Landmine, logarithmic axes",
}
TITLES |= {name: f"{name.capitalize()} ({row.d}-D)" for name, row in OBJECTIVES.items() if name not in TITLES}

# Lines and shades of the two kinds of cells; then lines of the cells that hold a near-optimal point, of what the paper
# assumes, and of the oracle.
CELL_LOOKS = {
    "random": {"label": "random cells", "color": "#009E73", "linestyle": "-"},
    "cyclic": {"label": "cyclic cells", "color": "#CC79A7", "linestyle": (0, (4, 1.2, 1, 1.2))},
}
CELL_SHADES = {"random": "0.0", "cyclic": "0.55"}
NEAR_OPTIMAL_LOOKS = {
    "near": {"label": "$f_m$", "color": "#D55E00", "linestyle": "-"},
    "near_f_bar": {"label": r"$\bar f$", "color": "#0072B2", "linestyle": (0, (3.7, 1.6))},
    "different": {"label": r"$f_m$, not $\bar f$", "color": "#000000", "linestyle": (0, (1, 1.2))},
}
ASSUMED_LOOK = {"color": "0.5", "linewidth": 0.8}
ORACLE_LOOK = {"label": "oracle", "color": "0.5", "linewidth": 1.6, "linestyle": (0, (1, 1))}

CLIENT_LINES = ("-", "--", ":")  # as many clients as the walkthrough draws
BLUE, GREY = "#004C7F", "0.35"
KEPT_BY_SERVER, KEPT_BY_CLIENT = "kept by the server", "kept by the client"
KEPT_BY_CLIENT_ONLY = "eliminated by the server, kept by the client"
ELIMINATED_BY_SERVER, ELIMINATED_BY_CLIENT = "eliminated by the server", "eliminated by the client"
ELIMINATED_BY_BOTH, CUT_BY_HORIZON = "eliminated by both", "cut by the horizon"
FATES = {  # the fates of a node: the colour says who kept it, the hatch who eliminated it
    KEPT_BY_SERVER: (BLUE, ""),
    KEPT_BY_CLIENT: ("#E69F00", ""),
    KEPT_BY_CLIENT_ONLY: ("#E69F00", "//////"),
    ELIMINATED_BY_SERVER: ("#F4F4F4", "//////"),
    ELIMINATED_BY_CLIENT: ("#F4F4F4", "\\\\\\\\\\\\"),
    ELIMINATED_BY_BOTH: ("#F4F4F4", "xxxxxx"),
    CUT_BY_HORIZON: ("white", ""),
}

COLUMN, PAGE = 3.4, 7.0  # inches: a column of a two-column page, and the page's full width
STYLE = {  # of matplotlib, whose defaults hold for the rest
    **{"font.family": "STIXGeneral", "mathtext.fontset": "stix", "font.size": 8},
    **dict.fromkeys(("axes.titlesize", "axes.labelsize"), 8.5),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize"), 7.5),
    **{"axes.linewidth": 0.6, "lines.linewidth": 1.1, "lines.markersize": 3.2},
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    **dict.fromkeys(("pdf.fonttype", "ps.fonttype"), 42),  # the second of a PDF too: else it holds some fonts twice
    **{"figure.constrained_layout.use": True, "savefig.dpi": 200},
}
DASH = "\N{EN DASH}"  # for an empty cell of a table


def label(algorithm: str) -> str:
    """The name of the algorithm in figures and tables."""
    return LOOKS[algorithm].label


def algorithm_in_words(algorithm: str) -> str:
    """The name of the algorithm within a sentence, where the comma of a label would mislead."""
    return IN_SENTENCES.get(algorithm, label(algorithm))


def title(objective: str) -> str:
    """The objective's name without its dimension."""
    return TITLES[objective].split(" ")[0]


def noise_in_words(noise: float | str) -> str:
    """The name of a noise, given as in an Experiment or as in the tables of claims ("bernoulli", "0.1", "landmine")."""
    words = {"bernoulli": "Bernoulli rewards", "landmine": "landmine, no noise"}
    if noise in words:
        return words[noise]
    return f"noise \N{PLUS-MINUS SIGN}{float(noise):g}" if float(noise) else "no noise"


def noise_in_name(noise: float | str) -> str:
    """The noise in the name of a file."""
    return noise if noise == "bernoulli" else f"noise{noise:g}"


def Delta_in_words(Delta: float | str) -> str:
    """A Delta given to PF-PNE, in words; "true" stands for the clients' own."""
    return "the clients' own" if Delta == "true" else f"{Delta:g}"


def rounded(x: float) -> str:
    """Two significant digits, written out."""
    return f"{float(f'{x:.2g}'):,g}"


def short_decimal(number: str) -> str:
    """A number without the 0 before its point, as narrow tiles show it."""
    return number[1:] if number.startswith("0.") else number


def noise_in_brief(noise: float | str) -> str:
    """A noise as narrow columns show it: B for Bernoulli rewards, .1 for uniform noise of half-width 0.1."""
    return "B" if noise == "bernoulli" else short_decimal(f"{noise:g}")


def in_few_digits(x: float) -> str:
    """A ratio in two or three characters: .07, .98, 1.0, 12."""
    return short_decimal(f"{x:.2f}" if x < 0.995 else f"{x:.1f}" if x < 9.95 else f"{x:.0f}")


def times_as_much(ratio: float) -> str:
    """A ratio as a sentence says it: "1.4 times as much", with a digit more where it is near 1."""
    return f"{f'{ratio:.2f}' if 0.9 < ratio < 1.1 else rounded(ratio)} times as much"


def listed(items: Iterable) -> str:
    """The items as a list in a sentence: "1, 2 and 3"."""
    *first, last = map(str, items)
    return f"{', '.join(first)} and {last}" if first else last
