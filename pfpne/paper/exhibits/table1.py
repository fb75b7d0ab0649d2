"""The paper's Table 1 with measured values beside the stated ones, and the figure of the exponents of T."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn as sns

from pfpne.algorithms import UNLIMITED_ALGORITHMS, get_algorithm
from pfpne.paper.claims import stats
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES, Study
from pfpne.paper.claims.outcomes import MAX_LAST_PHASE_SHARE, long_last_phase_reason
from pfpne.paper.run.results import run_experiment
from pfpne.paper.run.selections import ONE_PER_DIMENSION
from pfpne.paper.show.export import Exhibit, as_latex, in_latex, table_exhibit
from pfpne.paper.show.plot import figure_exhibit, in_order, in_thousands, legend, line_looks, new_figure, our_style
from pfpne.paper.show.style import DASH, LOOKS, PAGE, TITLES, algorithm_in_words, label, listed, noise_in_words, title
from pfpne.rng import stream


class Stated(NamedTuple):
    """A row of the paper's Table 1: average regret and communication rounds, in LaTeX, and whether personalized."""

    stated_regret: str = ""
    stated_rounds: str = ""
    personalized: str = ""


_ALONE = r"\widetilde{\mathcal{O}}(T^{(d+1)/(d+2)})"
_TOGETHER = r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)})"
_BOTH = r"\widetilde{\mathcal{O}}(M^{-1/(d+2)} T^{(d+1)/(d+2)} + T^{(d_{\mathrm{new}}+1)/(d_{\mathrm{new}}+2)})"
_PHASES = r"\widetilde{\mathcal{O}}(M \log T)"
STATED = {
    "hoo": Stated(_ALONE, "N.A.", "yes"),
    "blin": Stated(_ALONE, "N.A.", "yes"),
    "centralized": Stated(_TOGETHER, r"\mathcal{O}(MT)", "no"),
    "fed-pne": Stated(_TOGETHER, _PHASES, "no"),
    "pf-pne": Stated(_BOTH, _PHASES, "yes"),
}

PLOTTED = ("pf-pne", "fed-pne", "pe", "hct", "hoo")  # drawn in the figure of exponents; its CSV has all algorithms
NO_FIT = "\N{DAGGER}"

# FN-UCB ignores the horizon, so that its regret at a shorter one is read off the curves of the longest: running it
# again would take longer than everything else. A curve has 500 points, and between two of them the regret is
# interpolated. So the faster algorithms that ignore the horizon, too, are run again, which is exact.
INTERPOLATED = ("fn-ucb",)


def measure(study: Study) -> pd.DataFrame:
    """Measure Table 1: one row per algorithm (the paper's, then ours) and objective, one objective of each dimension.

    Over n runs, under the profile's first noise. The columns:

    - algorithm, stated_regret, stated_rounds, personalized ("" for ours); objective, noise, n;
    - local, global: mean R(T)/M and global regret, with their standard deviations *_sd;
    - M_slope, M_low, M_high: the exponent of M in R(T)/M with identical clients, and its 95 % bootstrap interval, for
      the paper's algorithms that communicate; undecidable_reason: the reason why the exponent says little, or "";
    - rounds and numbers of communication; rounds_per_doubling of T. nan where nothing was measured.
    """
    names = dict.fromkeys([*STATED, *UNLIMITED_ALGORITHMS])
    return pd.DataFrame([_row(study, name, objective) for name in names for objective in ONE_PER_DIMENSION])


def _row(study: Study, name: str, objective: str) -> dict:
    measured = _at_horizons(study, objective, name)
    row = {"algorithm": name, **STATED.get(name, Stated())._asdict()}
    row |= {"objective": objective, "noise": study.claim_conditions[0].noise, "n": study.figure_runs}
    for kind in ("local", "global"):
        at_T = measured[kind][:, -1]
        row |= {kind: at_T.mean(), f"{kind}_sd": at_T.std(ddof=1) if len(at_T) > 1 else np.nan}
    rounds, together = measured["rounds"], name in STATED and get_algorithm(name).up_kinds
    slopes, undecidable_reason = _slopes_of_M(study, objective, name) if together else (np.array([np.nan]), "")
    low, high = stats.mean_interval(slopes, stream(study.seed, "table 1", name, objective))
    row |= {"M_slope": slopes.mean(), "M_low": low, "M_high": high, "undecidable_reason": undecidable_reason}
    row |= {"rounds": rounds[:, -1].mean(), "numbers": measured["numbers"][:, -1].mean()}
    talks = rounds[:, -1].min() > 0 and rounds.shape[1] > 1
    return row | {"rounds_per_doubling": (rounds[:, -1] - rounds[:, -2]).mean() if talks else np.nan}


