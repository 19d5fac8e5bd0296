"""Whether the daemon takes requests, how many it has, and the wish to end it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager


class Lifecycle:
    """One per app. `closing` is set once and never taken back."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.closing = False
        self._stop = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Counts a request while it runs."""
        self.in_flight += 1
        self._idle.clear()
        try:
            yield
        finally:
            self.in_flight -= 1
            if self.in_flight == 0:
                self._idle.set()

    def stop(self) -> None:
        """Asks for an orderly end: new requests get 503 from now on. Call it in the event loop."""
        self.closing = True
        self._stop.set()

    async def stopped(self) -> None:
        """Returns when `stop` was called."""
        await self._stop.wait()

    async def idle(self, seconds: float) -> bool:
        """Waits until no request runs; False if some still do after `seconds` (infinity: however long)."""
        try:
            async with asyncio.timeout(None if math.isinf(seconds) else seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True
