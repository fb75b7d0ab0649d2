"""Two smooth objectives in one dimension, scaled to [0, 1]: near their maxima they are parabolas, not cusps.

Both are well-known test functions of optimization, negated: Levy's has waves on a bowl; Styblinski's and Tang's has two
hills. They are not from the paper, whose objectives in one dimension are both rough.
"""

import numpy as np

LEVY_BOUND = 15.625  # the maximum of Levy's function on [-10, 10], at x = -10
LEVY_PEAKS = ((1.0,),), 1.0
STYBLINSKI_LOWEST, STYBLINSKI_HIGHEST = -39.16616570377142, 125.0  # on [-5, 5], the highest at x = 5
STYBLINSKI_PEAKS = ((-2.903534027771177,),), 1.0


def levy(x: np.ndarray) -> np.ndarray:
    """1 - (sin^2 (pi w) + (w - 1)^2 (1 + sin^2 (2 pi w))) / 15.625, w = 1 + (x - 1) / 4; 1 at x = 1."""
    w = 1 + (x[:, 0] - 1) / 4
    waves, faster = np.sin(np.pi * w), np.sin(2 * np.pi * w)
    return 1 - (waves * waves + (w - 1) * (w - 1) * (1 + faster * faster)) / LEVY_BOUND


def styblinski(x: np.ndarray) -> np.ndarray:
    """(125 - (x^4 - 16 x^2 + 5 x) / 2) / 164.166, in [0, 1] on [-5, 5]: 1 at -2.9035, and a second hill."""
    square = x[:, 0] * x[:, 0]
    value = (square * square - 16 * square + 5 * x[:, 0]) / 2
    return (STYBLINSKI_HIGHEST - value) / (STYBLINSKI_HIGHEST - STYBLINSKI_LOWEST)
