"""What secure aggregation changes: nothing in what is kept, and how much regret the least numbers of rewards cost.

    python benchmarks/secure_aggregation.py [--runs 250] [--page docs/trust.md]

Writes the two tables of the page docs/trust.md, between its marks.
"""

import argparse
from pathlib import Path

import numpy as np

import pfpne
from pfpne.algorithms import ALGORITHMS, Algorithm
from pfpne.algorithms.secure import SECURED, Masked, MaskedStatistics, PublicKey, PublicKeys, secured
from pfpne.paper.exhibits.pages import update_block

SITES, HORIZON = {"pf-pne+": 4}, {"fed1-ucb": 300}  # of the runs that are compared; else 3 sites, 100 evaluations
M, T, N_RUNS = 20, 10_000, 10  # of those whose regret is measured
LEAST = (1, 2, 5, 10, 20)
NOISES = ("bernoulli", 0.1)
FED1 = {"c_pulls": 0.5, "sigma": 0.15}  # that arms go within a small horizon


def decisions(messages: list) -> list:
    """The nodes or arms that the server kept, in the order of its answers."""
    down = [message for _, way, m, message in messages if way == "down" and m == 0]
    return [message.values[0].tolist() for message in down if not isinstance(message, PublicKeys)]


def equal(name: str, runs: int) -> str:
    """A row: of how many runs all decisions are equal, with masks and without."""
    same, exchanges, settings = 0, 0, FED1 if name == "fed1-ucb" else {}
    horizon, sent = HORIZON.get(name, 100), {PublicKey, MaskedStatistics if name == "pf-pne+" else Masked}
    for run in range(runs):
        noise = NOISES[run % 2]
        problem = pfpne.make_problem("garland", SITES.get(name, 3), shift=0.1, noise=noise, run=run)
        plain = pfpne.simulate(name, problem, horizon, messages=True, **settings)
        hidden = pfpne.simulate(secured(name), problem, horizon, messages=True, least_rewards=1, **settings)
        same += decisions(plain.messages) == decisions(hidden.messages)
        exchanges += len(decisions(plain.messages))
        assert {type(message) for _, way, _, message in hidden.messages if way == "up"} == sent
    return f"| {name} | {runs} | {exchanges} | {same} |"


def cost(name: str, noise) -> str:
    """A row: the mean of R(T)/M over runs, for each least number of rewards, and the change against the first.

    Without masks, which change nothing but the time that it takes.
    """
    means, pulled_more = [], Algorithm(SECURED[name][0], ALGORITHMS[name].make_server_and_clients)
    for least in LEAST:
        regrets = []
        for run in range(N_RUNS):
            problem = pfpne.make_problem("garland", M, shift=0.1, noise=noise, run=run)
            regrets.append(pfpne.simulate(pulled_more, problem, T, least_rewards=least).regret[:, -1].mean())
        means.append(np.mean(regrets))
    cells = " | ".join(f"{mean:.0f} ({100 * (mean / means[0] - 1):+.0f} %)" for mean in means)
    return f"| {name} | {noise} | {cells} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=250, help="of each algorithm, in the first table")
    parser.add_argument("--page", type=Path, default=Path("docs/trust.md"))
    parser.add_argument("--only", choices=("equal", "cost"), help="one of the two tables")
    arguments = parser.parse_args()
    if arguments.only != "cost":
        write_equal(arguments)
    if arguments.only != "equal":
        write_cost(arguments)


def write_equal(arguments) -> None:
    rows = [equal(name, arguments.runs) for name in SECURED]
    print("\n".join(rows), flush=True)
    heads = "| algorithm | runs | exchanges | runs with the same decisions |"
    update_block(arguments.page, "equal", "\n".join([heads, "|---|---|---|---|", *rows, ""]))


def write_cost(arguments) -> None:
    rows = [cost(name, noise) for name in ("pf-pne", "fed-pne", "pf-pne+") for noise in NOISES]
    print("\n".join(rows), flush=True)
    heads = " | ".join(f"n = {least}" for least in LEAST)
    head = f"| algorithm | noise | {heads} |"
    update_block(arguments.page, "cost", "\n".join([head, "|---" * (2 + len(LEAST)) + "|", *rows, ""]))


if __name__ == "__main__":
    main()
