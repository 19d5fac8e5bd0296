"""`localdecide doctor`: every line it can print, and its exit code."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli_doubles import Daemon, Outcome

from localdecide import __version__, settings
from localdecide.cli import doctor_checks as checks
from localdecide.cli.doctor_checks import Built, Check

FACTS: dict[str, Any] = {
    "binding": "1.2.3",
    "ggml": "4.5",
    "library": "/lib",
    "offload": False,
    "flags": ["AVX2", "FMA", "OPENMP"],
    "devices": [{"name": "CPU", "description": "A CPU", "type": "CPU", "free": 8 * 10**9, "total": 16 * 10**9}],
}
MACHINE = frozenset({"avx2", "fma", "sse"})


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that fits, and no GPU."""
    monkeypatch.setattr(checks, "probe", lambda: Built(FACTS))
    monkeypatch.setattr(checks, "_cpu_flags", lambda: MACHINE)
    monkeypatch.setattr(checks, "_gpu", lambda: "")
    monkeypatch.setattr(checks, "LITTLE_SPACE", 0)


def statuses(found: list[Check]) -> list[tuple[str, str]]:
    return [(check.name, check.status) for check in found]


@pytest.mark.usefixtures("built")
def test_a_machine_in_order(cli: Callable[..., Outcome], daemon: Daemon) -> None:
    """All lines are there, none fails, exit code 0."""
    daemon.replies["GET /api/version"] = (200, {"version": __version__})
    daemon.replies["GET /api/ps"] = (200, {"models": [{"name": "smollm2:latest"}]})
    engine = {"threads": 2, "reasons": {"num_thread": "physical cores"}}
    daemon.replies["POST /api/show"] = (200, {"loaded": {"engine": engine}})
    done = cli("doctor")

    assert 0 == done.code
    words = [line.split()[:2] for line in done.out.splitlines()]
    names = ["version", "binding", "backend", "cpu", "daemon", "loaded", "log", "models", "setting"]
    assert names == list(dict.fromkeys(name for _, name in words))
    assert {"OK"} == {status for status, _ in words}
    assert "smollm2:latest: threads 2 (physical cores)" in done.out
    assert "8.0 GB free of 16 GB" in done.out
    assert f"LOCALDECIDE_HOST=127.0.0.1:{daemon.port} (from the environment" in done.out


@pytest.mark.usefixtures("built")
def test_json_and_no_daemon(cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """A daemon that does not run is a warning with a hint, not a failure; JSON holds every check."""
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")
    done = cli("doctor", "--json")
    value = json.loads(done.out)

    assert (0, True) == (done.code, value["ok"])
    assert FACTS == value["build"]
    daemon_check = next(check for check in value["checks"] if check["name"] == "daemon")
    assert ("warn", True) == (daemon_check["status"], "localdecide serve" in daemon_check["hint"])


@pytest.mark.usefixtures("built")
def test_failures_end_with_one(cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, daemon: Daemon) -> None:
    """A stranger on the port and a setting that cannot be read both fail, in words."""
    daemon.replies["GET /api/version"] = (200, [{"hello": "world"}])
    stranger = cli("doctor")
    assert (1, True) == (stranger.code, "not as localdecide does" in stranger.out)

    monkeypatch.setenv("LOCALDECIDE_MAX_QUEUE", "many")
    bad = cli("doctor")
    assert (1, True) == (bad.code, "LOCALDECIDE_MAX_QUEUE='many'" in bad.out)


@pytest.mark.usefixtures("built")
def test_another_version_and_a_secret(
    cli: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, daemon: Daemon
) -> None:
    """A daemon of another version is named with what to do; the key itself is never printed."""
    monkeypatch.setenv("LOCALDECIDE_API_KEY", "hunter2")
    daemon.replies["GET /api/version"] = (200, {"version": "0.0.1"})
    daemon.replies["GET /api/ps"] = (200, {"models": []})
    done = cli("doctor")

    assert 0 == done.code
    assert "is version 0.0.1" in done.out
    assert "LOCALDECIDE_API_KEY=set" in done.out
    assert "hunter2" not in done.out


def test_the_build_against_the_cpu() -> None:
    """A build for another CPU fails, one that leaves instructions unused warns, an unknown CPU is left alone."""
    foreign = checks.build(Built(FACTS), frozenset({"avx2"}), "")
    assert ("cpu", "fail") == statuses(foreign)[-1]
    assert "FMA" in foreign[-1].text
    unused = checks.build(Built(FACTS), MACHINE | {"avx512f"}, "")
    assert ("cpu", "warn") == statuses(unused)[-1]
    assert "AVX512" in unused[-1].text
    assert ("cpu", "ok") == statuses(checks.build(Built(FACTS), frozenset(), ""))[-1]


def test_a_gpu_that_is_not_used() -> None:
    """A GPU beside a build for the CPU gives the line that builds one for it."""
    found = checks.build(Built(FACTS), MACHINE, "an NVIDIA GPU|GGML_CUDA")
    warned = next(check for check in found if check.name == "gpu")
    assert "warn" == warned.status
    assert warned.hint is not None
    assert "-DGGML_CUDA=on" in warned.hint
    offloading = checks.build(Built({**FACTS, "offload": True}), MACHINE, "an NVIDIA GPU|GGML_CUDA")
    assert "gpu" not in {check.name for check in offloading}


@pytest.mark.parametrize(
    ("code", "problem", "detail"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "SIGILL (signal 4): it was built for another", ""),
        ("raise SystemExit('libfoo.so is missing')", "could not be loaded", "libfoo.so is missing"),
        ("import time; time.sleep(30)", "did not answer in 1 s", ""),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_probes_that_fail(code: str, problem: str, detail: str) -> None:
    """A crash, an error and a hang of the child each become one failing line."""
    built = checks.probe(("-c", code), 1.0 if "sleep" in code else 30.0)
    (line,) = checks.build(built)

    assert "fail" == line.status
    assert problem in line.text
    assert detail in line.text


def test_the_real_probe() -> None:
    """The child answers for the build that the tests run on."""
    facts = checks.probe().facts
    assert facts is not None
    assert any(device["type"] == "CPU" and device["total"] > 0 for device in facts["devices"])
    assert statuses(checks.build(Built(facts)))[0] == ("binding", "ok")


def test_the_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder that is yet to be made is fine, a file in its place and little room are not."""
    monkeypatch.setattr(checks, "LITTLE_SPACE", 0)
    monkeypatch.setenv("LOCALDECIDE_MODELS", str(tmp_path / "a" / "b"))
    assert [("models", "ok")] == statuses(checks.folders("x"))

    partials = tmp_path / "a" / "b" / "partials"
    partials.mkdir(parents=True)
    (partials / "k.journal").touch()
    assert "1 unfinished download" in checks.folders("x")[0].text

    monkeypatch.setattr(checks, "LITTLE_SPACE", 1 << 80)
    assert [("models", "warn")] == statuses(checks.folders("x"))

    (tmp_path / "file").touch(mode=stat.S_IRUSR)
    monkeypatch.setenv("LOCALDECIDE_MODELS", str(tmp_path / "file" / "models"))
    assert [("models", "fail")] == statuses(checks.folders("x"))


def test_settings_that_differ() -> None:
    """Only what is not the default is listed, with its source."""
    assert [("settings", "ok")] == statuses(checks.changed(settings.load({})))
    (line,) = checks.changed(settings.load({"LOCALDECIDE_MAX_QUEUE": "7"}))
    assert "LOCALDECIDE_MAX_QUEUE=7 (from the environment; the default is 512)" == line.text
