"""The terminal from end to end: the installed command, a daemon it starts itself, the real default model."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "localdecide.cli.main"]
STATE = "My card was charged twice for one order."
QUESTIONS = [
    *("--choice", "team: Which team? = billing: payments and refunds | technical: bugs | sales"),
    *("--yes-no", "urgent: Needs an answer today"),
    *("--score", "tone: How upset? = calm < annoyed < furious"),
]


@dataclass(frozen=True)
class Home:
    """A user of this machine with folders, a port and settings of their own."""

    folder: Path
    port: int

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LOCALDECIDE_")}
        folders = {f"XDG_{name}_HOME": str(self.folder / name.lower()) for name in ("DATA", "STATE", "CACHE")}
        return (
            kept
            | folders
            | {
                "HOME": str(self.folder),
                "LOCALDECIDE_HOST": f"127.0.0.1:{self.port}",
                "LOCALDECIDE_MODELS": str(self.folder / "modèles et plus"),
            }
        )

    def run(self, *arguments: str, stdin: str | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """One command with pipes for its three streams; `settings` are further variables."""
        return subprocess.run(
            [*COMMAND, *arguments],
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            encoding="utf-8",
            env=self.environment | settings,
            timeout=120,
        )

    def listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    @property
    def traces(self) -> list[str]:
        """Names of the pid files that are there."""
        return sorted(path.name for path in self.folder.rglob("server-*.pid"))


def home_in(folder: Path) -> Home:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return Home(folder, int(server.getsockname()[1]))


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, subprocess.CompletedProcess[str]]]:
    """A home in which nothing runs yet, and the outcome of the first command ever typed there."""
    home = home_in(tmp_path_factory.mktemp("home"))
    yield home, home.run("run", "smollm2", STATE, *QUESTIONS)
    home.run("shutdown")


@pytest.fixture
def home(first: tuple[Home, subprocess.CompletedProcess[str]]) -> Home:
    """The home whose daemon the first command started."""
    return first[0]


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Home]:
    """A home of this test's own, whose daemon is ended afterwards."""
    home = home_in(tmp_path)
    yield home
    home.run("shutdown")


def test_first_command(first: tuple[Home, subprocess.CompletedProcess[str]]) -> None:
    """The first command starts a daemon, says where its log is, and answers three questions in their order."""
    home, shown = first

    assert 0 == shown.returncode, shown.stderr
    assert f"starting a daemon at 127.0.0.1:{home.port}; its log is " in shown.stderr
    log = Path(shown.stderr.partition("its log is ")[2].splitlines()[0])
    assert "POST /v1/systemone" in log.read_text()
    answers = [line for line in shown.stdout.splitlines() if line and not line.startswith(" ")]
    assert ["team", "urgent", "tone"] == [line.partition(":")[0] for line in answers]
    assert answers[0].startswith("team: billing (confidence 0.")
    assert "\x1b" not in shown.stdout
    assert 3 + 2 + 3 == sum(line.startswith("  ") and line.endswith("%") for line in shown.stdout.splitlines())


def test_second_command_uses_it(home: Home) -> None:
    """The next command starts nothing, takes the state from a pipe and prints the raw reply with --json."""
    shown = home.run("run", *QUESTIONS, "--json", stdin=STATE + "\n")

    assert (0, "") == (shown.returncode, shown.stderr)
    reply = json.loads(shown.stdout)
    assert ["team", "urgent", "tone"] == list(reply["answers"])
    assert "billing" == reply["answers"]["team"]["choice"]
    assert pytest.approx(1.0) == sum(reply["answers"]["tone"]["probabilities"].values())


def test_same_question_same_bytes(home: Home) -> None:
    """A pipe, a file and words give the same answers, bit for bit."""
    questions = {"urgent": {"type": "noul", "instructions": "Needs an answer today"}}
    (home.folder / "request.json").write_text(json.dumps({"state": STATE, "questions": questions}))
    asked = [
        home.run("run", "smollm2", STATE, "--yes-no", "urgent: Needs an answer today", "--json"),
        home.run("run", "--yes-no", "urgent: Needs an answer today", "--json", stdin=STATE),
        home.run("run", "--file", str(home.folder / "request.json"), "--json"),
    ]

    assert [0, 0, 0] == [shown.returncode for shown in asked]
    first, *others = (json.loads(shown.stdout)["answers"] for shown in asked)
    assert [first, first] == others


