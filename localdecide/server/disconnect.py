"""Work that ends when its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from localdecide.core.errors import Cancelled

T = TypeVar("T")

# Most requests are answered sooner, and watching costs a task.
WATCH_AFTER = 0.02


async def while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """The result of `work`, whose request body has been read; cancels it if the client closes.

    Raises Cancelled then, once the work has ended.
    """
    loop = asyncio.get_running_loop()
    working = asyncio.current_task()
    assert working is not None
    watch: asyncio.Task[None] | None = None
    left = False

    def begin() -> None:
        nonlocal watch
        watch = loop.create_task(_closed(receive))
        watch.add_done_callback(end)

    def end(watch: asyncio.Task[None]) -> None:
        nonlocal left
        left = True
        working.cancel()

    timer = loop.call_later(WATCH_AFTER, begin)
    try:
        return await work
    except asyncio.CancelledError:
        if not left:
            raise
        working.uncancel()
        raise Cancelled("the client closed the connection") from None
    finally:
        timer.cancel()
        if watch is not None:
            watch.remove_done_callback(end)
            watch.cancel()


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
