"""`run` against the fake daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localdecide.cli.completion import model_names

Cli = Callable[..., Any]

TEAM = {
    "type": "choice",
    "choice": "billing",
    "probabilities": {"billing": 0.75, "sales": 0.25},
    "confidence": 0.19,
}
REPLY = {
    "model": "smollm2",
    "answers": {"urgent": {"type": "noul", "noul": 0.9, "x_readout": "yesno"}, "team": TEAM},
    "usage": {"input_tokens": 42, "output_tokens": 0},
}
ROUTE = "POST /v1/systemone"


def test_order_across_types(cli: Cli, daemon: Any) -> None:
    """Questions of all types stay in the order of the command line, wherever the other words stand."""
    daemon.replies[ROUTE] = (200, REPLY)

    cli(
        "run",
        "--score",
        "a: How? = x < y",
        "smollm2",
        "--yes-no=b: Now?",
        "the state",
        "--choice",
        "c: Which? = x | y",
        "--yes-no",
        "d: Later?",
        "Plain?",
        "--score",
        "e: How? = x < y",
    )

    (body,) = daemon.bodies(ROUTE)
    assert ["a", "b", "c", "d", "e", "Plain?"] == list(body["questions"])
    assert ("smollm2", "the state") == (body["model"], body["state"])


def test_human(cli: Cli, daemon: Any) -> None:
    """Answers in the reply's order, on stdout alone."""
    daemon.replies[ROUTE] = (200, REPLY)

    shown = cli("run", "smollm2", "text", "--yes-no", "urgent: Now?", "--choice", "team: Which? = billing | sales")

    assert (0, "") == (shown.code, shown.err)
    lines = shown.out.splitlines()
    assert ["urgent: yes (90.0%)", "team: billing (confidence 0.19)"] == [line for line in lines if line[:1].strip()]
    assert 2 + 2 + 2 + 1 == len(lines)


def test_json_is_the_reply_as_it_is(cli: Cli, daemon: Any) -> None:
    """--json prints the daemon's bytes, spelling of numbers included."""
    raw = b'{"model":"m","answers":{"u":{"type":"noul","noul":0.10}},"usage":{}}'
    daemon.replies[ROUTE] = (200, raw)

    assert raw.decode() + "\n" == cli("run", "m", "text", "Now?", "--json").out


def test_quiet(cli: Cli, daemon: Any) -> None:
    """--quiet prints one bare answer a line."""
    daemon.replies[ROUTE] = (200, REPLY)

    shown = cli("run", "m", "text", "Now?", "--quiet")

    assert ("yes\nbilling\n", "") == (shown.out, shown.err)


def test_verbose(cli: Cli, daemon: Any) -> None:
    """--verbose adds how it was read, on stderr."""
    daemon.replies[ROUTE] = (200, REPLY)

    shown = cli("run", "m", "text", "Now?", "-v")

    assert "model: smollm2, input tokens: 42\nurgent: readout yesno\n" == shown.err


def test_state_from_a_pipe(cli: Cli, daemon: Any) -> None:
    """What is piped in is the state."""
    daemon.replies[ROUTE] = (200, REPLY)

    cli("run", "m", "--yes-no", "urgent: Now?", stdin="Zeile eins\nZeile zwölf\n".encode())

    assert "Zeile eins\nZeile zwölf" == daemon.bodies(ROUTE)[0]["state"]


def test_request_on_a_pipe(cli: Cli, daemon: Any) -> None:
    """`--file -` sends the request that is piped in."""
    daemon.replies[ROUTE] = (200, REPLY)
    request = {"model": "m", "state": {"a": 1}, "questions": {"u": {"type": "noul", "instructions": "Now?"}}}

    cli("run", "--file", "-", stdin=json.dumps(request).encode())

    assert [request] == daemon.bodies(ROUTE)


def test_options_reach_the_wire(cli: Cli, daemon: Any, tmp_path: Path) -> None:
    """--keepalive, --exact and --image are sent."""
    daemon.replies[ROUTE] = (200, REPLY)
    (tmp_path / "a.png").write_bytes(b"x")

    cli("run", "m", "s", "Now?", "--keepalive", "-1", "--exact", "--image", str(tmp_path / "a.png"))

    (body,) = daemon.bodies(ROUTE)
    assert ("-1", {"exact": True}, ["eA=="]) == (body["keep_alive"], body["options"], body["images"])


def test_refusal_of_the_daemon(cli: Cli, daemon: Any) -> None:
    """A refused request fails with 1, the daemon's words on stderr and nothing on stdout."""
    daemon.replies[ROUTE] = (400, {"error": 'prompt for question "u" has 5120 tokens; the model\'s context is 4096'})

    shown = cli("run", "m", "s", "Now?", "--json")

    assert (1, "") == (shown.code, shown.out)
    assert "has 5120 tokens" in shown.err


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that knows the model kev."""
    (tmp_path / "library" / "kev").mkdir(parents=True)
    (tmp_path / "library" / "kev" / "Modelfile").write_text("FROM hf.co/a/b\n")
    monkeypatch.setattr("localdecide.paths.library", lambda: tmp_path / "library")


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_a_library_model_is_pulled_first(cli: Cli, daemon: Any, flags: list[str]) -> None:
    """A model that the library knows and this machine lacks is pulled, with progress on stderr only."""
    daemon.replies[ROUTE] = [(404, {"error": "model 'kev:q8' not found"}), (200, REPLY)]
    daemon.replies["POST /api/pull"] = (200, [{"status": "pulling manifest"}, {"status": "success"}])

    shown = cli("run", "kev:q8", "s", "Now?", *flags)

    assert 0 == shown.code
    assert [{"model": "kev:q8"}] == daemon.bodies("POST /api/pull")
    assert "kev:q8 is not here yet; pulling it\npulling manifest\nsuccess\n" == shown.err
    assert not flags or json.loads(shown.out) == REPLY
    assert 2 == len(daemon.bodies(ROUTE))


@pytest.mark.usefixtures("library")
def test_an_unknown_model_is_not_pulled(cli: Cli, daemon: Any) -> None:
    """A name that nobody knows fails at once."""
    daemon.replies[ROUTE] = (404, {"error": "model 'smol' not found"})

    shown = cli("run", "smol", "s", "Now?")

    assert 1 == shown.code
    assert "error: model 'smol' not found" in shown.err
    assert [] == daemon.bodies("POST /api/pull")


@pytest.mark.usefixtures("library")
def test_a_pull_that_fails(cli: Cli, daemon: Any) -> None:
    """If the pull fails, its error is what the user reads."""
    daemon.replies[ROUTE] = (404, {"error": "model 'kev' not found"})
    daemon.replies["POST /api/pull"] = (200, [{"error": "hf.co cannot be reached"}])

    shown = cli("run", "kev", "s", "Now?")

    assert 1 == shown.code
    assert "error: hf.co cannot be reached" in shown.err
    assert 1 == len(daemon.bodies(ROUTE))


@pytest.mark.usefixtures("library")
def test_completion_knows_library_and_store(tmp_path: Path) -> None:
    """Model names complete from the manifests on disk and the library, without a daemon."""
    for path in ("registry.ollama.ai/library/keen/latest", "hf.co/org/kelp-GGUF/Q4_K_M"):
        manifest = tmp_path / "models" / "manifests" / path
        manifest.parent.mkdir(parents=True)
        manifest.write_text("{}")

    assert ["keen:latest", "kev"] == model_names("ke")
    assert ["hf.co/org/kelp-GGUF:Q4_K_M"] == model_names("hf")
