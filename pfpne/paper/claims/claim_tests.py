"""The tests of the claims: each test in CLAIM_TESTS is a function of a claim's cases and of its own arguments.

The tests in COMPARING return comparisons on one objective, which are decided by p-values. The others return whether
each run, or each objective or depth, is as claimed, and are counted. A test may also return a reason why the runs
cannot decide. The verdict, with the correction for multiple claims, is made in pfpne.paper.claims.verdicts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from pfpne.algorithms.fed1_ucb import reward_deviation
from pfpne.algorithms.pf_pne import n_pulls_per_client, transition_depth
from pfpne.paper.claims import assumption_checks, stats
from pfpne.paper.claims.evidence import IDENTICAL_CLIENT_CHANGES
from pfpne.paper.claims.outcomes import (
    MAX_LAST_PHASE_SHARE,
    PAPER_SETTINGS,
    ClaimCase,
    Comparison,
    Counted,
    Outcome,
    communication_in_words,
    extremes_in_words,
    format_number,
    long_last_phase_reason,
    range_in_words,
    theory_settings,
)
from pfpne.paper.run.selections import PAPER_ALGORITHMS
from pfpne.paper.show.style import Delta_in_words, label, title

LARGE_FACTOR = 2.0  # "much slower": by this factor at least; "similar": by no more
MOST_RUNS_SHARE, FEW_RUNS_SHARE = 0.8, 0.2  # claims on times hold, or fail, in such a share of the runs
MAX_RANDOM_SHARE = 0.8  # above this share of the regret of random points, an algorithm has learnt next to nothing
ELIMINATION_ALGORITHMS = ("pf-pne", "fed-pne", "pe")  # in phases; T truncates the last one


# --- tests that compare -----------------------------------------------------------------------------


def undecidable_regret_reason(algorithm: str, quantity: str, runs: pd.DataFrame) -> str:
    """The reason why an algorithm's regret in these runs cannot be compared; "" if it can."""
    return (
        long_last_phase_reason(runs["last_phase_share"])
        if algorithm in ELIMINATION_ALGORITHMS and quantity == "regret"
        else ""
    )


def inequalities(
    a: np.ndarray, b: np.ndarray, name: str | tuple[str, str], below=None, above=None, undecidable_reason=""
) -> list[Comparison]:
    """Make the comparisons of a claim about paired runs: a < below * b, and a > above * b, for the limits given.

    a, b (n,): one value per run; if their lengths differ, only the common runs count. name: the name of the comparison,
    or the names of a and of b. undecidable_reason: why the runs cannot decide it, or "".
    """
    n = min(len(a), len(b))
    a, b = a[:n], b[:n]
    pair = None if isinstance(name, str) else name
    name = " - ".join(pair) if pair else name
    limits = [(limit, is_above) for limit, is_above in ((below, False), (above, True)) if limit is not None]
    return [Comparison(name, a - b, b, limit, is_above, undecidable_reason, pair=pair) for limit, is_above in limits]


def compare(
    case: ClaimCase,
    others,
    algorithm="pf-pne",
    below=None,
    above=None,
    quantity="regret",
    settings=None,
    identical=False,
    times_T=1.0,
    on_figure_runs=False,
    tuned_c=False,
) -> Outcome:
    """Compare an algorithm's R(T)/M with each rival's: the ratio is below `below`, and above `above`.

    quantity: the column of the runs that is compared, instead of R(T)/M. settings: the algorithm's settings. identical:
    whether the clients are identical. times_T: the horizon, in units of the study's T. on_figure_runs: whether only the
    runs of the figures count. tuned_c: whether the others' c follows the noise.
    """
    changes, comparisons = {**IDENTICAL_CLIENT_CHANGES} if identical else {}, []
    if times_T != 1:
        changes["horizon"] = max(1, round(times_T * case.study.horizon))
    if on_figure_runs:
        changes["n_runs"] = case.study.figure_runs
    other_settings = {"c": c_of_noise(case.condition.noise)} if tuned_c else {}
    runs = case.summaries(algorithm, settings, **changes)
    undecidable_reason = undecidable_regret_reason(algorithm, quantity, runs)
    for other in others:
        theirs = case.summaries(other, other_settings, **changes)[quantity].to_numpy()
        pair = label(algorithm), label(other)
        comparisons += inequalities(runs[quantity].to_numpy(), theirs, pair, below, above, undecidable_reason)
    return Outcome(comparisons)


def c_of_noise(noise: float | str) -> float:
    """HCT's c for a noise: 0.7 times its standard deviation (its bound 1/2 for Bernoulli rewards), at least 0.05."""
    return max(0.05, 0.7 * reward_deviation(noise))


