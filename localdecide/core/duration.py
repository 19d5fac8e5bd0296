"""keep_alive values and durations: `5m`, `1h30m`, `300ms`, `-1`, 300."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from localdecide.core.errors import InvalidRequest

_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """How long a model stays after its last request: seconds, infinity for ever, 0 for not at all."""

    seconds: float

    @property
    def forever(self) -> bool:
        return math.isinf(self.seconds)


def parse_keep_alive(value: object, loc: tuple[str | int, ...] = ("keep_alive",)) -> KeepAlive | None:
    """A request's keep_alive. None for null: keep the current setting.

    A number is seconds; a string is a Go duration or a number of seconds; negative is for ever.
    Raises InvalidRequest for anything else.
    """
    match value:
        case None:
            return None
        case bool():
            pass
        case int() | float() if value == value:
            return _keep(_float(value))
        case str():
            seconds = parse_duration(value)
            if seconds is not None:
                return _keep(seconds)
    raise InvalidRequest.at(loc, 'must be seconds or a duration such as "5m", "1h30m" or -1 for ever')


def parse_duration(text: str) -> float | None:
    """Seconds of a Go duration or a bare number; None if it is neither."""
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    sign, body = (-1.0, text[1:]) if text.startswith("-") else (1.0, text.removeprefix("+"))
    parts = _PART.findall(body)
    if not parts or "".join(number + unit for number, unit in parts) != body:
        return None
    return sign * math.fsum(float(number) * _UNITS[unit] for number, unit in parts)


def _float(value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond every float is as good as for ever
        return math.inf if value > 0 else -math.inf


def _keep(seconds: float) -> KeepAlive:
    return KeepAlive(math.inf if seconds < 0 else seconds)
