"""Blocking work that tells of its progress, as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import TypeVar

T = TypeVar("T")


async def stream(make: Callable[[threading.Event], Iterator[T]]) -> AsyncGenerator[T, None]:
    """The items of `make(stop)`, which runs from start to end on one thread of its own.

    One thread, because a generator may hold locks that belong to a thread; its own, because work of
    minutes must not use up the pool. Errors are raised here. When the caller leaves, `stop` is set; the
    work ends at its next item at the latest, and its generator is closed.
    """
    loop = asyncio.get_running_loop()
    items: asyncio.Queue[tuple[T] | BaseException | None] = asyncio.Queue()
    stop = threading.Event()

    def tell(item: tuple[T] | BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed, nobody listens
            loop.call_soon_threadsafe(items.put_nowait, item)

    def work() -> None:
        try:
            iterator = make(stop)
            with contextlib.ExitStack() as stack:
                if close := getattr(iterator, "close", None):
                    stack.callback(close)
                for item in iterator:
                    if stop.is_set():
                        return
                    tell((item,))
            tell(None)
        except BaseException as error:
            tell(error)

    threading.Thread(target=work, name="stream", daemon=True).start()
    try:
        while (item := await items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        stop.set()
