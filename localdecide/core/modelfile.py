"""The Modelfile: what a model is made of and how it is read, as text that people write.

    FROM source                       a GGUF, a model's name or package:NAME/path.gguf; more FROMs are projectors
    PARAMETER name value              see `core.parameters`
    TEMPLATE, SYSTEM, PROMPT text     chat template, system message, prompt of a family
    LICENSE text                      may be given several times
    CAPABILITY decision
    FAMILY name                       a family of `localdecide.families`
    HEAD path                         a file with the weights of a head
    ATTENTION causal|bidirectional
    READOUT type name [TEMPERATURE t] how a question type (choice, noul, score) is read
    TEMPERATURE type[.bucket] value   divides the logits
    LABELS type word word ...         labels in place of the family's own
    DESCRIPTION text                  what the model is for and what its answers are worth
    SIZE, TAG, INSTALL                for the library: bytes of FROM, `TAG name source [size]`, and the
                                      requirement that brings a `package:` source

Command words fold case. `#` starts a comment at the start of a line, and behind READOUT, TEMPERATURE, FAMILY,
ATTENTION and CAPABILITY. A text runs to the end of its line, or between quotes `"` or `\"\"\"`, which may span
lines; there are no escapes.
Ollama's MESSAGE, RENDERER, PARSER, REQUIRES and DRAFT are kept but have no effect on a decision, but for
a RENDERER that is the only word on a model's family (`RENDERERS`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from localdecide.core.errors import InvalidModelfile
from localdecide.core.model import Readout
from localdecide.core.parameters import ENGINE_PARAMETERS, IGNORED_PARAMETERS, check_parameter

__all__ = ["ENGINE_PARAMETERS", "Command", "Modelfile", "check_parameter", "format_modelfile", "parse_modelfile"]

_TEXTS = ("template", "system", "prompt", "license", "description")
_IGNORED = ("message", "renderer", "parser", "requires", "draft")
_LINES = ("from", "parameter", "capability", "family", "head", "attention", "readout", "temperature", "labels")
_LIBRARY = ("size", "tag", "install")
COMMANDS = (*_LINES, *_TEXTS, *_LIBRARY, *_IGNORED)
ONCE = ("template", "system", "prompt", "description", "family", "head", "attention", "size")
# Ollama's renderers whose models carry no other sign of their family.
RENDERERS = {"tev1": "tev1", "strands": "strands"}
_COMMENTED = ("readout", "temperature", "family", "attention", "capability")
_TYPES = ("choice", "noul", "score")
_ATTENTION = ("causal", "bidirectional")
_CAPABILITIES = ("decision", "completion", "vision", "tools", "thinking", "insert", "embedding")


@dataclass(frozen=True, slots=True)
class Command:
    """One instruction: lower-case name, its value as written without quotes, its line (from 1)."""

    name: str
    value: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class Modelfile:
    """A checked Modelfile. Later commands win over earlier ones of the same name."""

    commands: tuple[Command, ...]

    def last(self, name: str) -> str | None:
        return next((command.value for command in reversed(self.commands) if command.name == name), None)

    def every(self, name: str) -> list[str]:
        return [command.value for command in self.commands if command.name == name]

    @property
    def sources(self) -> list[str]:
        """FROM values: the model first, then projectors."""
        return self.every("from")

    @property
    def parameters(self) -> dict[str, Any]:
        """Typed PARAMETER values; `stop` is a list."""
        values: dict[str, Any] = {}
        for command in self.commands:
            if command.name == "parameter":
                name, value = _parameter(command)
                if isinstance(value, list):
                    values[name] = [*values.get(name, []), *value]
                else:
                    values[name] = value
        return values

    @property
    def readouts(self) -> dict[str, Readout]:
        return dict(_readout(command) for command in self.commands if command.name == "readout")

    @property
    def temperatures(self) -> dict[str, float]:
        return dict(_temperature(command) for command in self.commands if command.name == "temperature")

    @property
    def labels(self) -> dict[str, tuple[str, ...]]:
        return dict(_labels(command) for command in self.commands if command.name == "labels")

    @property
    def tags(self) -> dict[str, tuple[str, int]]:
        """Library tags: source and size in bytes (0 where it is not said)."""
        return dict(_tag(command) for command in self.commands if command.name == "tag")

    @property
    def size(self) -> int:
        """Bytes of the FROM, for the library; 0 where it is not said."""
        return next((_size(c, c.value) for c in reversed(self.commands) if c.name == "size"), 0)

    @property
    def warnings(self) -> list[str]:
        """What was read but changes nothing."""
        found = [
            command.name.upper()
            for command in self.commands
            if command.name in _IGNORED and not (command.name == "renderer" and command.value in RENDERERS)
        ]
        found += [f"parameter '{name}'" for name in self.parameters if name in IGNORED_PARAMETERS]
        return [f"{what} has no effect on decisions" for what in dict.fromkeys(found)]

    def decision(self) -> dict[str, Any]:
        """What belongs to decisions, as the store keeps it: JSON values, only what is said."""
        readouts = {kind: {"name": r.name, "temperature": r.temperature} for kind, r in self.readouts.items()}
        whole = {
            "family": self.last("family") or RENDERERS.get(self.last("renderer") or ""),
            "attention": self.last("attention"),
            "prompt": self.last("prompt"),
            "description": self.last("description"),
            "readouts": readouts,
            "temperatures": self.temperatures,
            "labels": {kind: list(words) for kind, words in self.labels.items()},
            "notes": [[command.name, command.value] for command in self.commands if command.name in _IGNORED],
        }
        return {key: value for key, value in whole.items() if value}


def parse_modelfile(text: str, *, source_required: bool = True) -> Modelfile:
    """Read and check a Modelfile. Raises InvalidModelfile, `line` in its details."""
    return checked(_commands(text.removeprefix("\ufeff").replace("\r\n", "\n")), source_required=source_required)


def checked(given: Iterable[Command], *, source_required: bool = True) -> Modelfile:
    """A Modelfile of commands that came from elsewhere. Raises InvalidModelfile."""
    commands = tuple(given)
    seen: set[str] = set()
    for command in commands:
        _check(command)
        if command.name in ONCE and command.name in seen:
            _fail(command.line, f"{command.name.upper()} is given twice")
        seen.add(command.name)
    if source_required and "from" not in seen:
        raise InvalidModelfile("no FROM line", {"line": 0})
    return Modelfile(commands)


def decode_modelfile(data: bytes) -> str:
    """The text of a Modelfile: UTF-8, or UTF-16 with its mark. Raises InvalidModelfile."""
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InvalidModelfile(f"the Modelfile is not UTF-8: {error.reason} at byte {error.start}") from None


def format_modelfile(commands: Iterable[Command]) -> str:
    """Text that `parse_modelfile` reads back to the same commands. Raises InvalidModelfile for what it cannot hold."""
    return "".join(f"{command.name.upper()} {_quoted(command)}\n" for command in commands)


def _commands(text: str) -> Iterable[Command]:
    position, line = 0, 1
    while position < len(text):
        end = text.find("\n", position)
        end = len(text) if end < 0 else end
        row = text[position:end]
        bare = row.strip()
        if not bare or bare.startswith("#"):
            position, line = end + 1, line + 1
            continue
        word, _, rest = bare.partition(" ") if " " in bare else bare.partition("\t")
        name = word.lower()
        if name not in COMMANDS:
            choices = ", ".join(f'"{command}"' for command in COMMANDS)
            _fail(line, f"command must be one of {choices}")
        rest = rest.strip()
        if name in ("parameter", "message") and rest:
            # the value after the first word may be quoted on its own
            first, gap, tail = rest.partition(" ")
            opened = position + row.index(rest) + len(first) + len(gap)
            opened += len(tail) - len(tail.lstrip())
            value, after = _value(text, opened, end, line) if tail.strip() else ("", end)
            value = f"{first} {value}" if tail.strip() else first
        elif rest:
            value, after = _value(text, position + row.rindex(rest), end, line)
        else:
            _fail(line, f"{name.upper()} has no value")
        if name in _COMMENTED:
            value = re.sub(r"\s+#.*", "", value)
        yield Command(name, value, line)
        line += text.count("\n", position, after) + 1
        position = after + 1


def _value(text: str, start: int, end: int, line: int) -> tuple[str, int]:
    """The value that starts at `start`, and the position of the line break after it."""
    for quote in ('"""', '"'):
        if text.startswith(quote, start):
            close = text.find(quote, start + len(quote))
            if close < 0:
                _fail(line, f"unexpected EOF: the {quote} is never closed")
            after = text.find("\n", close)
            after = len(text) if after < 0 else after
            if text[close + len(quote) : after].strip():
                _fail(line + text.count("\n", start, close), f"text after the closing {quote}")
            return text[start + len(quote) : close], after
    return text[start:end].strip(), end


