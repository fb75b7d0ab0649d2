"""Named selections of algorithms and of objectives: what the figures, the tables and the claims are about."""

PAPER_SYNTHETIC_OBJECTIVES = ("garland", "himmelblau", "rastrigin", "doublesine", "ackley")  # in the paper's order
MAIN_OBJECTIVES = ("garland", "himmelblau", "rastrigin", "landmine")  # the paper's main figure
APPENDIX_OBJECTIVES = ("doublesine", "ackley")  # the figure of its appendix
COMMUNICATION_OBJECTIVES = ("garland", "himmelblau", "rastrigin", "ackley")  # its figure of communication
ONE_PER_DIMENSION = ("garland", "himmelblau", "rastrigin")  # one objective of each dimension: 1, 2, 10
MAP_OBJECTIVES = (
    "garland",
    "doublesine",
    "levy",
    "styblinski",
    "himmelblau",
    "ackley",
    "landmine",
)  # the objectives of the regime map

PAPER_ALGORITHMS = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # the five that the paper compares
COMPARED_ALGORITHMS = (*PAPER_ALGORITHMS, "hct", "pe")  # the paper's five, then ours
SINGLE_CLIENT_ALGORITHMS = ("hoo", "blin")  # single-client searches of the paper's Table 1, which its figures leave out
# Under the reading "printed", the notebooks on regret run these. Their figures draw some of them, and their tables rank
# them all. The regime map ranks others: RANKED_ON_MAP in pfpne/paper/exhibits/regimes.py.
RANKED_IN_REGRET_TABLES = (*COMPARED_ALGORITHMS, *SINGLE_CLIENT_ALGORITHMS)
BEYOND_ALGORITHMS = (
    "pf-pne+",
    "hct-noise",
    "hct",
    "pe",
    "fed-pne",
    "pf-pne",
    "hoo",
    "blin",
)  # PF-PNE+, and the algorithms that it is compared with
SPECIFICATION_ALGORITHMS = (*PAPER_ALGORITHMS, "pe")  # the algorithms of the specification curve
MAP_ALGORITHMS = ("pf-pne", "pf-pne+", "fed-pne", "pe", "hct", "hct-noise")  # the algorithms of the regime map
EXPLAINED_ALGORITHMS = ("pf-pne", "fed-pne", "pe", "pf-pne+")  # in their runs causes.py counts its CAUSES by depth

PF_PNE_WITH_TRUE_DELTA = "pf-pne, own Delta"  # its CSV name; PF-PNE given the clients' true Delta
