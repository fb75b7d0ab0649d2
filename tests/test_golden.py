"""Everything that the smoke profile makes is what it was: a SHA-256 per file of numbers, tables or sentences.

Pictures are not compared, because their looks may change; nor are the files of measured times. golden.json was written
by `python tests/test_golden.py`, which makes the smoke profile from nothing and takes minutes. Write it anew only for a
change that is meant to change a number or a sentence, and say so in the commit.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

GOLDEN = Path(__file__).with_name("golden.json")
CHECKOUT = Path(__file__).parent.parent
COMPARED = {".csv", ".md", ".tex"}


def processor() -> str:
    """A digest of how this machine rounds exp, cos, log and sums: on another kind of processor, last bits differ."""
    x = np.linspace(0.1, 30, 10_001)
    values = np.concatenate([np.exp(-x), np.cos(x), np.sin(x), np.log(x), x**0.3, [x.sum(), x @ x]])
    return hashlib.sha256(values.tobytes()).hexdigest()


def make_smoke(folder: Path) -> dict[str, str]:
    """Make everything of the smoke profile in this folder, from nothing; returns {file: SHA-256}."""
    environment = {**os.environ, "PFPNE_ROOT": str(folder), "PYTHONPATH": str(CHECKOUT), "PYTHONUTF8": "1"}
    command = [sys.executable, "-m", "pfpne.paper", "figures", "--profile", "smoke"]
    subprocess.run(command, env=environment, cwd=folder, check=True)
    return digests(folder / "figures-smoke")


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.iterdir() if path.suffix in COMPARED and "times" not in path.name)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.slow
def test_the_smoke_profile_makes_what_it_made(tmp_path):
    golden = json.loads(GOLDEN.read_text(encoding="utf-8"))
    if golden["processor"] != processor():
        pytest.skip("another kind of processor wrote golden.json: last bits differ from there")
    made = make_smoke(tmp_path)
    changed = [name for name in golden["files"].keys() | made.keys() if golden["files"].get(name) != made.get(name)]
    assert sorted(changed) == []


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        content = {"processor": processor(), "files": make_smoke(Path(home))}
    GOLDEN.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