def _check(command: Command) -> None:
    """Raise InvalidModelfile if the command's value is not what the command takes."""
    value = command.value
    match command.name:
        case "parameter":
            _parameter(command)
        case "readout":
            _readout(command)
        case "temperature":
            _temperature(command)
        case "labels":
            _labels(command)
        case "tag":
            _tag(command)
        case "size":
            _size(command, value)
        case "attention" if value not in _ATTENTION:
            _fail(command.line, f"ATTENTION must be one of {', '.join(_ATTENTION)}")
        case "capability" if value not in _CAPABILITIES:
            _fail(command.line, f"unknown capability '{value}'")
        case "message" if value.split(" ")[0] not in ("system", "user", "assistant"):
            _fail(command.line, 'message role must be one of "system", "user", or "assistant"')
        case "family" | "from" | "head" if not value.strip():
            _fail(command.line, f"{command.name.upper()} has no value")


def _parameter(command: Command) -> tuple[str, Any]:
    name, _, value = command.value.partition(" ")
    try:
        return name.lower(), check_parameter(name.lower(), value)
    except InvalidModelfile as error:
        _fail(command.line, error.message)


def _readout(command: Command) -> tuple[str, Readout]:
    match command.value.split():
        case [kind, name] if kind in _TYPES:
            return kind, Readout(name.lower())
        case [kind, name, word, number] if kind in _TYPES and word.lower() == "temperature":
            return kind, Readout(name.lower(), _positive(command, number))
    _fail(command.line, "READOUT takes a question type (choice, noul, score), a name and perhaps TEMPERATURE number")


