"""What the tests of the terminal pass around: a daemon that is played, and what a command left behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Daemon:
    """Replies by `METHOD /path`: (status, value) or (status, [value, ...]) for NDJSON; keeps what it was asked."""

    replies: dict[str, Any] = field(default_factory=dict)
    requests: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    port: int = 0

    def bodies(self, route: str) -> list[Any]:
        return [body for asked, body, _ in self.requests if asked == route]


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str
