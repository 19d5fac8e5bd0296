"""Every LOCALDECIDE_* variable: name, type, default, sentence. Help, docs and `doctor` print from this table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.duration import KeepAlive, parse_keep_alive
from localdecide.core.errors import InvalidRequest

DEFAULT_PORT = 11436


class BadSetting(ValueError):
    """A variable holds a value that its setting cannot be; the message names both."""


def _text(raw: str) -> str:
    return raw


def _flag(raw: str) -> bool:
    lowered = raw.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off", ""):
        return False
    raise ValueError("must be 1 or 0")


def _count(raw: str) -> int:
    number = int(raw)
    if number < 0:
        raise ValueError("must not be negative")
    return number


def _positive(raw: str) -> int:
    number = int(raw)
    if number < 1:
        raise ValueError("must be at least 1")
    return number


_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}


def _bytes(raw: str) -> int:
    lowered = raw.lower().removesuffix("b").strip()
    digits = lowered.rstrip("kmgi")
    suffix = lowered[len(digits) :]
    if suffix not in _SUFFIXES or not digits.strip().replace(".", "", 1).isdigit():
        raise ValueError("must be bytes, such as 33554432, 512MiB or 2GB")
    return int(float(digits) * _SUFFIXES[suffix])


def _keep_alive(raw: str) -> KeepAlive:
    try:
        value = parse_keep_alive(raw)
    except InvalidRequest:
        raise ValueError("must be seconds or a duration such as 5m") from None
    assert value is not None
    return value


def _list(raw: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in raw.split(",") if part.strip())


def _choice(*names: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw not in names:
            raise ValueError(f"must be one of {', '.join(names)}")
        return raw

    return parse


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table. parse raises ValueError with what a value must be."""

    name: str
    default: str
    parse: Callable[[str], Any]
    sentence: str

    @property
    def variable(self) -> str:
        return f"LOCALDECIDE_{self.name}"


TABLE: tuple[Setting, ...] = (
    Setting("HOST", f"127.0.0.1:{DEFAULT_PORT}", _text, "Address the daemon listens on and the commands talk to."),
    Setting("MODELS", "", _text, "Folder of the model store; empty means the user's data folder."),
    Setting("DEFAULT_MODEL", "smollm2", _text, "Model of requests that name none or name jev-latest."),
    Setting("KEEP_ALIVE", "5m", _keep_alive, "How long a model stays loaded after its last request."),
    Setting("MAX_LOADED_MODELS", "0", _count, "Models loaded at once; 0 means as many as fit in memory."),
    Setting("MAX_QUEUE", "512", _positive, "Requests that may wait, for all models together; more get 503."),
    Setting("LOAD_TIMEOUT", "5m", _keep_alive, "How long a load may show no progress."),
    Setting("NUM_THREADS", "0", _count, "Threads of a runner; 0 means as many cores as are fastest here."),
    Setting("NUM_PARALLEL", "1", _positive, "Requests of a model that share decode calls; pays on GPU builds only."),
    Setting("MEMORY", "0", _bytes, "Memory that models may use together; 0 means what the machine has."),
    Setting("CACHE_BYTES", "512MiB", _bytes, "Memory of each runner's state cache."),
    Setting("FAST_WEIGHTS", "auto", _choice("auto", "off"), "Convert weight types that are slow here, once."),
    Setting("MAX_BODY", "32MiB", _bytes, "Largest request body; larger ones get 413."),
    Setting("MAX_TEXT", "1MiB", _bytes, "Largest state and schema text of a request; larger ones get 413."),
    Setting("API_KEY", "", _text, "Key that requests must carry as Bearer or x-api-key; empty asks for none."),
    Setting("ORIGINS", "", _list, "Extra browser origins that may call the daemon, separated by commas."),
    Setting("ALLOW_REMOTE", "0", _flag, "Listen off loopback without a key."),
    Setting("NO_AUTOSTART", "0", _flag, "Commands never start a daemon by themselves."),
    Setting("OFFLINE", "0", _flag, "Never open a connection to another machine."),
    Setting("SHUTDOWN_GRACE", "10s", _keep_alive, "How long running requests may go on after SIGTERM."),
    Setting("LOG_LEVEL", "info", _choice("debug", "info", "warning", "error"), "How much the daemon logs."),
)


@dataclass(frozen=True)
class Settings:
    """Typed values by lower-case name, and where each came from ("default" or "environment")."""

    values: Mapping[str, Any]
    sources: Mapping[str, str] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of HOST."""
        return parse_host(self.host)


def load(environment: Mapping[str, str] | None = None, **overrides: str) -> Settings:
    """Settings from the environment; `overrides` (by lower-case name) win. Raises BadSetting."""
    environment = os.environ if environment is None else environment
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for setting in TABLE:
        name = setting.name.lower()
        raw, source = setting.default, "default"
        if (given := environment.get(setting.variable, "").strip().strip("\"'")) != "":
            raw, source = given, "environment"
        if name in overrides:
            raw, source = overrides[name], "option"
        try:
            values[name] = setting.parse(raw)
        except ValueError as error:
            raise BadSetting(f"{setting.variable}={raw!r}: {error}") from None
        sources[name] = source
    return Settings(values, sources)


def parse_host(host: str) -> tuple[str, int]:
    """`host[:port]`, with or without `http://`; IPv6 in brackets. The default port is 11436."""
    bare = host.removeprefix("http://").rstrip("/")
    if bare.startswith("["):
        name, _, rest = bare[1:].partition("]")
        port = rest.removeprefix(":")
    elif bare.count(":") > 1:
        name, port = bare, ""
    else:
        name, _, port = bare.partition(":")
    if port and not (port.isdigit() and int(port) < 65536):
        raise BadSetting(f"LOCALDECIDE_HOST={host!r}: {port!r} is not a port")
    return name or "127.0.0.1", int(port) if port else DEFAULT_PORT
