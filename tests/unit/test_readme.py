"""README says what the code says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from localdecide import settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def block(word: str) -> str:
    """The shell block that a comment marks."""
    found = re.search(rf"<!-- {word} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_setting_is_in_the_table() -> None:
    """The table of settings is the one the code holds, row for row."""
    rows = [
        f"| `{setting.variable}` | {f'`{setting.default}`' if setting.default else ''} | {setting.sentence} |"
        for setting in settings.TABLE
    ]

    assert rows == [line for line in README.splitlines() if line.startswith("| `LOCALDECIDE_")]


def test_the_two_commands_come_first() -> None:
    """Both commands stand on the first screen."""
    position = README.index("<!-- test-command -->")

    assert README.index("<!-- run-command -->") < position
    assert README[:position].count("\n") < 45
    assert shlex.split(block("run-command"))[-2:] == ["--score", "mood: How happy is the tone? = sad < neutral < happy"]


def test_links_lead_somewhere() -> None:
    """Every relative link of the documents names a file."""
    for document in ("README.md", "CONTRIBUTING.md", "modelfiles/README.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text()):
            assert (ROOT / document).parent.joinpath(target).exists(), f"{document}: {target}"