def compare_global(case: ClaimCase, algorithm: str) -> Outcome:
    """The algorithm's global R(T)/M, against f-bar's maximum, is below its local R(T)/M."""
    runs = case.summaries(algorithm, global_regret=True, n_runs=case.study.figure_runs)
    against_global, local = runs["global_regret"].to_numpy(), runs["regret"].to_numpy()
    return Outcome(inequalities(against_global, local, ("global", "local"), below=1))


def compare_identical(case: ClaimCase, algorithm: str, above: float) -> Outcome:
    """The algorithm's R(T)/M is more than `above` times its R(T)/M with identical clients."""
    apart, identical = (case.summaries(algorithm, **changes) for changes in ({}, IDENTICAL_CLIENT_CHANGES))
    pair = f"shift {case.study.shift:g}", "identical"
    undecidable_reason = undecidable_regret_reason(algorithm, "regret", apart)
    regrets = apart["regret"].to_numpy(), identical["regret"].to_numpy()
    return Outcome(inequalities(*regrets, pair, above=above, undecidable_reason=undecidable_reason))


def finds_own(case: ClaimCase) -> Outcome:
    """At T, PF-PNE's simple regret is below the simple regret of deploying f-bar's maximiser at every client."""
    deployed = case.summaries()["simple_regret"].to_numpy()
    at_global_maximum = case.per_run(assumption_checks.gaps_at_global_maximum).mean(axis=1)
    return Outcome(inequalities(deployed, at_global_maximum, ("PF-PNE", "global maximiser"), below=1))


def move_settings(case: ClaimCase, ranges: dict[str, Sequence[float]], within: float) -> Outcome:
    """Each setting, moved alone to the given values, changes PF-PNE's R(T)/M by less than the factor `within`.

    The claim is vacuous if PF-PNE's regret is close to that of random points: then no setting can matter.
    """
    runs = {name: case.summaries(name) for name in PAPER_ALGORITHMS}
    pf_pne, *rivals = (table["regret"].to_numpy() for table in runs.values())
    undecidable_reason = undecidable_regret_reason("pf-pne", "regret", runs["pf-pne"])
    comparisons, ranks = [], []
    for name, value in [(name, value) for name in ranges for value in ranges[name]]:
        if not (name == "Delta" and case.true_Delta):
            moved = case.summaries(settings={name: value}, **case.sweep_changes)["regret"].to_numpy()
            comparisons += inequalities(moved, pf_pne, f"{name} = {value:g}", within, 1 / within, undecidable_reason)
            ranks.append(rank_among(moved, rivals))
    random_regret = case.study.horizon * case.per_run(assumption_checks.gap_of_random_points)
    share = pf_pne.mean() / random_regret.mean()
    measured = (
        f"ratio of R(T)/M to that at the paper's values: {extremes_in_words(comparisons)}; "
        f"place among the paper's five: {rank_among(pf_pne, rivals)}, "
        f"and {min(ranks)} to {max(ranks)} when moved; "
        f"{share:.0%} of the regret of points drawn at random"
    )
    vacuous_reason = f"nothing to move: {share:.0%} of the regret of random points" if share > MAX_RANDOM_SHARE else ""
    return Outcome(comparisons, measured_in_words=measured, vacuous_reason=vacuous_reason)


def any_Delta(case: ClaimCase, deltas: Sequence[float], below: float) -> Outcome:
    """With each of these Delta, PF-PNE's R(T)/M is below `below` times PE's."""
    pe, comparisons = case.summaries("pe")["regret"].to_numpy(), []
    for Delta in deltas:
        runs = case.summaries(settings={"Delta": Delta}, **case.sweep_changes)
        pf_pne, undecidable_reason = runs["regret"].to_numpy(), undecidable_regret_reason("pf-pne", "regret", runs)
        comparisons += inequalities(pf_pne, pe, f"Delta = {Delta:g}", below, undecidable_reason=undecidable_reason)
    return Outcome(comparisons)


def any_shift(case: ClaimCase, shifts: Sequence[float], below: float, above=None) -> Outcome:
    """With each of these shifts, PF-PNE's R(T)/M is below `below` (and above `above`) times PE's."""
    comparisons = []
    for shift in shifts:
        changes = ({"shift": shift} if shift else IDENTICAL_CLIENT_CHANGES) | case.sweep_changes
        pf_pne_runs, pe_runs = (case.summaries(name, **changes) for name in ("pf-pne", "pe"))
        what = f"shift {shift:g}" if shift else "identical"
        undecidable_reason = undecidable_regret_reason("pf-pne", "regret", pf_pne_runs)
        regrets = pf_pne_runs["regret"].to_numpy(), pe_runs["regret"].to_numpy()
        comparisons += inequalities(*regrets, what, below, above, undecidable_reason)
    return Outcome(comparisons)


