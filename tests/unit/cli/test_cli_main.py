"""The command as a whole: its imports, its help, its exit codes."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from localdecide import __version__
from localdecide.cli.main import ALIASES, COMMANDS
from localdecide.settings import TABLE

HEAVY = ("fastapi", "pydantic", "numpy", "llama_cpp", "httpx", "rich", "uvicorn", "filelock", "http.client")

Cli = Callable[..., Any]


def loaded_after(code: str) -> set[str]:
    """The modules a fresh interpreter holds after `code`."""
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


def test_start_loads_nothing_heavy() -> None:
    """Importing the command loads none of the libraries that would make it slow to start."""
    assert set() == loaded_after("import localdecide.cli.main") & set(HEAVY)


def test_no_command_file_loads_anything_heavy() -> None:
    """Nor does importing every command's file, which completion and --help of a command do."""
    code = "\n".join(f"__import__('localdecide.cli.{name}')" for name in COMMANDS)

    assert set() == loaded_after(code) & set(HEAVY)


def test_the_command_never_loads_the_daemon() -> None:
    """Nothing of the daemon or a runner is imported by the command's files."""
    code = "\n".join(f"__import__('localdecide.cli.{name}')" for name in COMMANDS)
    rooms = {name.split(".")[1] for name in loaded_after(code) if name.startswith("localdecide.")}

    assert set() == rooms - {"cli", "core", "settings", "paths"}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_every_command(cli: Cli, name: str) -> None:
    """Each command has a help page that begins with the sentence of the table, as its docstring does."""
    shown = cli(name, "--help")

    assert (0, "") == (shown.code, shown.err)
    assert COMMANDS[name] in shown.out
    assert COMMANDS[name] == importlib.import_module(f"localdecide.cli.{name}").command.__doc__.splitlines()[0]


def test_help_lists_every_command(cli: Cli) -> None:
    """The overview shows every command with its whole sentence, and no alias."""
    shown = cli("--help")

    assert 0 == shown.code
    for name, sentence in COMMANDS.items():
        assert f"  {name} " in shown.out
        assert sentence in shown.out
    for alias in ALIASES:
        assert f"  {alias} " not in shown.out


def test_serve_help_holds_the_settings(cli: Cli) -> None:
    """`serve --help` prints every setting with its sentence and default."""
    shown = cli("serve", "--help").out

    for setting in TABLE:
        line = next(line for line in shown.splitlines() if line.strip().startswith(f"{setting.variable} "))
        assert setting.sentence in line
        assert not setting.default or f"[default: {setting.default}]" in line


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["bogus"], 2, "No such command 'bogus'"),
        (["list", "--bogus"], 2, "No such option: --bogus"),
        (["show"], 2, "Missing argument 'MODEL'"),
        (["show", "m", "--license", "--system"], 2, "error: only one of --license and --system"),
        (["run", "m", "s", "--choice", "team: Which?"], 2, "hint: write it like --choice 'team:"),
        (["run", "m", "s", "--choice"], 2, "requires an argument"),
        (["run", "m", "--yes-no", "Urgent?"], 2, "error: there is no state to judge"),
        (["run", "m", "s", "--json"], 2, "error: there is no question to answer"),
        (["run", "m", "s"], 2, "error: there is no question to answer"),
        (["run", "--file", "/nothing/there.json"], 1, "error: No such file or directory: /nothing/there.json"),
        (["create", "x", "-f", "/nothing/Modelfile"], 2, "error: there is no Modelfile at /nothing/Modelfile"),
    ],
)
def test_wrong_calls(cli: Cli, arguments: list[str], code: int, said: str) -> None:
    """A call that makes no sense exits with 2, says why on stderr and prints no data."""
    shown = cli(*arguments)

    assert (code, "") == (shown.code, shown.out)
    assert said in shown.err


def test_bad_setting(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that cannot be read is named."""
    monkeypatch.setenv("LOCALDECIDE_HOST", "127.0.0.1:none")

    shown = cli("ps")

    assert (2, "") == (shown.code, shown.out)
    assert "LOCALDECIDE_HOST" in shown.err


@pytest.mark.parametrize("arguments", [["ps"], ["list"], ["show", "m"], ["rm", "m"], ["stop", "m"]])
def test_no_daemon(cli: Cli, monkeypatch: pytest.MonkeyPatch, free_port: int, arguments: list[str]) -> None:
    """Without a daemon, and forbidden to start one, a command fails with 1 and names the address."""
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")

    shown = cli(*arguments)

    assert (1, "") == (shown.code, shown.out)
    assert f"error: no daemon answers at 127.0.0.1:{free_port}" in shown.err


def test_surprise(cli: Cli, daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug is one line that says how to see more, and a traceback when asked for."""
    daemon.replies["GET /api/ps"] = (200, {})

    shown = cli("ps")

    assert (1, "") == (shown.code, shown.out)
    assert "error: something unexpected went wrong: KeyError: 'models'" in shown.err
    assert "Traceback" not in shown.err


def test_version_of_the_daemon(cli: Cli, daemon: Any) -> None:
    """--version tells the daemon's version, and this program's where they differ."""
    daemon.replies["GET /api/version"] = [(200, {"version": __version__}), (200, {"version": "9.9.9"})]

    same, other = cli("--version"), cli("-v")

    assert (0, f"localdecide version is {__version__}\n", "") == (same.code, same.out, same.err)
    assert (0, "localdecide version is 9.9.9\n") == (other.code, other.out)
    assert f"Warning: client version is {__version__}\n" == other.err


def test_version_without_a_daemon(cli: Cli, monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """--version works without a daemon and starts none."""
    monkeypatch.setenv("LOCALDECIDE_HOST", f"127.0.0.1:{free_port}")
    monkeypatch.delenv("LOCALDECIDE_NO_AUTOSTART")

    shown = cli("--version")

    assert (0, f"localdecide client version is {__version__}\n") == (shown.code, shown.out)
    assert "could not connect" in shown.err


@pytest.mark.parametrize(
    ("typed", "offered", "not_offered"),
    [
        ("localdecide s", ["serve", "show", "stop", "shutdown"], ["start"]),
        ("localdecide run --k", ["--keepalive"], ["--file"]),
        ("localdecide show smo", ["smollm2"], ["kev"]),
    ],
)
def test_shell_completion(typed: str, offered: list[str], not_offered: list[str]) -> None:
    """Tab completes commands, options and model names."""
    environment = os.environ | {
        "_LOCALDECIDE_COMPLETE": "complete_bash",
        "COMP_WORDS": typed,
        "COMP_CWORD": str(typed.count(" ")),
    }
    command = [sys.executable, "-m", "localdecide.cli.main"]

    words = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.split()

    assert set(offered) <= set(words)
    assert not set(not_offered) & set(words)
