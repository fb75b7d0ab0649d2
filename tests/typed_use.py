"""A user's program, which `make lint` reads with pyright as it would be read in an editor: nothing runs it.

Every name of the public API is used in it once; that it type-checks means that the package's annotations are right for
those who use them.
"""

import numpy as np

import pfpne


def loss(parameters: dict) -> float:
    return (parameters["x"] - 0.3) ** 2


def my_rewards(m: int, points: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return np.repeat(1 - np.abs(points[:, 0] - 0.3 * m), counts)


problem = pfpne.make_problem("garland", n_clients=20, shift=0.1, noise="bernoulli", seed=0, run=0)
run = pfpne.simulate("pf-pne", problem, horizon=1000, partition=pfpne.Partition([[0.0, 1.0]], max_depth=None))
last: float = float(run.regret[:, -1].mean())
own = pfpne.problem_from_functions([lambda x: 1 - x[:, 0], lambda x: x[:, 0]], [[0.0, 1.0]], noise=0.1)
deepest: int = pfpne.Partition([[0.0, 1.0]]).max_depth + 1

task = pfpne.Task(pfpne.Partition([[0.0, 1.0]]), n_clients=3, horizon=500, noise=0.1, reward_range=(0, 1))
federation = pfpne.make_federation(pfpne.secured("pf-pne"), task, Delta=0.1)
while federation.running:
    for m, batch in federation.ask():
        federation.tell(m, my_rewards(m, batch.points, batch.counts))
pfpne.save("state.json", federation)
again = pfpne.load("state.json")

space = pfpne.Space(
    {
        "C": pfpne.Float(1e-3, 1e3, log=True),
        "depth": pfpne.Int(1, 9),
        "kernel": pfpne.Choice(["rbf", "linear"]),
        "size": pfpne.Ordinal([16, 32, 64]),
    }
)
reward = pfpne.Reward(0.0, 1.0, "minimize")
scaled: float = reward.scaled(0.5)
try:
    result: pfpne.Tuned = pfpne.tune([loss, loss], {"x": pfpne.Float(0, 1)}, n_evaluations=200, direction="minimize")
    print(result.deploy, result.summary.to_string(), result.plot())
except pfpne.EvaluationError as error:
    print(error.result.history)

search = pfpne.Search(["a", "b"], {"x": pfpne.Float(0, 1)}, n_evaluations=50)
trials: list[pfpne.Trial] = search.ask()
for trial in trials:
    search.tell(trial, loss(trial.parameters))
