"""The interactive prompt: line by line, and once through a real pseudo-terminal."""

from __future__ import annotations

import io
import os
import select
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from localdecide import paths
from localdecide.cli.output import Output
from localdecide.cli.prompt import HELP, Conversation
from localdecide.cli.questions import QuestionSyntax


class Talk:
    """A conversation whose requests are kept and whose output can be read."""

    def __init__(self, **request: Any) -> None:
        self.asked: list[dict[str, Any]] = []
        self.out, self.err = io.StringIO(), io.StringIO()
        self.conversation = Conversation(request, self.asked.append, Output("human", self.out, self.err))

    def say(self, *lines: str) -> list[bool]:
        return [self.conversation.line(line) for line in lines]


NOW = {"type": "noul", "instructions": "Now?"}


def test_first_line_is_the_state() -> None:
    """Without a state the first text becomes it; further texts are yes-or-no questions about it."""
    talk = Talk(model="m")

    assert "state> " == talk.conversation.prompt
    talk.say("  My card was charged twice. ", "Now?")

    assert ">>> " == talk.conversation.prompt
    assert [{"model": "m", "state": "My card was charged twice.", "questions": {"Now?": NOW}}] == talk.asked


def test_commands_ask_in_the_same_grammar() -> None:
    """/choice, /yes-no and /score read their lines like the options do, and keep what the command line set."""
    talk = Talk(model="m", state="s", keep_alive="1h")

    talk.say("/choice t: Which? = a | b", "/yes-no n: Now?", "/score h: How? = x < y")

    assert [
        {"t": {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "b": None}}},
        {"n": NOW},
        {"h": {"type": "score", "instructions": "How?", "criteria": ["x", "y"]}},
    ] == [asked["questions"] for asked in talk.asked]
    assert {("s", "1h")} == {(asked["state"], asked["keep_alive"]) for asked in talk.asked}


def test_state_can_change() -> None:
    """/state keeps another state for the questions that follow."""
    talk = Talk(state="old")

    talk.say("/state new one", "Now?")

    assert "new one" == talk.asked[0]["state"]


def test_state_of_several_lines() -> None:
    """Between three quotes every line is state, commands and blank lines included."""
    talk = Talk()

    talk.say('/state """first', "", "/bye")
    assert "... " == talk.conversation.prompt
    talk.say('last"""', "Now?")

    assert "first\n\n/bye\nlast" == talk.asked[0]["state"]


def test_state_on_one_line_of_quotes() -> None:
    """Quotes that open and close on one line hold just that line."""
    talk = Talk()

    talk.say('"""one"""', "Now?")

    assert "one" == talk.asked[0]["state"]


def test_question_without_a_state() -> None:
    """A question before any state is answered by a request for one."""
    talk = Talk()

    talk.say("/yes-no Now?")

    assert [] == talk.asked
    assert "there is no state yet; type one first\n" == talk.err.getvalue()


def test_bad_question() -> None:
    """A question that cannot be read is refused as on the command line."""
    talk = Talk(state="s")

    with pytest.raises(QuestionSyntax, match="needs `=`"):
        talk.say("/score tone: How?")


def test_other_commands() -> None:
    """/help and /show print, an unknown command says so, /bye ends, blank lines do nothing."""
    talk = Talk(model="m", state="s")

    assert [True, True, True, True, True, False] == talk.say("/help", "/show", "/what", "/state", "  ", "/bye")
    assert f"{HELP}\nmodel: m\nstate: s\n" == talk.out.getvalue()
    assert "there is no `/what`; `/help` lists what there is\ntype the state after `/state`\n" == talk.err.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_through_a_terminal(daemon: Any) -> None:
    """A terminal session: state, question, a mistake, Ctrl-C, Ctrl-D; bars appear, it ends with 0 and is remembered."""
    import pty

    daemon.replies["POST /v1/systemone"] = (
        200,
        {"model": "m", "answers": {"Now?": {"type": "noul", "noul": 0.9}}, "usage": {}},
    )
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"}
    terminal, side = pty.openpty()
    command = [sys.executable, "-m", "localdecide.cli.main", "run", "m"]
    child = subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment, start_new_session=True)
    os.close(side)
    try:
        seen = _expect(terminal, "", "state> ")
        os.write(terminal, b"My card was charged twice.\n")
        seen = _expect(terminal, seen, ">>> ")
        os.write(terminal, b"Now?\n")
        seen = _expect(terminal, seen, "yes\x1b[0m", "█", "90.0%", ">>> ")
        os.write(terminal, b"/score x\n")
        seen = _expect(terminal, seen, "needs `=` and the levels", "hint", ">>> ")
        child.send_signal(signal.SIGINT)
        os.write(terminal, b"\n")  # a signal just before the wait for a key is seen with the next key
        seen = _expect(terminal, seen, "or Ctrl-D leaves", ">>> ")
        os.write(terminal, b"\x04")
        assert 0 == child.wait(30)
    finally:
        child.kill()
        child.wait()
        os.close(terminal)

    (body,) = daemon.bodies("POST /v1/systemone")
    assert ("m", "My card was charged twice.") == (body["model"], body["state"])
    assert "My card was charged twice.\nNow?\n/score x\n" == (paths.state() / "history").read_text()


def _expect(terminal: int, seen: str, *words: str) -> str:
    """Reads until every word has come, one after the other, behind what was `seen` before."""
    begin, deadline = len(seen), time.monotonic() + 30
    while time.monotonic() < deadline:
        at = begin
        for word in words:
            found = seen.find(word, at)
            if found < 0:
                break
            at = found + len(word)
        else:
            return seen
        if select.select([terminal], [], [], 0.5)[0]:
            seen += os.read(terminal, 65536).decode()
    raise AssertionError(f"{words} did not come; there was {seen[begin:]!r}")
