"""The numbers on the page on baselines are what its command prints."""

import re
import subprocess
import sys

from pfpne.paths import ROOT


def test_the_finding_on_hct_is_what_its_command_prints():
    page = (ROOT / "docs" / "baselines.md").read_text(encoding="utf-8")
    command, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", page, re.DOTALL).groups()
    ran = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert ran.stdout == printed
