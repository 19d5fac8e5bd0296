"""list, ps, show, stop, rm, cp, create, pull and shutdown against the fake daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localdecide.cli.ps import processor, until

Cli = Callable[..., Any]

NOW = datetime.now(UTC)
DIGEST = "0123456789abcdef" * 4
SMOL = {
    "name": "smollm2:latest",
    "model": "smollm2:latest",
    "digest": DIGEST,
    "size": 94_400_000,
    "modified_at": (NOW - timedelta(days=3, minutes=1)).isoformat(),
}
NIMBLE = SMOL | {"name": "Nimble:9b", "size": 9_500_000_000, "digest": "f" * 64}
LOADED = SMOL | {
    "size": 210_000_000,
    "size_vram": 0,
    "context_length": 8192,
    "expires_at": (NOW + timedelta(minutes=4, seconds=50)).isoformat(),
}


def test_list(cli: Cli, daemon: Any) -> None:
    """The columns are NAME ID SIZE MODIFIED."""
    daemon.replies["GET /api/tags"] = (200, {"models": [SMOL, NIMBLE]})

    shown = cli("list")

    assert (0, "") == (shown.code, shown.err)
    assert [
        "NAME              ID              SIZE      MODIFIED",
        "smollm2:latest    0123456789ab    94 MB     3 days ago",
        "Nimble:9b         ffffffffffff    9.5 GB    3 days ago",
    ] == shown.out.splitlines()


def test_list_forms(cli: Cli, daemon: Any) -> None:
    """ls is list; a prefix filters without regard to case; --json and --quiet change the form."""
    daemon.replies["GET /api/tags"] = (200, {"models": [SMOL, NIMBLE]})

    assert "smollm2" not in cli("ls", "nim").out
    assert {"models": [NIMBLE]} == json.loads(cli("ls", "NIMBLE", "--json").out)
    assert "smollm2:latest\nNimble:9b\n" == cli("list", "-q").out


def test_ps(cli: Cli, daemon: Any) -> None:
    """The columns are NAME ID SIZE PROCESSOR CONTEXT UNTIL."""
    soon = (datetime.now(UTC) + timedelta(minutes=4, seconds=50)).isoformat()
    models = [LOADED | {"expires_at": soon}, LOADED | {"name": "b:1", "expires_at": None}]
    daemon.replies["GET /api/ps"] = (200, {"models": models})

    shown = cli("ps")

    assert [
        "NAME              ID              SIZE      PROCESSOR    CONTEXT    UNTIL",
        "smollm2:latest    0123456789ab    210 MB    100% CPU     8192       4 minutes from now",
        "b:1               0123456789ab    210 MB    100% CPU     8192       Forever",
    ] == shown.out.splitlines()
    assert {"models": []} == json.loads(cli("ps", "--json", "none-such").out)


def test_ps_empty(cli: Cli, daemon: Any) -> None:
    """With nothing loaded only the header is printed."""
    daemon.replies["GET /api/ps"] = (200, {"models": []})

    assert "NAME    ID    SIZE    PROCESSOR    CONTEXT    UNTIL\n" == cli("ps").out


@pytest.mark.parametrize(
    ("size", "vram", "text"),
    [(100, 0, "100% CPU"), (100, 100, "100% GPU"), (100, 52, "48%/52% CPU/GPU"), (0, 0, "100% CPU")],
)
def test_processor(size: int, vram: int, text: str) -> None:
    """Where a model lies."""
    assert text == processor(size, vram)


@pytest.mark.parametrize(
    ("state", "seconds", "text"),
    [
        ("ready", 100, "1 minute from now"),
        ("ready", -9, "Stopping..."),
        ("stopping", 100, "Stopping..."),
        ("loading", 100, "Loading..."),
    ],
)
def test_until(state: str, seconds: int, text: str) -> None:
    """A model on its way in or out says so; one whose time is over is on its way out."""
    assert text == until({"state": state, "expires_at": (NOW + timedelta(seconds=seconds)).isoformat()}, NOW)


SHOWN = {
    "license": "Apache License\nVersion 2.0\nmore",
    "modelfile": "FROM /blobs/x\nPARAMETER num_ctx 4096\n",
    "parameters": "num_ctx    4096",
    "template": "{{ messages }}",
    "system": "Be just.",
    "details": {"family": "llama", "parameter_size": "134.52M", "quantization_level": "Q4_K_M"},
    "model_info": {"general.architecture": "llama", "llama.context_length": 8192, "llama.embedding_length": 576},
    "capabilities": ["decision"],
    "description": "Small.",
    "decision": {
        "family": "plain",
        "readouts": {"choice": {"name": "text", "temperature": 4.0}, "noul": {"name": "yesno", "temperature": None}},
        "temperatures": {"score": 1.5},
        "labels": {"noul": ["Yes", "No"]},
        "attention": "causal",
    },
    "tensors": [{"name": "output.weight", "type": "F16", "shape": [576, 49152]}],
}


def test_show(cli: Cli, daemon: Any) -> None:
    """Sections with their facts, the licence cut after two lines."""
    daemon.replies["POST /api/show"] = (200, SHOWN)

    shown = cli("show", "smollm2")

    assert [
        "  Model",
        "    architecture        llama",
        "    parameters          134.52M",
        "    context length      8192",
        "    embedding length    576",
        "    quantization        Q4_K_M",
        "",
        "  Description",
        "    Small.",
        "",
        "  Capabilities",
        "    decision",
        "",
        "  Decisions",
        "    family                  plain",
        "    choice                  text, temperature 4.0",
        "    noul                    yesno",
        '    labels of noul          ["Yes", "No"]',
        "    temperature of score    1.5",
        "    attention               causal",
        "",
        "  Parameters",
        "    num_ctx    4096",
        "",
        "  System",
        "    Be just.",
        "",
        "  License",
        "    Apache License",
        "    Version 2.0",
        "    ...",
    ] == shown.out.rstrip("\n").splitlines()
    assert {"model": "smollm2", "verbose": False, "reading": True} == daemon.bodies("POST /api/show")[0]


def test_show_loaded(cli: Cli, daemon: Any) -> None:
    """Of a loaded model it shows how the runner reads it and why it runs as it does."""
    loaded = {
        "reading": {
            "prompt": "SGLang decisions, format version 1",
            "readouts": {"choice": {"readout": "text", "temperature": 4.0, "source": "Modelfile"}},
            "labels": {"noul": "yes, no"},
        },
        "engine": {"threads": 2, "kv_cache_type": "f16", "reasons": {"num_thread": "physical cores"}},
    }
    daemon.replies["POST /api/show"] = (200, SHOWN | {"loaded": loaded})

    shown = cli("show", "smollm2").out

    assert (
        "\n".join(
            [
                "  Decisions",
                "    family            plain",
                "    prompt            SGLang decisions, format version 1",
                "    choice            text, temperature 4.0 (Modelfile)",
                "    labels of noul    yes, no",
                "    attention         causal",
                "",
                "  Loaded",
                "    threads          2 (physical cores)",
                "    kv cache type    f16",
                "",
            ]
        )
        in shown
    )


@pytest.mark.parametrize("part", ["license", "modelfile", "parameters", "template", "system"])
def test_show_one_part(cli: Cli, daemon: Any, part: str) -> None:
    """One part is printed as it is, alone, so that it can be put into a file."""
    daemon.replies["POST /api/show"] = (200, SHOWN)

    assert str(SHOWN[part]).rstrip("\n") + "\n" == cli("show", "smollm2", f"--{part}").out
    assert {part: SHOWN[part]} == json.loads(cli("show", "smollm2", f"--{part}", "--json").out)


def test_show_verbose_and_json(cli: Cli, daemon: Any) -> None:
    """-v asks for everything and adds metadata and tensors; --json is the reply."""
    daemon.replies["POST /api/show"] = (200, SHOWN)

    verbose = cli("show", "smollm2", "-v").out

    assert "    llama.context_length      8192" in verbose
    assert "    output.weight    F16    [576, 49152]" in verbose
    assert daemon.bodies("POST /api/show")[0]["verbose"] is True
    assert SHOWN == json.loads(cli("show", "smollm2", "--json").out)


def test_show_unknown(cli: Cli, daemon: Any) -> None:
    """A model that is not here fails with the daemon's words."""
    daemon.replies["POST /api/show"] = (404, {"error": "model 'smol' not found, did you mean smollm2?"})

    shown = cli("show", "smol")

    assert (1, "") == (shown.code, shown.out)
    assert "error: model 'smol' not found, did you mean smollm2?\n" in shown.err


