"""What the scheduler knows, what can happen to it and what it can order: plain frozen values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from localdecide.core.errors import LocaldecideError

Phase = Literal["loading", "ready", "unloading"]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds that do not change while the daemon runs.

    models: resident models, 0 for no bound but memory. queue: tickets that may wait, all models together.
    in_flight: requests one runner holds at a time. overtake: grants to younger tickets that a ticket
    waiting for room puts up with; it is what makes the queue fair and yet swaps models rarely.
    """

    models: int = 0
    queue: int = 512
    in_flight: int = 4
    overtake: int = 16


@dataclass(frozen=True, slots=True)
class Ticket:
    """One request that wants a model. Ids grow by one with every ticket.

    version: changes when the model's files or parameters do. need: bytes that loading it would take.
    keep: the request's keep_alive in seconds, None for none. default_keep: the model's or the server's.
    """

    id: int
    model: str
    version: str = ""
    need: int = 0
    keep: float | None = None
    default_keep: float = 300.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One runner, from the order to load it until its process is gone.

    serial: tells this runner from an earlier one of the same model. used: time of the last grant or return.
    last_ticket: tickets above it wait for the next runner; finite once the runner is to go.
    """

    model: str
    version: str
    serial: int
    bytes: int
    keep: float
    phase: Phase = "loading"
    users: frozenset[int] = frozenset()
    used: float = 0.0
    last_ticket: float = math.inf

    @property
    def idle(self) -> bool:
        return self.phase == "ready" and not self.users

    @property
    def going(self) -> bool:
        """On its way out: it serves those it has and no others."""
        return self.phase == "unloading" or not math.isinf(self.last_ticket)

    @property
    def expires(self) -> float:
        """When an idle runner's time is up; infinity for never."""
        return self.used + self.keep


@dataclass(frozen=True, slots=True)
class State:
    """Everything the policy decides from.

    budget: bytes all runners may use together. head, overtaken: the oldest ticket that waits for room
    and how many younger ones went ahead of it.
    """

    slots: Mapping[str, Slot] = field(default_factory=dict)
    waiting: tuple[Ticket, ...] = ()
    budget: int = 0
    serial: int = 0
    head: int | None = None
    overtaken: int = 0
    closing: bool = False


@dataclass(frozen=True, slots=True)
class Arrive:
    """A request wants a model. budget None: unchanged."""

    ticket: Ticket
    now: float
    budget: int | None = None


@dataclass(frozen=True, slots=True)
class Leave:
    """A request ended, or its client left while it waited."""

    ticket: int
    now: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """bytes None: the estimate stands."""

    model: str
    serial: int
    now: float
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LoadFailed:
    model: str
    serial: int
    now: float
    error: LocaldecideError


@dataclass(frozen=True, slots=True)
class Gone:
    """A runner's process has ended, ordered or not."""

    model: str
    serial: int
    now: float


@dataclass(frozen=True, slots=True)
class Stop:
    """Someone asks to unload a model. newest: the newest ticket so far; younger ones get a new runner."""

    model: str
    newest: int
    now: float


@dataclass(frozen=True, slots=True)
class Tick:
    now: float


@dataclass(frozen=True, slots=True)
class Close:
    """Refuse new tickets; with `waiting`, also those that wait."""

    now: float
    waiting: bool = False


Event = Arrive | Leave | Loaded | LoadFailed | Gone | Stop | Tick | Close


@dataclass(frozen=True, slots=True)
class Grant:
    """The ticket may use the model's runner until it leaves."""

    ticket: int
    model: str


@dataclass(frozen=True, slots=True)
class Refuse:
    ticket: int
    error: LocaldecideError


@dataclass(frozen=True, slots=True)
class Load:
    """Start a runner for the model that `ticket` asked for."""

    model: str
    serial: int
    ticket: int


@dataclass(frozen=True, slots=True)
class Unload:
    model: str
    serial: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Find out whether a runner that should go, but is in use, still answers; if not, kill it."""

    model: str
    serial: int


Action = Grant | Refuse | Load | Unload | Probe
