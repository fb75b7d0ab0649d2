"""Named groups of algorithms and of objectives: what the figures, the tables and the claims are about."""

SYNTHETIC_NAMES = ("garland", "himmelblau", "rastrigin", "doublesine", "ackley")  # in the paper's order
MAIN = ("garland", "himmelblau", "rastrigin", "landmine")  # the paper's main figure
APPENDIX = ("doublesine", "ackley")  # the figure of its appendix
COMMUNICATION = ("garland", "himmelblau", "rastrigin", "ackley")  # its figure of communication
DIMENSIONS = ("garland", "himmelblau", "rastrigin")  # one objective of each dimension: 1, 2, 10
MAP = ("garland", "doublesine", "himmelblau", "ackley", "landmine")  # the objectives of the regime map

PAPER = ("pf-pne", "hct-pyxab", "fed1-ucb", "fn-ucb", "fed-pne")  # the five that the paper compares
COMPARED = (*PAPER, "hct", "pe")  # the paper's five, then ours
ALONE = ("hoo", "blin")  # single-client searches of the paper's Table 1, which its figures leave out
RANKED = (*COMPARED, *ALONE)
BEYOND = ("pf-pne+", "hct-noise", "hct", "pe", "fed-pne", "pf-pne")  # ours, and what it is compared with
SPECIFICATION = (*PAPER, "pe")  # the algorithms of the specification curve
MAPPED = ("pf-pne", "pf-pne+", "fed-pne", "pe", "hct", "hct-noise")  # the algorithms of the regime map
PHASE_BY_PHASE = ("pf-pne", "pf-pne+", "fed-pne", "pe")  # the algorithms that are watched depth by depth

OWN_DELTA = "pf-pne, own Delta"  # PF-PNE given the clients' own Delta, shown beside PF-PNE with the paper's