def test_stop(cli: Cli, daemon: Any) -> None:
    """stop unloads without a word."""
    daemon.replies["POST /api/generate"] = (200, {"done": True, "done_reason": "unload"})

    shown = cli("stop", "smollm2")

    assert (0, "", "") == (shown.code, shown.out, shown.err)
    assert [{"model": "smollm2", "keep_alive": 0}] == daemon.bodies("POST /api/generate")


def test_stop_unknown(cli: Cli, daemon: Any) -> None:
    """A model that is not there cannot be stopped."""
    daemon.replies["POST /api/generate"] = (404, {"error": "model 'x' not found"})

    shown = cli("stop", "x")

    assert 1 == shown.code
    assert 'error: couldn\'t find model "x" to stop' in shown.err


def test_rm(cli: Cli, daemon: Any) -> None:
    """rm unloads and deletes each, and ends at the first that fails."""
    daemon.replies["POST /api/generate"] = (404, {"error": "model not found"})
    daemon.replies["DELETE /api/delete"] = [(200, b""), (404, {"error": "model 'b' not found"})]

    shown = cli("rm", "a", "b", "c")

    assert (1, "") == (shown.code, shown.out)
    assert shown.err.startswith("deleted 'a'\nerror: model 'b' not found\n")
    assert [{"model": "a"}, {"model": "b"}] == daemon.bodies("DELETE /api/delete")


