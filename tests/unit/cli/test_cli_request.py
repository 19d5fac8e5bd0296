"""The request that words, options, files and standard input make."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from localdecide.cli.request import Given, Words, build, split
from localdecide.cli.usage import UsageProblem
from localdecide.core.errors import MalformedBody


class Pipe:
    """Standard input with content; None is a terminal, which must not be read."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def isatty(self) -> bool:
        return self.content is None

    def read(self) -> bytes:
        assert self.content is not None, "a terminal was read"
        return self.content


def request(*words: str, stdin: bytes | None = None, **given: Any) -> dict[str, Any]:
    return build(Given(words, stdin=Pipe(stdin), **given))


URGENT = {"type": "noul", "instructions": "Urgent?"}


@pytest.mark.parametrize(
    ("words", "elsewhere", "expected"),
    [
        ([], False, Words(None, None, ())),
        (["m"], False, Words("m", None, ())),
        (["m", "s"], False, Words("m", "s", ())),
        (["m", "s", "q", "r"], False, Words("m", "s", ("q", "r"))),
        (["hf.co/a/b:Q4", "s"], False, Words("hf.co/a/b:Q4", "s", ())),
        (["a state"], False, Words(None, "a state", ())),
        (["a state", "q"], False, Words(None, "a state", ("q",))),
        (["", "s"], False, Words(None, "", ("s",))),
        (["m", "q"], True, Words("m", None, ("q",))),
        (["a question?"], True, Words(None, None, ("a question?",))),
    ],
)
def test_words(words: list[str], elsewhere: bool, expected: Words) -> None:
    """The first word is the model unless it has white space; then comes the state, then questions."""
    assert expected == split(words, elsewhere=elsewhere)


def test_whole_command_line() -> None:
    """Words, options and flags end up where the wire wants them."""
    expected = {
        "model": "m",
        "state": "text",
        "questions": {
            "u": URGENT,
            "t": {"type": "choice", "instructions": "Which?", "criteria": {"a": None, "b": None}},
            "Is it long?": {"type": "noul", "instructions": "Is it long?"},
        },
        "keep_alive": "5m",
        "options": {"exact": True},
    }

    found = request(
        "m",
        "text",
        "Is it long?",
        lines=[("yes-no", "u: Urgent?"), ("choice", "t: Which? = a | b")],
        keepalive="5m",
        exact=True,
    )

    assert expected == found
    assert ["u", "t", "Is it long?"] == list(found["questions"])


def test_no_model_no_member() -> None:
    """Without a model the request names none, so that the daemon's default answers."""
    assert {"state": "a text", "questions": {"u": URGENT}} == request("a text", lines=[("yes-no", "u: Urgent?")])


def test_piped_state() -> None:
    """Standard input is the state where no word is, without its last line break."""
    assert "línea\n" == request("m", lines=[("yes-no", "u: Urgent?")], stdin="línea\n\r\n".encode())["state"]


def test_state_word_wins_over_a_pipe() -> None:
    """With a state on the command line standard input is left alone."""
    assert "word" == request("m", "word", lines=[("yes-no", "u: Urgent?")], stdin=b"pipe")["state"]


def test_one_word_on_a_pipe_is_a_question() -> None:
    """A pipe and one further word and no question option: the word can only be a question."""
    found = request("m", "Urgent?", stdin=b"pipe")

    assert {"model": "m", "state": "pipe", "questions": {"Urgent?": URGENT}} == found


def test_empty_pipe_is_no_state() -> None:
    """An empty standard input, as of a service, gives no state."""
    assert "state" not in request("m", lines=[("yes-no", "u: Urgent?")], stdin=b"\n")
    assert {"model": "m", "state": "word"} == request("m", "word", stdin=b"")


def test_terminal_is_not_read() -> None:
    """On a terminal nothing waits for typed input."""
    assert {"model": "m"} == request("m")


def test_state_files(tmp_path: Path) -> None:
    """A .json file gives a JSON state, any other its text, - standard input; further words are questions."""
    (tmp_path / "a.json").write_text('{"b": [1, 2.50, "x"]}')
    (tmp_path / "a.txt").write_text('{"b": 1}\n')

    assert {"b": [1, 2.5, "x"]} == request("m", state_file=str(tmp_path / "a.json"))["state"]
    assert '{"b": 1}' == request("m", state_file=str(tmp_path / "a.txt"))["state"]
    assert "pipe" == request("m", state_file="-", stdin=b"pipe")["state"]
    assert {"Urgent?": URGENT} == request("m", "Urgent?", state_file=str(tmp_path / "a.txt"))["questions"]


def test_request_file(tmp_path: Path) -> None:
    """A request file is sent whole; the command line adds to it and overrides its model and state."""
    body = {"model": "x", "state": {"a": 1}, "questions": {"u": URGENT}, "seed": 7, "options": {"temperature": 2}}
    path = tmp_path / "request.json"
    path.write_text(json.dumps(body))

    assert body == request(file=str(path))
    assert body == request(file="-", stdin=json.dumps(body).encode())
    changed = request("m", "s", file=str(path), lines=[("yes-no", "v: Urgent?")], exact=True)
    assert ("m", "s", 7) == (changed["model"], changed["state"], changed["seed"])
    assert ["u", "v"] == list(changed["questions"])
    assert {"temperature": 2, "exact": True} == changed["options"]


def test_request_file_without_state_takes_the_pipe(tmp_path: Path) -> None:
    """Questions from a file can be asked about what is piped in."""
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"questions": {"u": URGENT}}))

    assert {"questions": {"u": URGENT}, "state": "pipe"} == request(file=str(path), stdin=b"pipe")


def test_question_twice(tmp_path: Path) -> None:
    """A question that the file asks already is not silently replaced."""
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"questions": {"u": URGENT}}))

    with pytest.raises(UsageProblem, match="already asks 'u'"):
        request("m", file=str(path), lines=[("yes-no", "u: Really?")])


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("[1]", "must hold an object"),
        ("{", "invalid JSON"),
        ('{"a": 1, "a": 2}', "duplicate key"),
        ('{"a": NaN}', "NaN"),
        ("", "missing request body"),
    ],
)
def test_bad_request_files(tmp_path: Path, content: str, problem: str) -> None:
    """A request file that is not one strict JSON object is refused with its path."""
    path = tmp_path / "request.json"
    path.write_text(content)

    with pytest.raises(MalformedBody, match=problem) as refused:
        request(file=str(path))

    assert str(path) in refused.value.message


def test_images(tmp_path: Path) -> None:
    """Images travel as base64 in their order."""
    (tmp_path / "a.png").write_bytes(b"\x89PNG")
    (tmp_path / "b.png").write_bytes(b"x")

    assert ["iVBORw==", "eA=="] == request("m", images=[tmp_path / "a.png", tmp_path / "b.png"])["images"]


def test_missing_file_names_itself(tmp_path: Path) -> None:
    """A file that is not there raises the system's own error with its name."""
    with pytest.raises(FileNotFoundError, match="nothing.txt"):
        request("m", state_file=str(tmp_path / "nothing.txt"))
