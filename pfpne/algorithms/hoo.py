"""Truncated HOO, hierarchical optimistic optimization: each client alone.

Source: Bubeck, Munos, Stoltz and Szepesvari, "X-armed bandits", JMLR 2011, the truncated HOO, in the form of
PyXAB 0.3.0's class T_HOO.

| paper                 | here                      | meaning                                                          |
|-----------------------|---------------------------|------------------------------------------------------------------|
| T_{h,i}, mu-hat_{h,i} | count, total / count      | pulls of the node or below it, and the mean of their rewards     |
| U_{h,i}               | U                         | mu-hat_{h,i} + sqrt(2 ln n_0 / T_{h,i}) + nu_1 rho^h             |
| n_0, D_{n_0}          | horizon, truncation_depth | T, and the depth of the last nodes that are split                |

HOO runs on the tree of hct.py, which explains the other symbols, with these constants: the threshold is 0, so a
descent passes a node from its first pull on, and a reward counts along the whole path. As in PyXAB, leaves at depth
D_{n_0} are split too, so that HOO pulls one depth further, and ties between B-values go to the last child. ln n_0 is a
constant, so only the bounds on the path change in a step.
"""

from __future__ import annotations

import math

import numpy as np

from pfpne.algorithms.hct import HCTConstants, TreeSettings, epoch_of


def truncation_depth(T: int, settings: TreeSettings) -> int:
    """Return D_{n_0} = ceil((ln(n_0) / 2 - ln(1/nu_1)) / ln(1/rho)), with n_0 = T."""
    return int(np.ceil((np.log(T) / 2 - np.log(1 / settings.nu_1)) / np.log(1 / settings.rho)))


def hoo_constants(settings: TreeSettings, partition, T: int) -> HCTConstants:
    """Return the constants of HOO for steps 1..T, for the tree of hct.py."""
    depths, epochs = range(partition.max_depth + 1), epoch_of(T) + 1
    threshold = np.zeros((epochs, len(depths)))
    threshold[:, min(partition.max_depth, max(1, truncation_depth(T, settings) + 1)) :] = np.inf
    diameter = np.array([settings.nu_1 * settings.rho**h for h in depths])
    return HCTConstants(threshold, np.full(epochs, 2 * math.log(T)), diameter, partition.k, credit_path=True)