def _temperature(command: Command) -> tuple[str, float]:
    match command.value.split():
        case [key, number] if key.split(".")[0] in _TYPES:
            return key, _positive(command, number)
    _fail(command.line, "TEMPERATURE takes a question type, perhaps with .bucket, and a number")


def _labels(command: Command) -> tuple[str, tuple[str, ...]]:
    match command.value.split():
        case [kind, *words] if kind in _TYPES and len(words) > 1 and len(set(words)) == len(words):
            return kind, tuple(words)
    _fail(command.line, "LABELS takes a question type and at least two different words")


def _tag(command: Command) -> tuple[str, tuple[str, int]]:
    match command.value.split():
        case [name, source]:
            return name, (source, 0)
        case [name, source, size]:
            return name, (source, _size(command, size))
    _fail(command.line, "TAG takes a name, a source and perhaps a size")


def _size(command: Command, text: str) -> int:
    units = {"GB": 10**9, "MB": 10**6, "KB": 10**3, "B": 1}
    number, factor = text.strip(), 1
    for unit, value in units.items():
        if number.upper().endswith(unit):
            number, factor = number[: -len(unit)], value
            break
    try:
        return round(float(number) * factor)
    except (ValueError, OverflowError):
        _fail(command.line, f"'{text}' is not a size such as 3.0GB")


def _positive(command: Command, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        _fail(command.line, f"'{text}' is not a number above 0")
    return number


def _quoted(command: Command) -> str:
    """The value as it must be written: bare where that reads back, else in the quotes that it does not hold."""
    if command.name in ("parameter", "message"):
        first, _, value = command.value.partition(" ")
        return f"{first} {_quote(command, value)}"
    return _quote(command, command.value)


def _quote(command: Command, value: str) -> str:
    if value and value == value.strip() and "\n" not in value and not value.startswith('"'):
        return value
    for quote in ('"""', '"'):
        if quote not in value and not value.endswith(quote[0]):
            return f"{quote}{value}{quote}"
    raise InvalidModelfile(f"{command.name.upper()} holds quotes that a Modelfile cannot hold", {"line": command.line})


def _fail(line: int, problem: str) -> NoReturn:
    raise InvalidModelfile(f"(line {line}): {problem}" if line else problem, {"line": line, "problem": problem})


def from_parts(parts: Mapping[str, Any], sources: Iterable[str]) -> list[Command]:
    """The commands of an installed model.

    parts: `parameters`, `template`, `system`, `licenses`, `decision` (as `Modelfile.decision` gives), `head`.
    """
    decision = parts.get("decision") or {}
    commands = [Command("from", source) for source in sources]
    commands += _single(parts, ("head",))
    commands += _single(decision, ("family", "attention", "description"))
    commands += _single(parts, ("template", "system"))
    commands += _single(decision, ("prompt",))
    for kind, readout in (decision.get("readouts") or {}).items():
        name, temperature = readout.get("name"), readout.get("temperature")
        commands.append(Command("readout", f"{kind} {name}" + (f" TEMPERATURE {temperature:g}" if temperature else "")))
    for key, value in (decision.get("temperatures") or {}).items():
        commands.append(Command("temperature", f"{key} {value!r}"))
    for kind, words in (decision.get("labels") or {}).items():
        commands.append(Command("labels", " ".join([kind, *words])))
    for name, value in (parts.get("parameters") or {}).items():
        values = value if isinstance(value, list) else [value]
        commands += [Command("parameter", f"{name} {_plain(one)}") for one in values]
    commands += [Command(str(name), str(value)) for name, value in decision.get("notes") or []]
    commands += [Command("license", text) for text in parts.get("licenses") or []]
    return commands


def _single(parts: Mapping[str, Any], fields: Iterable[str]) -> list[Command]:
    return [Command(name, str(parts[name])) for name in fields if parts.get(name)]


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
