"""Work that ends when its client has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from localdecide.core.errors import Cancelled

T = TypeVar("T")


async def while_connected(work: Coroutine[Any, Any, T], receive: Receive) -> T:
    """The result of `work`, whose request body has been read; cancels it if the client closes.

    Raises Cancelled then, once the work has ended.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.ensure_future(_closed(receive))
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Cancelled("the client closed the connection")
    finally:
        for waiting in (task, watch):
            waiting.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