def _slopes_of_M(study: Study, objective: str, name: str) -> tuple[np.ndarray, str]:
    """Exponents (n,) of M in R(T)/M with identical clients, and the reason, if any, why they say little."""
    noise, n = study.claim_conditions[0].noise, study.figure_runs
    clients = study.client_counts[:-1]  # the last takes as long as the others together
    rows = [study.summaries(objective, name, noise, n, n_clients=M, **IDENTICAL_CLIENT_CHANGES) for M in clients]
    return stats.growth_exponents(
        clients, np.stack([table["regret"] for table in rows], axis=1)
    ), long_last_phase_reason(rows[-1]["last_phase_share"])


def exponents(study: Study) -> pd.DataFrame:
    """Measure local exponents: log2 of R(T)/M at T over R(T)/M at T/2, at all of the study's horizons but the first.

    Parameters
    ----------
    study : Study
        The scale of the runs.

    Returns
    -------
    pandas.DataFrame
        One row per algorithm, objective and T: n, exponent (mean over n runs), low, high (its 95 % bootstrap interval).
    """
    rows = []
    for name in dict.fromkeys([*STATED, *UNLIMITED_ALGORITHMS]):
        for objective in ONE_PER_DIMENSION:
            regret = _at_horizons(study, objective, name)["local"]
            rng = stream(study.seed, "exponents", name, objective)
            for T, before, after in zip(study.horizons[1:], regret.T, regret.T[1:], strict=False):
                exponent = np.log2(after / before) if before.all() else np.full(len(before), np.nan)
                rows.append((name, objective, T, len(exponent), exponent.mean(), *stats.mean_interval(exponent, rng)))
    return pd.DataFrame(rows, columns=["algorithm", "objective", "T", "n", "exponent", "low", "high"])


def _at_horizons(study: Study, objective: str, name: str) -> dict[str, np.ndarray]:
    """Local and global regret, rounds and numbers, (n, k), at each of the study's k horizons."""
    if name in INTERPOLATED:
        return _interpolate(study, objective, name)
    noise, n = study.claim_conditions[0].noise, study.figure_runs
    tables = [study.summaries(objective, name, noise, n, horizon=T, global_regret=True) for T in study.horizons]
    columns = {"local": "regret", "global": "global_regret", "rounds": "n_rounds", "numbers": "numbers"}
    return {kind: np.stack([table[column] for table in tables], axis=1) for kind, column in columns.items()}


def _interpolate(study: Study, objective: str, name: str) -> dict[str, np.ndarray]:
    """Local and global regret, rounds and numbers at each horizon, read off the curves of the runs to the longest."""
    noise, n, T = study.claim_conditions[0].noise, study.figure_runs, np.array(study.horizons)
    experiment = study.experiment(objective, name, noise, n, global_regret=True)
    rows = []
    for run in run_experiment(experiment, n_jobs=study.n_jobs, folder=study.folder).runs.values():
        so_far = run.communication["t"].to_numpy() <= T[:, None]
        numbers = (run.communication["numbers up"] + run.communication["numbers down"]).to_numpy()
        regret, global_regret = (np.interp(T, run.t, curves.mean(axis=0)) for curves in (run.regret, run.global_regret))
        rows.append(
            {"local": regret, "global": global_regret, "rounds": so_far.sum(axis=1), "numbers": so_far @ numbers}
        )
    return {kind: np.stack([row[kind] for row in rows]) for kind in rows[0]}