def test_cp(cli: Cli, daemon: Any) -> None:
    """cp copies and says so on stderr."""
    daemon.replies["POST /api/copy"] = (200, b"")

    shown = cli("cp", "a", "b")

    assert (0, "", "copied 'a' to 'b'\n") == (shown.code, shown.out, shown.err)
    assert [{"source": "a", "destination": "b"}] == daemon.bodies("POST /api/copy")


def test_create(cli: Cli, daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """create sends the Modelfile and the folder its paths are relative to; the default name is ./Modelfile."""
    daemon.replies["POST /api/create"] = (200, [{"status": "writing manifest"}, {"status": "success"}])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Modelfile").write_bytes("\ufeffFROM ./é.gguf\n".encode())

    shown = cli("create", "mine")

    assert (0, "", "writing manifest\nsuccess\n") == (shown.code, shown.out, shown.err)
    expected = {"model": "mine", "modelfile": "FROM ./é.gguf\n", "directory": str(tmp_path)}
    assert [expected] == daemon.bodies("POST /api/create")


def test_create_from_elsewhere(cli: Cli, daemon: Any, tmp_path: Path) -> None:
    """-f names any file, UTF-16 too, or standard input."""
    daemon.replies["POST /api/create"] = (200, [{"status": "success"}])
    (tmp_path / "x").write_bytes("FROM a\n".encode("utf-16"))

    cli("create", "mine", "-f", str(tmp_path / "x"))
    cli("create", "mine", "-f", "-", stdin=b"FROM b\n")

    first, second = daemon.bodies("POST /api/create")
    assert ("FROM a\n", str(tmp_path)) == (first["modelfile"], first["directory"])
    assert ("FROM b\n", str(Path.cwd())) == (second["modelfile"], second["directory"])


def test_pull_prints_tenths(cli: Cli, daemon: Any) -> None:
    """Where stderr is no terminal, each tenth of a layer is one line and nothing goes to stdout."""
    layer = {"status": "pulling 0123456789ab", "digest": "sha256:0123", "total": 1000}
    events = [{"status": "pulling manifest"}, layer, *(layer | {"completed": n} for n in range(0, 1001, 5))]
    daemon.replies["POST /api/pull"] = (200, [*events, {"status": "success"}])

    shown = cli("pull", "kev")

    assert (0, "") == (shown.code, shown.out)
    lines = shown.err.splitlines()
    assert ["pulling manifest", "pulling 0123456789ab:   0% 0 B/1.0 KB"] == lines[:2]
    assert "pulling 0123456789ab: 100% 1.0 KB/1.0 KB" == lines[-2]
    assert 1 + 11 + 1 == len(lines)


def test_pull_json(cli: Cli, daemon: Any) -> None:
    """--json prints the events as they come, one a line."""
    events = [{"status": "pulling manifest"}, {"status": "success"}]
    daemon.replies["POST /api/pull"] = (200, events)

    assert events == [json.loads(line) for line in cli("pull", "kev", "--json").out.splitlines()]


def test_pull_fails_mid_way(cli: Cli, daemon: Any) -> None:
    """An error line inside the stream is a failure although the status was 200."""
    daemon.replies["POST /api/pull"] = (200, [{"status": "pulling manifest"}, {"error": "needs 9 GB, 3 GB are free"}])

    shown = cli("pull", "kev", "--quiet")

    assert (1, "", "error: needs 9 GB, 3 GB are free\n") == (shown.code, shown.out, shown.err)


def test_shutdown_without_a_daemon(cli: Cli, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """Ending what is not there is no failure, and starts nothing."""
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")
    monkeypatch.delenv("LOCALDECIDE_NO_AUTOSTART")

    shown = cli("shutdown")

    assert (0, "") == (shown.code, shown.out)
    assert "there is none to end" in shown.err


def test_show_of_what_cannot_be_read(cli: Cli, daemon: Any) -> None:
    """Of a model that would be refused it shows the reason; of one that is not loaded, how it would be read."""
    refused = {"described": {"error": "LABELS: the plain family has none to replace"}}
    described = {"described": {"family": "clef", "joint": True, "reading": {"prompt": "the template in the file"}}}
    shown = []
    for said in (refused, described):
        daemon.replies["POST /api/show"] = (200, SHOWN | said)
        shown.append({" ".join(line.split()) for line in cli("show", "smollm2").out.splitlines()})

    assert "refused LABELS: the plain family has none to replace" in shown[0]
    assert {"family clef", "prompt the template in the file"} <= shown[1]
    assert "answers depend on all questions of a request" in shown[1]
