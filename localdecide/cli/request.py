"""The body of POST /v1/systemone from what the command line, files and standard input give."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from localdecide.cli import questions
from localdecide.cli.usage import UsageProblem
from localdecide.core import jsontext
from localdecide.core.errors import MalformedBody


class Stdin(Protocol):
    """Standard input as `build` needs it."""

    def isatty(self) -> bool: ...
    def read(self) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Words:
    """The positional words: a model or None, a state or None, and yes-or-no questions."""

    model: str | None
    state: str | None
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """Everything of one `run`: `words` and `lines` in command-line order, the rest by option."""

    words: Sequence[str] = ()
    lines: Sequence[tuple[str, str]] = ()
    file: str | None = None
    state_file: str | None = None
    images: Sequence[Path] = ()
    keepalive: str | None = None
    exact: bool = False
    stdin: Stdin = field(kw_only=True)


def build(given: Given) -> dict[str, Any]:
    """The request; without `questions` where none were asked, without `state` where there is none.

    Raises UsageProblem, QuestionSyntax, MalformedBody, OSError, UnicodeDecodeError.
    """
    body = _request_file(given) if given.file is not None else {}
    piped = _Piped(given.stdin)
    words = split(given.words, elsewhere=_elsewhere(given, piped))
    if words.model:
        body["model"] = words.model
    state = _state(given, words, body, piped)
    if state is not None:
        body["state"] = state
    asked = questions.collect([*given.lines, *(("", text) for text in words.questions)])
    if asked:
        both = [key for key in asked if key in body.get("questions", {})]
        if both:
            raise UsageProblem(f"{given.file} already asks {both[0]!r}")
        body["questions"] = body.get("questions", {}) | asked
    if given.images:
        body["images"] = [*body.get("images", []), *(_base64(path) for path in given.images)]
    if given.keepalive is not None:
        body["keep_alive"] = given.keepalive
    if given.exact:
        body["options"] = body.get("options", {}) | {"exact": True}
    return body


def split(words: Sequence[str], *, elsewhere: bool) -> Words:
    """MODEL, STATE and questions. White space never occurs in a model's name: such a first word is no model.

    elsewhere: whether the state comes from somewhere else, so that every further word is a question.
    """
    model = words[0] if words and words[0] and not any(map(str.isspace, words[0])) else None
    rest = tuple(words[1:] if model else words)
    if elsewhere or not rest:
        return Words(model, None, rest)
    return Words(model, rest[0], rest[1:])


class _Piped:
    """What is piped in, read when first needed."""

    def __init__(self, stdin: Stdin) -> None:
        self._stdin = stdin

    @cached_property
    def text(self) -> str | None:
        """None for a terminal, and for what says nothing, as a service's empty standard input."""
        if self._stdin.isatty():
            return None
        text = _text(self._stdin.read())
        return text if text.strip() else None


def _elsewhere(given: Given, piped: _Piped) -> bool:
    """Whether the words hold no state: a file does, or a pipe does and the only further word must be a question."""
    if given.state_file is not None:
        return True
    if given.lines or given.file is not None or len(split(given.words, elsewhere=True).questions) != 1:
        return False
    return piped.text is not None


def _state(given: Given, words: Words, body: dict[str, Any], piped: _Piped) -> Any:
    if given.state_file is not None:
        if given.state_file == "-":
            return _text(given.stdin.read())
        read = Path(given.state_file).read_bytes()
        return jsontext.loads(read) if given.state_file.lower().endswith(".json") else _text(read)
    if words.state is not None:
        return words.state
    return None if "state" in body or given.file == "-" else piped.text


def _request_file(given: Given) -> dict[str, Any]:
    name = given.file or ""
    read = given.stdin.read() if name == "-" else Path(name).read_bytes()
    where = "standard input" if name == "-" else name
    try:
        body = jsontext.loads(read)
    except MalformedBody as error:
        raise MalformedBody(f"{where}: {error.message}") from None
    if not isinstance(body, dict):
        raise MalformedBody(f"{where} must hold an object with state and questions")
    return body


def _text(read: bytes) -> str:
    """UTF-8 without the line break that editors and `echo` put at the end."""
    return read.decode("utf-8-sig").removesuffix("\n").removesuffix("\r")


def _base64(path: Path) -> str:
    import base64

    return base64.b64encode(path.read_bytes()).decode()