def table_caption(study: Study) -> str:
    """The caption of Table 1, which explains its columns."""
    return (
        "The paper's Table 1, and what we measure. The paper states the average regret, the communication rounds, "
        "and whether the local objectives are optimized, for one near-optimality dimension d of all objectives. A "
        "dash marks algorithms that are not in its table. An asterisk marks comparisons that it calls not completely "
        "fair, because the server sees everything or the global objective is optimized. The other columns are "
        f"measured with {noise_in_words(study.claim_conditions[0].noise)}, random cells, M = {study.n_clients} clients"
        f" and T = {study.horizon:,}. R(T)/M, local and global, is a mean (standard deviation) over n ="
        f" {study.figure_runs} runs. The exponent of M in R(T)/M is over M ="
        f" {', '.join(map(str, study.client_counts[:-1]))} identical"
        " clients. It is fitted to each run, and its mean has a bootstrap 95 % interval. "
        f"{NO_FIT} marks a fit for which more than {MAX_LAST_PHASE_SHARE:.0%} of T is one unfinished phase at the "
        "largest M; the claims call it not decidable. Rounds are exchanges between the server and all clients; "
        "the paper counts each M times. Their columns have those until T, and those that the last doubling of T added. "
        "The last column has the numbers sent. Blank: nothing is communicated. The figure table1_exponents shows how "
        "regret grows with T."
    )


def as_strings(table: pd.DataFrame) -> pd.DataFrame:
    """The table as strings, with formulas in LaTeX; each column is named by a pair (group or "", heading)."""
    stated = table[list(Stated._fields)].map(lambda x: f"${x}$" if x.startswith("\\") else x or DASH)
    stated.insert(0, "system", table["algorithm"].map(label) + np.where(table["personalized"] == "no", "*", ""))
    stated[table["objective"] != table["objective"].iloc[0]] = ""  # the first row of a system names it
    headings = ("System", "Average regret (paper)", "Rounds (paper)", "Personalized")
    columns = {("", heading): stated[name] for heading, name in zip(headings, stated, strict=True)}
    columns["", "Objective"] = table["objective"].map(title)
    for kind in ("local", "global"):
        pairs = zip(table[kind], table[f"{kind}_sd"], strict=True)
        columns["R(T)/M", kind] = [f"{x:,.0f}" if np.isnan(sd) else f"{x:,.0f} ({sd:,.0f})" for x, sd in pairs]
    slopes = table[["M_slope", "M_low", "M_high"]].map(_decimal).itertuples(index=False)
    fits = [f"{x} [{low}, {high}]" if low else x for x, low, high in slopes]
    columns["R(T)/M", "exponent of M"] = [
        f + NO_FIT * bool(w) for f, w in zip(fits, table["undecidable_reason"], strict=True)
    ]
    columns["Rounds", "at T"] = table["rounds"].map("{:,.0f}".format)
    columns["Rounds", "per doubling of T"] = table["rounds_per_doubling"].map(_decimal)
    columns["Numbers", "at T"] = table["numbers"].map("{:,.0f}".format)
    return pd.DataFrame(columns)


def _decimal(x: float) -> str:
    return "" if np.isnan(x) else f"{x:,.0f}" if abs(x) >= 100 else f"{0.0 + round(x, 2):.2f}"


def tabulate(study: Study) -> Exhibit:
    """Put measured values beside the paper's Table 1.

    Parameters
    ----------
    study : Study
        The scale of the runs.

    Returns
    -------
    Exhibit
        The table, as Markdown and LaTeX, and the table of `measure` as CSV.
    """
    table, caption = measure(study), table_caption(study)
    strings = as_strings(table)
    tabular = as_latex(strings, "lllll rrl rr r", multicolumn_format="c")
    latex = (
        "% Needs \\usepackage{booktabs,graphicx}. As wide as a page of two columns.\n"
        "\\begin{table*}\n\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}\n"
        f"\\caption{{{in_latex(caption)}}}\n\\label{{tab:table1}}\n"
        f"\\resizebox{{\\textwidth}}{{!}}{{{tabular}}}\n"
        "\\end{table*}\n"
    )
    plain = strings.set_axis([", ".join(filter(None, pair)) for pair in strings.columns], axis=1)
    return table_exhibit("table1", caption, plain, {"table1": table}, latex)


