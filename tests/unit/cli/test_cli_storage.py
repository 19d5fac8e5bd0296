"""pull with options, push, search, export, import, verify, prune and du against the fake daemon."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localdecide.cli.client import Client
from localdecide.cli.output import Output
from localdecide.cli.pull import pull

Cli = Callable[..., Any]

DONE = (200, [{"status": "working"}, {"status": "success"}])


def test_pull_options(cli: Cli, daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Options become fields; a path becomes absolute, for the daemon has another working directory."""
    daemon.replies["POST /api/pull"] = DONE
    monkeypatch.chdir(tmp_path)
    Path("m.gguf").write_bytes(b"")

    cli("pull", "hf.co/o/r:Q8_0", "--as", "mine", "--refresh", "--insecure")
    cli("pull", "./m.gguf")
    cli("pull", "m.gguf")
    cli("pull", "kev")

    assert [
        {"model": "hf.co/o/r:Q8_0", "as": "mine", "refresh": True, "insecure": True},
        {"model": str(tmp_path / "m.gguf")},
        {"model": str(tmp_path / "m.gguf")},
        {"model": "kev"},
    ] == daemon.bodies("POST /api/pull")


def test_an_interrupted_pull() -> None:
    """Ctrl-C says that nothing is lost, and still ends the command as an interruption."""

    class Interrupted(Client):
        def stream(self, *_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

    said = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        pull(Interrupted.__new__(Interrupted), "kev", Output("human", io.StringIO(), said))

    assert "stopped; what has arrived stays, and the same command goes on from there\n" == said.getvalue()


def test_push(cli: Cli, daemon: Any) -> None:
    """--from gives the model its second name first."""
    daemon.replies["POST /api/push"] = DONE
    daemon.replies["POST /api/copy"] = (200, b"")

    shown = cli("push", "host:5000/me/m", "--from", "m", "--insecure")

    assert 0 == shown.code
    assert [{"source": "m", "destination": "host:5000/me/m"}] == daemon.bodies("POST /api/copy")
    assert [{"model": "host:5000/me/m", "insecure": True}] == daemon.bodies("POST /api/push")


def test_export_and_import(cli: Cli, daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are sent as absolute paths."""
    daemon.replies["POST /api/export"] = daemon.replies["POST /api/import"] = DONE
    monkeypatch.chdir(tmp_path)

    assert 0 == cli("export", "m", "m.tar", "--force").code
    assert 0 == cli("import", "m.tar", "--as", "n").code
    assert 0 == cli("import", "m.tar").code

    path = str(tmp_path / "m.tar")
    assert [{"model": "m", "file": path, "overwrite": True}] == daemon.bodies("POST /api/export")
    assert [{"file": path, "model": "n"}, {"file": path}] == daemon.bodies("POST /api/import")


def test_verify(cli: Cli, daemon: Any) -> None:
    """All models or one; what the daemon finds damaged ends the command with 1."""
    done = {"status": "success", "checked": 3, "repaired": 1}
    daemon.replies["POST /api/verify"] = [(200, [done]), (200, [{"status": "damaged"}, {"error": "still damaged: m"}])]

    good, bad = cli("verify"), cli("verify", "m", "--no-repair")

    assert (0, 1) == (good.code, bad.code)
    assert "success\n3 files are sound, 1 of them got anew\n" == good.err
    assert "error: still damaged: m" in bad.err
    assert [{"repair": True, "insecure": False}, {"repair": False, "insecure": False, "model": "m"}] == daemon.bodies(
        "POST /api/verify"
    )


FOUND = [
    {"status": "unused sha256:0", "digest": "sha256:0", "size": 5_000_000},
    {"status": "unfinished sha256-1", "done": 10, "total": 20_000, "size": 10, "age": 7200.0, "kept": True}
    | {"source": "example.com"},
]


def test_prune(cli: Cli, daemon: Any) -> None:
    """Shown by default, removed with --apply; unfinished downloads with their age."""
    last = {"status": "success", "freed": 5_000_000, "applied": False}
    daemon.replies["POST /api/prune"] = [(200, [*FOUND, last])] + 2 * [(200, [*FOUND, last | {"applied": True}])]

    dry = cli("prune")
    wet = cli("prune", "--apply", "--partials", "--older", "24h", "--json")
    cli("prune", "--apply")

    assert [
        "unused sha256:0: 5.0 MB",
        "unfinished sha256-1 from example.com: 10 B of 20 KB, untouched for 2 hours",
    ] == dry.out.splitlines()
    assert "5.0 MB could be freed; `localdecide prune --apply` does it\n" == dry.err
    assert {"found": FOUND, "freed": 5_000_000, "applied": True} == json.loads(wet.out)
    assert [
        {"apply": False, "partials": False, "older": 0.0},
        {"apply": True, "partials": True, "older": 86400.0},
        {"apply": True, "partials": False, "older": 0.0},
    ] == daemon.bodies("POST /api/prune")
    assert 2 == cli("prune", "--older", "soon").code


def test_du(cli: Cli, daemon: Any) -> None:
    """A table of models; the whole on stderr; one number with --quiet."""
    reply = {
        "root": "/m",
        "models": [{"name": "a:latest", "size": 2_000_000, "own": 1_000}],
        "blobs": 2_000_000,
        "unused": 500,
        "derived": 1_000_000,
        "partials": [{"size": 7}],
        "free": 10**9,
    }
    daemon.replies["GET /api/du"] = (200, reply)

    shown = cli("du")

    assert ["NAME        SIZE      OWN", "a:latest    2.0 MB    1.0 KB"] == shown.out.splitlines()
    assert "2.0 MB in /m, 500 B of it unused, 1.0 MB of faster copies, 7 B unfinished, 1.0 GB free\n" == shown.err
    assert "3000007\n" == cli("du", "-q").out
    assert reply == json.loads(cli("du", "--json").out)


def test_search(cli: Cli, daemon: Any) -> None:
    """One row a tag; words are joined and quoted."""
    entry = {
        "name": "kev",
        "description": "Decides. Fast.",
        "family": "kev",
        "license": "Apache-2.0",
        "tags": [{"name": "kev:latest", "source": "hf.co/o/r", "size": 3 * 10**9}, {"name": "kev:x", "size": None}],
        "installed": ["kev:latest"],
    }
    daemon.replies["GET /api/search?q="] = (200, {"models": []})
    daemon.replies["GET /api/search?q=k%C3%A4v%20fast"] = (200, {"models": [entry]})

    shown = cli("search", "käv", "fast")

    assert [
        "NAME          SIZE      HERE    LICENSE       WHAT",
        "kev:latest    3.0 GB    yes     Apache-2.0    Decides",
        "kev:x         -                 Apache-2.0",
    ] == shown.out.splitlines()
    assert "kev:latest\nkev:x\n" == cli("search", "käv", "fast", "-q").out
    assert "nothing in the library fits" in cli("search").err


def test_list_of_ollama(cli: Cli, daemon: Any) -> None:
    """--ollama shows what Ollama has."""
    row = {"name": "n:9b", "digest": "f" * 64, "size": 10, "modified_at": "2026-01-01T00:00:00Z"}
    daemon.replies["GET /api/ollama"] = (200, {"models": [row]})

    assert "n:9b\n" == cli("list", "--ollama", "-q").out


def test_create_on_another_machine(cli: Cli, daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are sent as blobs, once, and named by their digest; names of models stay names."""
    data, head = b"weights" * 1000, b"head"
    (tmp_path / "m.gguf").write_bytes(data)
    (tmp_path / "h.gguf").write_bytes(head)
    (tmp_path / "Modelfile").write_text("FROM ./m.gguf\nHEAD h.gguf\nSYSTEM x\n")
    digests = [f"sha256:{hashlib.sha256(each).hexdigest()}" for each in (data, head)]
    daemon.replies[f"HEAD /api/blobs/{digests[0]}"] = (404, b"")
    daemon.replies[f"POST /api/blobs/{digests[0]}"] = (201, b"")
    daemon.replies[f"HEAD /api/blobs/{digests[1]}"] = (200, b"")
    daemon.replies["POST /api/create"] = DONE
    monkeypatch.setattr("localdecide.cli.client.Client.__init__", elsewhere)

    shown = cli("create", "m", "-f", str(tmp_path / "Modelfile"))

    assert 0 == shown.code, shown.err
    assert [data] == daemon.bodies(f"POST /api/blobs/{digests[0]}")
    (request,) = daemon.bodies("POST /api/create")
    assert {"model": "m", "modelfile": f"FROM {digests[0]}\nHEAD {digests[1]}\nSYSTEM x\n"} == request


def test_create_on_another_machine_from_a_folder(
    cli: Cli, daemon: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is not sent; the error says what is."""
    (tmp_path / "Modelfile").write_text("FROM .\n")
    monkeypatch.setattr("localdecide.cli.client.Client.__init__", elsewhere)

    shown = cli("create", "m", "-f", str(tmp_path / "Modelfile"))

    assert 2 == shown.code
    assert "is a folder" in shown.err


_init = Client.__init__


def elsewhere(self: Client, settings: Any) -> None:
    """A client that takes the daemon for one on another machine."""
    _init(self, settings)
    self.local = False
