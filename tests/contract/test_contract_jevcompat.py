"""jevcompat, the public conformance suite, against a real daemon with the default model.

No single run judges all of it: auth is checked on and off. Reports lie in `.ci/artefacts`.
"""

from __future__ import annotations

import json
import subprocess

import environments
import pytest
from running import KEY, ROOT, clean_environment, need

pytestmark = pytest.mark.contract

REPORTS = ROOT / ".ci" / "artefacts"


def judge(name: str, url: str, *options: str) -> dict[str, dict[str, str]]:
    """Runs the suite; its items by id."""
    need("typesafe")
    REPORTS.mkdir(parents=True, exist_ok=True)
    report = REPORTS / f"jevcompat-{name}.json"
    tool = environments.folder("typesafe") / "bin" / "jevcompat"
    command = [str(tool), "test", url, "--timeout", "300", "--title", name, "--json", str(report)]
    command += ["--markdown", str(report.with_suffix(".md")), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800, env=clean_environment(PYTHONPATH=""))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return {item["id"]: item for item in json.loads(report.read_text())["results"]}


def failed(items: dict[str, dict[str, str]], level: str) -> list[str]:
    """Items of a level that were judged and not passed."""
    return [key for key, item in items.items() if item["level"] == level and item["status"] not in ("pass", "skip")]


def test_typesafe_without_a_key(open_daemon):
    """Every MUST and every SHOULD that a daemon without a key can be asked."""
    items = judge("typesafe-open", f"{open_daemon}/typesafe")
    assert failed(items, "MUST") + failed(items, "SHOULD") == []


def test_typesafe_with_a_key(locked_daemon):
    """Every MUST and every SHOULD, those about keys among them."""
    items = judge("typesafe-key", f"{locked_daemon}/typesafe", "--key", KEY)
    assert failed(items, "MUST") + failed(items, "SHOULD") == []
    assert items["auth.invalid"]["status"] == "pass"


def test_the_root(open_daemon):
    """Every MUST; of the SHOULDs only those where the root follows Ollama on purpose are missed."""
    items = judge("root", open_daemon)
    assert failed(items, "MUST") == []
    assert failed(items, "SHOULD") == ["confidence.formula", "errors.validation-shape", "errors.shape"]