def rank_among(regrets: np.ndarray, rivals: Sequence[np.ndarray]) -> int:
    """The rank of the mean among the rivals' means, 1 for the smallest; each is compared on the common first runs."""
    return 1 + sum(theirs[: len(regrets)].mean() < regrets[: len(theirs)].mean() for theirs in rivals)


def growth_exponent(case: ClaimCase, along: str, below: float, quantity="regret", deltas=(None,)) -> Outcome:
    """Compare a growth exponent a with a limit: a column of the runs grows like T^a, or M^a with identical clients.

    along: "T" or "M". below: the limit. quantity: the column. deltas: the values of Delta that are claimed. A claim on
    regret is not decidable if `long_last_phase_reason` gives a reason.
    """
    scales = {
        "M": ("n_clients", case.study.client_counts, IDENTICAL_CLIENT_CHANGES),
        "T": ("horizon", case.study.horizons, {}),
    }
    (parameter, scale, changes), comparisons = scales[along], []
    for Delta in deltas:
        settings = {} if Delta is None else {"Delta": Delta}
        tables = [case.summaries(settings=settings, **{parameter: x}, **case.sweep_changes, **changes) for x in scale]
        slopes = stats.growth_exponents(scale, np.stack([table[quantity] for table in tables], axis=1))
        name = "slope" if Delta is None else f"slope, Delta = {Delta_in_words(Delta)}"
        undecidable_reason = long_last_phase_reason(tables[-1]["last_phase_share"]) if quantity == "regret" else ""
        comparisons.append(Comparison(name, slopes, limit=below, undecidable_reason=undecidable_reason))
    return Outcome(comparisons)


# --- tests that count -------------------------------------------------------------------------------


def count(function: Callable, *cases: ClaimCase, **arguments) -> Outcome:
    """The Outcome of function(case), which returns Counted, over all objectives."""
    counted = {title(case.objective): function(case, **arguments) for case in cases}
    measured = "; ".join(f"{name}{result.finding}{result.details}" for name, result in counted.items())
    counterexample = next(
        (f"{name}{result.finding}" for name, result in counted.items() if False in result.as_claimed), ""
    )
    as_claimed = sum((result.as_claimed for result in counted.values()), [])
    return Outcome(as_claimed=as_claimed, measured_in_words=measured, counterexample=counterexample)


def is_still_communicating(fed_last_round_step, pf_last_round_step, T: int):
    """Whether Fed-PNE has a round after T/10 and after PF-PNE's last: steps of last rounds (n,), 0 without a round."""
    return (fed_last_round_step > T / 10) & (fed_last_round_step > pf_last_round_step)


def has_stopped_communicating(n_rounds, last_round_step, H_0, T: int):
    """Whether PF-PNE has communicated once for each depth 0..H_0, and before T: values of n runs (n,)."""
    return (n_rounds == H_0 + 1) & (last_round_step < T)


def keeps_communicating(case: ClaimCase) -> Counted:
    """Fed-PNE has a round after T/10 and after PF-PNE's last round; None if its last phase is too long."""
    fed, pf, T = case.summaries("fed-pne"), case.summaries(), case.study.horizon
    later = is_still_communicating(fed["last_round_step"], pf["last_round_step"], T)
    is_long = T - fed["last_round_step"] > MAX_LAST_PHASE_SHARE * T  # its last phase
    as_claimed = [True if goes_on else None if long else False for goes_on, long in zip(later, is_long, strict=True)]
    finding = f": after T/10 and PF-PNE's last round in {later.sum()} of {len(fed)} runs"
    details = f"; Fed-PNE: {communication_in_words(fed)}; PF-PNE: {communication_in_words(pf)}"
    return Counted(as_claimed, finding, details)


def stops_communicating(case: ClaimCase) -> Counted:
    """PF-PNE's stage 1 ends before T, and nothing is sent after it; None if the horizon ends within stage 1."""
    runs = case.summaries()
    H_0 = last_depth(runs)
    ended = has_stopped_communicating(runs["n_rounds"], runs["last_round_step"], H_0, case.study.horizon)
    in_stage_1 = runs["n_rounds"] < H_0 + 1  # at T
    as_claimed = [None if too_early else has_ended for too_early, has_ended in zip(in_stage_1, ended, strict=True)]
    return Counted(as_claimed, f": {communication_in_words(runs)}")