def test_plain_questions(home: Home) -> None:
    """Words after the state are yes-or-no questions; --quiet prints the bare answers."""
    shown = home.run("run", "smollm2", STATE, "Is this about money?", "Is it raining?", "--quiet")

    assert (0, "") == (shown.returncode, shown.stderr)
    assert 2 == len(shown.stdout.splitlines())
    assert {"yes", "no"} >= set(shown.stdout.split())


def test_list_ps_stop(home: Home) -> None:
    """The model is listed and loaded; stop unloads it; an explicit --keepalive shows in ps."""
    assert 0 == home.run("run", "smollm2", STATE, "Is it?", "--keepalive", "-1").returncode

    (listed,) = json.loads(home.run("list", "--json").stdout)["models"]
    assert "smollm2:latest" == listed["name"]
    assert home.run("ls").stdout.splitlines()[1].startswith(f"smollm2:latest    {listed['digest'][:12]}    ")
    header, row = home.run("ps").stdout.splitlines()
    assert ["NAME", "ID", "SIZE", "PROCESSOR", "CONTEXT", "UNTIL"] == header.split()
    assert row.startswith("smollm2:latest")
    assert row.endswith("Forever")

    stopped = home.run("stop", "smollm2")
    assert (0, "", "") == (stopped.returncode, stopped.stdout, stopped.stderr)
    assert header.split() == home.run("ps").stdout.split()


def test_create_show_copy_remove(home: Home) -> None:
    """A Modelfile makes a model that show prints back, that answers, that can be copied and removed."""
    (home.folder / "Modelfile").write_text("FROM smollm2\nPARAMETER num_ctx 1024\nSYSTEM Be just.\n")

    assert 0 == home.run("create", "mine", "-f", str(home.folder / "Modelfile")).returncode
    assert "PARAMETER num_ctx 1024" in home.run("show", "mine", "--modelfile").stdout
    assert "Be just.\n" == home.run("show", "mine", "--system").stdout
    assert 0 == home.run("run", "mine", STATE, "Is it?").returncode
    assert 0 == home.run("cp", "mine", "theirs").returncode
    removed = home.run("rm", "mine", "theirs")
    assert (0, "deleted 'mine'\ndeleted 'theirs'\n") == (removed.returncode, removed.stderr)
    assert ["smollm2:latest"] == home.run("list", "--quiet").stdout.split()


def test_modelfile_paths_are_relative_to_it(home: Home) -> None:
    """FROM ./x.gguf means the file beside the Modelfile, wherever the daemon runs."""
    modelfile = home.run("show", "smollm2", "--modelfile").stdout
    blob = next(line.removeprefix("FROM ") for line in modelfile.splitlines() if line.startswith("FROM "))
    (home.folder / "beside").mkdir()
    os.link(blob, home.folder / "beside" / "x.gguf")
    (home.folder / "beside" / "Modelfile").write_text("FROM ./x.gguf\n")

    created = home.run("create", "linked", "-f", str(home.folder / "beside" / "Modelfile"))

    assert 0 == created.returncode, created.stderr
    assert 0 == home.run("rm", "linked").returncode


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "smol", STATE, "Is it?"], 1, "error: model 'smol' not found; did you mean 'smollm2"),
        (["show", "nothing-like-it"], 1, "error: model 'nothing-like-it' not found"),
        (["stop", "nothing-like-it"], 1, 'error: couldn\'t find model "nothing-like-it" to stop'),
        (["rm", "nothing-like-it"], 1, "error: model 'nothing-like-it' not found"),
        (["run", "smollm2", "x " * 5000, "Is it?"], 1, "(input is never truncated)"),
        (["run", "smollm2", STATE, "--keepalive", "soon", "Is it?"], 1, "error: keep_alive: must be seconds"),
        (["run", "smollm2", STATE, "--score", "tone: How?"], 2, "hint: write it like --score"),
        (["run", "smollm2", STATE], 2, "error: there is no question to answer"),
        (["frobnicate"], 2, "No such command"),
    ],
)
def test_failures(home: Home, arguments: list[str], code: int, said: str) -> None:
    """A failure exits with 1, a wrong call with 2; the reason is on stderr and stdout stays empty."""
    shown = home.run(*arguments)

    assert (code, "") == (shown.returncode, shown.stdout)
    assert said in shown.stderr


