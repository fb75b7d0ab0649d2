"""What docs/developing.md says of new things: each goes into two places at most, and works at once."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from conftest import keep_compiled_code, python_path

from pfpne.paths import INPUT_ROOT, PACKAGE_FOLDER

ALGORITHM = '''"""A client alone that evaluates points of a fixed sequence."""

from dataclasses import dataclass

import numpy as np

from pfpne.federation import Batch, Client, Server


@dataclass(frozen=True)
class StepsSettings:
    """step: from one point to the next, modulo 1."""

    step: float = 0.618


class StepsClient(Client):
    def __init__(self, task, settings):
        super().__init__(task)
        self.step, self.last = settings.step, task.partition.domain.mean(axis=1)

    def _ask(self):
        low, high = self.task.partition.domain.T
        return Batch((low + (self.t * self.step % 1) * (high - low))[None], np.array([1]))

    def _tell(self, batch, rewards):
        self.last = batch.points[0]

    def best(self):
        return self.last


def make_steps(task, settings):
    return Server(task), [StepsClient(task, settings) for _ in range(task.n_clients)]
'''
OBJECTIVE = "\n\ndef ramp(x: np.ndarray) -> np.ndarray:\n    return x[:, 0]\n"
CLAIM = """
[[claim]]
id = "steps-worse"
where_in_paper = "nowhere"
quote = ""
hypothesis = "On Garland, Steps has more regret than PF-PNE"
short = "steps"
objectives = ["garland"]
kind = "compare"
algorithm = "steps"
others = ["pf-pne"]
above = 1
"""
FIGURE = '''

def count_points(results, p: Parameters) -> Exhibit:
    """How many checkpoints there are, in words."""
    from pfpne.paper.show.export import text_exhibit

    return text_exhibit("points", "The checkpoints.", f"{len(results.regret)} rows")
'''
CELLS = [
    '# Parameters, with their meaning\\nprofile: str = "smoke"  # the scale',
    "from pfpne.paper.exhibits import regret\\nfrom pfpne.paper.run import parameters\\n"
    'from pfpne.paper.show import export\\n\\np = parameters.read("13_new")',
    'results = p.run("ramp", 0.1, ("steps", "pf-pne"))\\n'
    "drawings = regret.draw(results, p), regret.count_points(results, p)\\nexport.save(p, *drawings)",
]


def append(path: Path, old: str, new: str) -> None:
    """Put `new` before the first `old`."""
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new + old, 1), encoding="utf-8")


def test_a_new_algorithm_objective_claim_figure_and_notebook_work_at_once(tmp_path):
    skipped = shutil.ignore_patterns("__pycache__")
    for name in ("pfpne", "notebooks", "data"):
        shutil.copytree(PACKAGE_FOLDER if name == "pfpne" else INPUT_ROOT / name, tmp_path / name, ignore=skipped)
    package = tmp_path / "pfpne"
    (package / "algorithms" / "steps.py").write_text(ALGORITHM, encoding="utf-8")
    row = '    "steps": Algorithm(steps.StepsSettings, steps.make_steps, uses_task_cells=False),\n'
    append(package / "algorithms" / "__init__.py", '    "pe": ', row)
    append(package / "algorithms" / "__init__.py", "@dataclass(frozen=True)\nclass Algorithm", IMPORT)
    with (package / "problems" / "synthetic.py").open("a", encoding="utf-8") as file:
        file.write(OBJECTIVE)
    row = '    "ramp": Synthetic(synthetic.ramp, 0.0, 1.0, synthetic.ORIGIN, d=1, problem=KnownPeaksProblem),\n'
    append(package / "problems" / "__init__.py", '    "landmine": ', row)
    with (package / "paper" / "claims" / "claims.toml").open("a", encoding="utf-8") as file:
        file.write(CLAIM)
    with (package / "paper" / "exhibits" / "regret.py").open("a", encoding="utf-8") as file:
        file.write(FIGURE)
    cells = [
        {"cell_type": "code", "id": f"c{k}", "metadata": {"tags": ["parameters"] if k == 0 else []}, "outputs": []}
        | {"execution_count": None, "source": cell.replace("\\n", "\n")}
        for k, cell in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "notebooks" / "13_new.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    row = '    "13_new": Notebook("evidence", 5, ("steps",), without=("n_jobs", "scheduler")),\n'
    append(package / "paper" / "run" / "notebooks.py", '    "9_why": Notebook(', row)
    keep_compiled_code(package)
    environment = {**os.environ, "PYTHONPATH": python_path(tmp_path), "PYTHONUTF8": "1"}
    environment |= {"PFPNE_ROOT": str(tmp_path / "root"), "NUMBA_OPT": "1"}  # what is compiled is for a few short runs

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run("-m", "pfpne.paper", "figures", "--profile", "smoke", "--only", "13_new")
    made = tmp_path / "root" / "figures-smoke"
    assert (made / "regret_ramp_noise0.1.pdf").exists() and "rows" in (made / "points.md").read_text()
    tested = run("-c", TESTED.replace("FOLDER", repr(str(tmp_path / "root" / "results")))).split()
    assert tested == ["13_new", "True"]  # a batch executes it; the claim is tested


IMPORT = "from pfpne.algorithms import steps  # noqa: E402\n\n\n"
TESTED = """
from pathlib import Path
from pfpne.paper.claims.evidence import ClaimCondition, Study
from pfpne.paper.claims.verdicts import CLAIMS, evaluate_claims
from pfpne.paper.run.notebooks import executions
print(executions("paper")[-1][0])
claim = next(claim for claim in CLAIMS if claim.id == "steps-worse")
study = Study(2, 60, 3, 2, (ClaimCondition("bernoulli", "bernoulli", ("garland",)),), n_jobs=1, folder=Path(FOLDER))
print(evaluate_claims(study, [claim])[0]["verdict"].notna().all())
"""
