"""PF-PNE+ with a Gaussian process in its second stage, on regimes drawn from the map of notebook 8.

    python benchmarks/gp_on_map.py [--regimes 200]

The regimes are drawn from all 2,109 by the seed DRAW. Only PF-PNE+ with `gaussian_process=True` is run, with the map's
seeds and its number of runs, so that it is paired with the algorithms that figures/regime_best.csv holds. Before, the
regimes that are quickly run are run again by PF-PNE+ as it is: if that table holds another regret, it is of other code,
and nothing is compared. Writes benchmarks/gp_on_map.csv, and the table of the page docs/pf-pne-plus.md.

Declared before any of these regimes was run with a Gaussian process: it should become a contender of the map if,
compared with PF-PNE+ as it is and in percentage points, it is within 10% of the best other algorithm at most 3 less
often, and above 1.3 times its regret at most 3 more often.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

from pfpne.paper.exhibits.guide import FAR_BEHIND, NEAR_BEST, ratio_to_others
from pfpne.paper.exhibits.pages import update_block
from pfpne.paper.exhibits.regimes import REGIME_COLUMNS, run_regimes
from pfpne.paper.run.folders import RESULTS_FOLDER
from pfpne.paper.run.parameters import Parameters, complete
from pfpne.paper.show.export import as_markdown
from pfpne.paper.show.style import title

DRAW = 4
QUICK = 20_000  # the M T up to which PF-PNE+ is run again, to see that the map's table is of this code
TABLE = Path(__file__).with_suffix(".csv")
MAP = Path(__file__).resolve().parents[1] / "figures" / "regime_best.csv"


def drawn_regimes(n: int) -> pd.DataFrame:
    """Return n rows of the map's table, drawn by the seed DRAW, in the map's order."""
    table = pd.read_csv(MAP)
    table["noise"] = [noise if noise == "bernoulli" else float(noise) for noise in table["noise"]]
    chosen = np.sort(np.random.default_rng(DRAW).choice(len(table), n, replace=False))
    return table.iloc[chosen].reset_index(drop=True)


def mean_regrets(regimes: pd.DataFrame, p: Parameters, **settings) -> np.ndarray:
    """Return PF-PNE+'s mean R(T)/M in each of the regimes, with these settings and the map's runs."""
    keys = [*regimes[REGIME_COLUMNS].itertuples(index=False, name=None)]
    rows = run_regimes(p, keys, {"pf-pne+": ("pf-pne+", settings)}, "regimes", RESULTS_FOLDER)
    return rows.groupby(REGIME_COLUMNS, sort=False)["regret"].mean().to_numpy()


def shares(name: str, rows: pd.DataFrame) -> dict:
    """Return how near both forms come to the best other algorithm in these regimes, in words: one row of the table."""
    plain, gp = rows["pf-pne+ / best other"], rows["gp / best other"]
    near, far = f"Within {NEAR_BEST - 1:.0%}", f"Above {FAR_BEHIND} times"
    return {
        "Regimes": f"{name} ({len(rows)})",
        near: f"{(plain <= NEAR_BEST).mean():.0%}",
        f"{near}, GP": f"{(gp <= NEAR_BEST).mean():.0%}",
        far: f"{(plain > FAR_BEHIND).mean():.0%}",
        f"{far}, GP": f"{(gp > FAR_BEHIND).mean():.0%}",
        "At worst": f"{plain.max():.1f}",
        "At worst, GP": f"{gp.max():.1f}",
        "Regret, GP / without": f"{np.exp(np.log(gp / plain).mean()):.2f}",
    }


def table_of(rows: pd.DataFrame) -> str:
    """Return the table of the page: all regimes, and those of each objective, T and M."""
    lines = [shares("all", rows)]
    lines += [shares(title(name), group) for name, group in rows.groupby("objective", sort=False)]
    lines += [shares(f"T = {T:,}", group) for T, group in rows.groupby("horizon")]
    lines += [shares(f"M = {M}", group) for M, group in rows.groupby("clients")]
    return as_markdown(pd.DataFrame(lines))


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--regimes", type=int, default=200)
    parser.add_argument("--page", type=Path, default=Path("docs/pf-pne-plus.md"))
    given = parser.parse_args()
    p = complete("8_regime_map", {"profile": "paper"})
    rows = drawn_regimes(given.regimes)
    quick = rows[rows["clients"] * rows["horizon"] <= QUICK]
    again = mean_regrets(quick, p)
    if not np.allclose(again, quick["pf-pne+"], rtol=1e-8):
        raise SystemExit(f"{TABLE.name}: PF-PNE+ has another regret now than on the map. Make the map again, first.")
    print(f"PF-PNE+ has the map's regret in all {len(quick)} regimes that were run again.")
    longest_first = rows.sort_values("clients", ascending=False, kind="stable").index
    rows.loc[longest_first, "gp"] = mean_regrets(rows.loc[longest_first], p, gaussian_process=True)
    rows["pf-pne+ / best other"] = ratio_to_others(rows)
    rows["gp / best other"] = rows["gp"] * rows["pf-pne+ / best other"] / rows["pf-pne+"]
    columns = [*REGIME_COLUMNS, "pf-pne+", "gp", "pf-pne+ / best other", "gp / best other"]
    rows[columns].to_csv(TABLE, index=False, float_format="%.10g", lineterminator="\n")
    words = table_of(rows)
    print(words)
    update_block(given.page, "gp-on-map", words)


if __name__ == "__main__":
    main()