def in_words(table: pd.DataFrame) -> str:
    """Say how fast the regret of PLOTTED grows at the longest T, and where PF-PNE stands.

    Parameters
    ----------
    table : pandas.DataFrame
        The exponents, as `exponents` gives them.

    Returns
    -------
    str
        Up to three sentences.
    """
    table = table[table["algorithm"].isin(PLOTTED)].dropna(subset="exponent")
    if table.empty:
        return "No exponent could be measured: there is one T alone, or regret is 0."
    last = table[table["T"] == table["T"].max()]
    with_interval = last.dropna(subset="high")
    below = (with_interval["high"] < 1).sum()
    least = last.loc[last.groupby("objective", sort=False)["exponent"].idxmin()]
    words = [
        f"{row.exponent:.2f} on {title(row.objective)} ({algorithm_in_words(row.algorithm)})"
        for row in least.itertuples()
    ]
    pf_pne_rows = last[last["algorithm"] == "pf-pne"]
    own = [f"{row.exponent:.2f} on {title(row.objective)}" for row in pf_pne_rows.itertuples()]
    shown = (
        f"regret grows more slowly than T in {below} of {len(with_interval)} cases of an algorithm and an objective "
        "(the 95 % interval of the exponent is below 1)"
        if len(with_interval)
        else "nothing is shown, because one run has no interval"
    )
    return (
        f"Over the last doubling, to T = {last['T'].iloc[0]:,}, {shown}. The smallest exponents are {listed(words)}."
        + (f" PF-PNE's is {listed(own)}." if own else "")
    )


@our_style()
def draw_exponents(table: pd.DataFrame, study: Study) -> Exhibit:
    """Draw the local exponents of regret against T, one panel per objective.

    Parameters
    ----------
    table : pandas.DataFrame
        The exponents, as `exponents` gives them.
    study : Study
        The scale of the runs, which the caption names.

    Returns
    -------
    Exhibit
        The figure, and the table as CSV.
    """
    shown = table[table["algorithm"].isin(PLOTTED)]
    names, objectives = in_order(shown["algorithm"]), list(table["objective"].unique())
    caption = (
        "How fast regret grows: the local exponent of T, which is log2 of R(T)/M at T over that at T/2. M = "
        f"{study.n_clients} clients, {noise_in_words(study.claim_conditions[0].noise)}, random cells, means over n = "
        f"{table['n'].max()} runs of each length T, with bootstrap 95 % intervals. Marks of one T stand side by side. "
        "At 1 (solid line) regret grows like T. The paper's (d+1)/(d+2) is 1/2 for d = 0 (dotted line). The CSV has "
        "the other algorithms, too."
    )

    figure, ((*axes,),) = new_figure((PAGE, 3.0), columns=len(objectives), sharey=True)
    for ax, objective in zip(axes, objectives, strict=True):
        rows = shown[shown["objective"] == objective]
        beside = rows["algorithm"].map(names.index) / max(1, len(names) - 1) - 0.5
        rows = rows.assign(x=rows["T"] * 2 ** (0.6 * beside))  # within 0.6 of the way from one T to the next
        sns.lineplot(rows, x="x", y="exponent", ax=ax, **(line_looks(names) | {"linewidth": 0.5}))
        colors = [LOOKS[name].color for name in rows["algorithm"]]
        ax.vlines(rows["x"], rows["low"], rows["high"], colors=colors, linewidth=0.8)
        for exponent, dots in ((1, "-"), (0.5, ":")):
            ax.axhline(exponent, color="black", linewidth=0.7, linestyle=dots, zorder=0)
        ax.set(xscale="log", xlabel="$T$", title=TITLES[objective])
        ax.set_xticks(rows["T"].unique(), [in_thousands(T) for T in rows["T"].unique()])
        ax.minorticks_off()
    axes[0].set_ylabel("exponent of $T$")
    above_the_line = {"xycoords": ("axes fraction", "data"), "xytext": (0, 1.5), "textcoords": "offset points"}
    axes[-1].annotate("like $T$", (1.01, 1), fontsize=7, **above_the_line)
    legend(figure, names, columns=6)
    return figure_exhibit(figure, "table1_exponents", caption, table)
