"""What the loop needs from outside: a runner to hand out and a clock to wait by. Tests bring their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Runner(Protocol):
    """One child process that holds one model. Making the object starts nothing."""

    @property
    def alive(self) -> bool: ...
    @property
    def info(self) -> Mapping[str, Any]:
        """What the runner said of itself when it was ready."""
        ...

    async def start(self) -> None:
        """Returns when the model is loaded. Raises what kept it from loading."""
        ...

    async def request(self, op: str, fields: Mapping[str, Any]) -> Any:
        """The result of one frame. Raises the runner's error, or RunnerDied."""
        ...

    async def ping(self, timeout: float) -> bool:
        """Whether the runner answers within `timeout` seconds, whatever it is computing."""
        ...

    async def stop(self, patience: float = 5.0) -> None:
        """Returns when the process is gone. It is asked first, and killed after `patience` seconds."""
        ...

    async def wait(self) -> None:
        """Returns when the process is gone, for whatever reason."""
        ...


class Clock(Protocol):
    """An asyncio loop is one."""

    def time(self) -> float: ...
    def call_at(self, when: float, callback: Callable[..., Any], *args: Any) -> Any:
        """A handle with `cancel()`."""
        ...