def costs_bounded(case: ClaimCase) -> Counted:
    """PF-PNE has at most H_0 + 1 rounds, and sends at most as many numbers as if no node were ever eliminated."""
    runs, M = case.summaries(), case.study.n_clients
    H_0 = last_depth(runs)
    # 2^h nodes at each depth h = 0..H_0: of each, every client sends one number and receives three
    bound = H_0.map(lambda h: 4 * M * (2 ** (h + 1) - 1))
    as_claimed = (runs["n_rounds"] <= H_0 + 1) & (runs["numbers"] <= bound)
    return Counted(as_claimed.tolist(), f": {communication_in_words(runs)}, bound {range_in_words(bound)}")


def within_Delta(case: ClaimCase) -> Counted:
    """|f-bar* - f_m*| is at most the paper's Delta, for every client."""
    true = case.summaries(settings={"Delta": "true"})["Delta"].to_numpy()
    return Counted(
        (true <= PAPER_SETTINGS.Delta).tolist(), f": {format_number(true.min())} to {format_number(true.max())}"
    )


def near_optimal(case: ClaimCase) -> Counted:
    """At f-bar's maximiser, every client is within the paper's Delta of its own maximum: Assumption 4, epsilon 0."""
    gaps = case.per_run(assumption_checks.gaps_at_global_maximum).max(axis=1)
    return Counted(
        (gaps <= PAPER_SETTINGS.Delta).tolist(), f": {format_number(gaps.min())} to {format_number(gaps.max())}"
    )


def smooth(case: ClaimCase, depth: int) -> Counted:
    """At each depth h <= depth, f_m at the centre of client m's optimal cell is within nu_1 rho^h of f_m*."""
    gaps = case.per_run(assumption_checks.gaps_at_depths, depth)  # (n, depth + 1)
    ratio = gaps / (PAPER_SETTINGS.nu_1 * PAPER_SETTINGS.rho ** np.arange(depth + 1))
    finding = f": up to {format_number(ratio.max())} times nu_1 rho^h, at depth {int(ratio.max(axis=0).argmax())}"
    return Counted((ratio <= 1).all(axis=1).tolist(), finding)


def within_width(case: ClaimCase, settings: dict) -> Counted:
    """Every confidence interval that PF-PNE eliminates nodes by covers the true value."""
    events = case.events(settings)
    outside, n_means = events["outside"], events["means"].sum()
    runs = f"in {(outside > 0).sum()} of {len(events)} runs"
    return Counted((outside == 0).tolist(), f": {outside.sum():,} of {n_means:,} means outside, {runs}")


def keeps_optima(case: ClaimCase) -> Counted:
    """No client's maximum is eliminated by PF-PNE."""
    lost, M = case.events()["lost"], case.study.n_clients
    mean, runs = format_number(lost.mean()), f"in {(lost > 0).sum()} of {len(lost)} runs"
    return Counted((lost == 0).tolist(), f": eliminated of {mean} of {M} clients on average, {runs}")


def rounds_bounded(case: ClaimCase, deltas: Sequence[float | str]) -> Counted:
    """PF-PNE's rounds are at most `rounds_bound`, with each of these Delta and T."""
    horizons, as_claimed, by_Delta = case.study.horizons, [], []
    for Delta in deltas:
        by_T = []
        for T in horizons:
            runs = case.summaries(horizon=T, settings={"Delta": Delta}, **case.sweep_changes)
            bounds = [rounds_bound(given, T, case.study.n_clients) for given in runs["Delta"]]
            as_claimed += (runs["n_rounds"] <= bounds).tolist()
            by_T.append(f"{range_in_words(runs['n_rounds'])} (bound {range_in_words(bounds, '{:.1f}')})")
        by_Delta.append(f"{Delta_in_words(Delta)}: {by_T[0]}, {by_T[-1]}")
    head = f", rounds at T = {horizons[0]:,} and {horizons[-1]:,} by Delta"
    return Counted(as_claimed, f"{head}: {', '.join(by_Delta)}")


def last_depth(runs: pd.DataFrame) -> pd.Series:
    """H_0 of each run of PF-PNE, which communicates once for each depth 0..H_0."""
    return runs["Delta"].map(lambda Delta: transition_depth(Delta, PAPER_SETTINGS.nu_1, PAPER_SETTINGS.rho))


