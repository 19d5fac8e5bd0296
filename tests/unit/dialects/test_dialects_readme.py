"""README's compatibility section names tests that exist and every contract that is served."""

from __future__ import annotations

import re
from pathlib import Path

from localdecide.dialects import table

ROOT = Path(__file__).parents[3]


def section() -> str:
    """The compatibility section of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.partition("\n## Compatibility\n")[2].partition("\n## ")[0]


def test_every_named_test_exists():
    """A cell of the matrix rests on a test; renaming the test without the cell fails here."""
    named = set(re.findall(r"`(test_\w+)`", section()))
    sources = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = set(re.findall(r"def (test_\w+)\(", sources))
    assert named
    assert named - defined == set()


def test_every_contract_is_named():
    """Each prefix and each root path stands in the section."""
    text = section()
    for name in table.PREFIXES:
        assert f"…/{name}" in text
    for path in ("/api/alpha/decisions", "/api/v1/systemone", "/v1/decisions", "/v1/messages"):
        assert path in text
