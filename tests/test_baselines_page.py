"""The numbers on the page on baselines are what its command prints."""

import re

import pytest

from pfpne.paths import INPUT_ROOT as CHECKOUT

PAGE = (CHECKOUT / "docs" / "baselines.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("command", "printed"), [SHOWN[0], SHOWN[2]], ids=["splits again", "k-ary"])  # [1]: a minute
def test_a_finding_is_what_its_command_prints(command, printed, capsys):
    exec(command, {})
    assert capsys.readouterr().out == printed