def rounds_bound(Delta: float, T: int, M: int) -> float:
    """The theorem's bound on exchanges, spelt out in claims.toml ("rounds-bound"), at the paper's settings.

    The first term: depths 0..H_0, H_0 <= 1 + C_1 log(nu_1/Delta). The second: a finished depth h has tau_h <= MT. Both
    are at least 1.
    """
    s, per_depth = PAPER_SETTINGS, math.log(1 / PAPER_SETTINGS.rho)
    log_term = s.log_term_for(T, M)
    by_depth = 2 + max(0.0, math.log(s.nu_1 / Delta) / per_depth) if Delta > 0 else math.inf
    by_samples = math.inf
    if log_term:
        by_samples = 1 + (math.log(M * T) + math.log(s.nu_1**2 / (s.c**2 * log_term))) / (2 * per_depth)
    return min(by_depth, by_samples)


def confidential(case: ClaimCase, *_) -> Outcome:
    """Every mean that PF-PNE's clients send averages at least two rewards; this depends on M and T alone."""
    T, M, s = case.study.horizon, case.study.n_clients, PAPER_SETTINGS
    log_term, H_0 = s.log_term_for(T, M), transition_depth(s.Delta, s.nu_1, s.rho)
    pulls = [n_pulls_per_client(h, log_term, s, M) for h in range(H_0 + 1)]
    single = [h for h, n in enumerate(pulls) if n == 1]
    counterexample = f"the means sent at depths {single[0]} to {single[-1]} are single rewards" if single else ""
    measured = f"{counterexample or 'no mean sent is a single reward'} (depths 0 to {H_0})"
    return Outcome(as_claimed=[n > 1 for n in pulls], measured_in_words=measured, counterexample=counterexample)


def good_event(*cases: ClaimCase, as_in_theory: bool) -> Outcome:
    """`within_width`, with the premise that the rewards at one point lie in an interval of length 1.

    Without noise every mean equals the true value. as_in_theory: with the theory's c and c_1, not the experiments'.
    """
    settings = theory_settings(cases[0].study.n_clients) if as_in_theory else {}
    outcome, noise = count(within_width, *cases, settings=settings), cases[0].condition.noise
    wide = noise != "bernoulli" and noise > 0.5
    return replace(outcome, undecidable_reason="rewards are not in [0, 1]" if wide else "", by_design=not noise)


def count_times(*cases: ClaimCase, quantity: str) -> Outcome:
    """The share of runs on each objective in which FN-UCB is "slower", or the others are "similar" (`measure_times`).

    As claimed on an objective if the share is at least MOST_RUNS_SHARE, refuted if at most FEW_RUNS_SHARE, else open.
    """
    shares = [measure_times(case)[quantity] for case in cases]
    as_claimed = [True if share >= MOST_RUNS_SHARE else False if share <= FEW_RUNS_SHARE else None for share in shares]
    return Outcome(as_claimed=as_claimed, measured_in_words="see claims_times.csv")  # as times are not the same twice


def measure_times(case: ClaimCase) -> dict:
    """The median seconds of one run of each of the paper's five, over the runs of the figures.

    slower: the share of these runs in which FN-UCB takes at least LARGE_FACTOR times as long as each of the others.
    similar: the share in which no other algorithm takes more than LARGE_FACTOR times as long as another.
    """
    n, head = case.study.figure_runs, {"noise": case.condition.name, "cells": case.condition.cells}
    seconds = pd.DataFrame({name: case.summaries(name)["seconds"].to_numpy()[:n] for name in PAPER_ALGORITHMS})
    others = seconds.drop(columns="fn-ucb")
    longest, shortest = others.max(axis=1), others.min(axis=1)
    slower, similar = seconds["fn-ucb"] >= LARGE_FACTOR * longest, longest <= LARGE_FACTOR * shortest
    shares = {"slower": slower.mean(), "similar": similar.mean()}
    return {**head, "objective": case.objective, "runs": n, **seconds.median(), **shares}


COMPARING = (  # tests (case, **arguments) -> Outcome with comparisons, of a claim on exactly one objective
    compare,
    compare_identical,
    compare_global,
    finds_own,
    move_settings,
    any_Delta,
    any_shift,
    growth_exponent,
)
COUNTING = (  # tests (case, **arguments) -> Counted, which `count` applies to each objective of a claim
    keeps_communicating,
    stops_communicating,
    costs_bounded,
    rounds_bounded,
    within_Delta,
    near_optimal,
    smooth,
    keeps_optima,
)
CLAIM_TESTS = {  # the `kind` of a claim -> its test, a function of cases and of the claim's arguments
    # count_times, good_event and confidential count, too, but return the Outcome themselves, for all objectives.
    **{test.__name__: test for test in (*COMPARING, count_times, good_event, confidential)},
    **{test.__name__: partial(count, test) for test in COUNTING},
}
