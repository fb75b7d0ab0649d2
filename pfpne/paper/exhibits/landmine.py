"""Landmine's objectives as surfaces, one for each field, with what the clients chose of them."""

import math

import numpy as np
import pandas as pd

from pfpne.paper.run.parameters import Parameters
from pfpne.paper.run.results import Results
from pfpne.paper.show.export import Exhibit
from pfpne.paper.show.plot import figure_exhibit, new_figure, our_style
from pfpne.paper.show.style import LOOKS, PAGE


@our_style()
def draw(results: Results, p: Parameters) -> Exhibit:
    """Draw the AUC of each field in use against C and gamma, and the points that its clients would deploy at T.

    Parameters
    ----------
    results : Results
        The runs on landmine; the first run of the first algorithm is shown.
    p : Parameters
        The notebook's parameters.

    Returns
    -------
    Exhibit
        One panel per field, and as CSV one row per client: field, C, gamma, auc, and best_auc of the grid.
    """
    look, problem = LOOKS[p.algorithms[0]], results.experiment.problem(run=0)
    C, gamma = tuned = results.runs[p.algorithms[0], 0].best.T  # (2, M)
    reached = [problem.client_values(m, best[None])[0] for m, best in enumerate(tuned.T)]
    clients = {"client": np.arange(1, p.n_clients + 1), "field": problem.fields + 1, "C": C, "gamma": gamma}
    table = pd.DataFrame({**clients, "auc": reached, "best_auc": problem.optimum})
    by_field = table.groupby("field")
    columns = min(5, len(by_field))
    rows = -(-len(by_field) // columns)
    caption = (
        "AUC of the support vector machine of each landmine field against C and gamma, in the first run: M = "
        f"{p.n_clients} clients, T = {p.horizon:,} evaluations per client. A white star is the best point of the "
        f"grid. A mark is the point that {look.label} would deploy at T, one per client. A title has the AUC at the "
        "marks (their mean, if clients share a field), then the best AUC of the grid."
    )
    stem = f"landmine_surfaces{'_printed' * bool(p.mark(results.experiment))}"

    figure, axes = new_figure((PAGE, 0.45 + 1.35 * rows), rows, columns, sharex=True, sharey=True)
    auc = problem.values(problem.candidates)
    for ax in axes.flat[len(by_field) :]:
        ax.set_axis_off()
    pixels = {"cmap": "cividis", "origin": "lower", "aspect": "auto", "interpolation": "none"}  # stored as they are
    above = {"clip_on": False, "zorder": 3}
    star = {"markersize": 7, "color": "white", "markeredgecolor": "black", "markeredgewidth": 0.5, **above}
    disc = {"markersize": 4, "color": look.color, "markeredgecolor": "white", "markeredgewidth": 0.6, **above}
    for ax, (field, points) in zip(axes.flat, by_field, strict=False):
        surface = auc[points.index[0]]
        grid = surface.reshape(math.isqrt(len(surface)), -1).T  # rows are gamma
        image = ax.imshow(grid, extent=problem.domain.ravel(), vmin=auc.min(), vmax=auc.max(), **pixels)
        ax.plot(*problem.candidates[np.argmax(surface)], "*", **star)
        ax.plot(points["C"], points["gamma"], look.marker, **disc)
        ax.set_title(f"field {field}: {points['auc'].mean():.3f} of {points['best_auc'].iloc[0]:.3f}", fontsize=7.5)
    figure.colorbar(image, ax=axes, label="AUC on the test half", shrink=0.8, pad=0.01)
    figure.supxlabel("regularization $C$", fontsize=8.5)
    figure.supylabel(r"kernel parameter $\gamma$", fontsize=8.5)
    return figure_exhibit(figure, stem, caption, table)