def test_no_autostart(alone: Home) -> None:
    """LOCALDECIDE_NO_AUTOSTART=1 forbids a start and says what to run."""
    shown = alone.run("list", LOCALDECIDE_NO_AUTOSTART="1")

    assert (1, "") == (shown.returncode, shown.stdout)
    assert f"error: no daemon answers at 127.0.0.1:{alone.port}" in shown.stderr
    assert "hint: start one with `localdecide serve`" in shown.stderr
    assert not alone.listening()


def test_several_commands_at_once_start_one_daemon(alone: Home) -> None:
    """Commands that race share the daemon that one of them starts; shutdown ends it and its traces."""
    children = [
        subprocess.Popen([*COMMAND, "ps"], env=alone.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(3)
    ]
    said = [child.communicate(timeout=60) for child in children]

    assert [0, 0, 0] == [child.returncode for child in children]
    assert 1 == sum(b"starting a daemon" in err for _, err in said)
    assert [f"server-{alone.port}.pid"] == alone.traces
    ended = alone.run("shutdown")
    assert (0, f"the daemon at 127.0.0.1:{alone.port} has ended\n") == (ended.returncode, ended.stderr)
    assert not alone.listening()
    assert [] == alone.traces
    assert 0 == alone.run("shutdown").returncode


def test_daemon_that_cannot_start(alone: Home) -> None:
    """A daemon that ends at once is reported with its last words."""
    shown = alone.run("ps", LOCALDECIDE_MAX_QUEUE="none")
    assert 2 == shown.returncode
    assert "LOCALDECIDE_MAX_QUEUE" in shown.stderr

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", alone.port))  # bound but not listening: nobody answers and nobody else can bind
        shown = alone.run("ps")

    assert (1, "") == (shown.returncode, shown.stdout)
    assert "error: the daemon ended at once with exit code 1" in shown.stderr
    assert str(alone.port) in shown.stderr.partition("exit code 1")[2]


def test_key(alone: Home) -> None:
    """With LOCALDECIDE_API_KEY on both sides commands work; without it they are told what is missing."""
    assert 0 == alone.run("ps", LOCALDECIDE_API_KEY="geheim").returncode

    shown = alone.run("ps")

    assert 1 == shown.returncode
    assert "hint: set `LOCALDECIDE_API_KEY`" in shown.stderr
    assert 0 == alone.run("shutdown", LOCALDECIDE_API_KEY="geheim").returncode


def test_serve_in_the_foreground(alone: Home) -> None:
    """`serve --host` listens where it is told, answers, and ends with 0 on SIGTERM."""
    child = subprocess.Popen(
        [*COMMAND, "serve", "--host", f"127.0.0.1:{alone.port}"],
        env=alone.environment | {"LOCALDECIDE_HOST": "127.0.0.1:1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 60
        while not alone.listening():
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert "localdecide version is" in alone.run("--version").stdout
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()

    assert (0, b"") == (child.returncode, out)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_prompt_on_a_terminal(home: Home) -> None:
    """Without questions a prompt opens: it keeps the state, answers all three types and ends with /bye."""
    import pty

    terminal, side = pty.openpty()
    environment = home.environment | {"TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    child = subprocess.Popen(
        [*COMMAND, "run", "smollm2"], stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True
    )
    os.close(side)
    try:
        _type(terminal, "state> ", STATE)
        _type(terminal, ">>> ", "/choice team: Which team? = billing: payments and refunds | technical: bugs | sales")
        seen = _type(terminal, ">>> ", "/score tone: How upset? = calm < annoyed < furious")
        assert "team: \x1b[1mbilling\x1b[0m (confidence 0." in seen
        assert "█" in seen
        seen = _type(terminal, ">>> ", "Is this about money?")
        assert "of 2 (confidence 0." in seen
        seen = _type(terminal, ">>> ", "/bye")
        assert "Is this about money? \x1b[1m" in seen
        assert 0 == child.wait(30)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)


def _type(terminal: int, prompt: str, line: str) -> str:
    """Waits for the prompt, types a line, and returns what was shown until the prompt came."""
    seen, deadline = "", time.monotonic() + 60
    while not seen.endswith(prompt):
        assert time.monotonic() < deadline, f"{prompt!r} did not come; there was {seen!r}"
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 65536).decode()
    os.write(terminal, f"{line}\n".encode())
    return seen
