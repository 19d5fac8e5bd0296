"""Blocking work as an asynchronous iterator."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from localdecide.scheduler.stream import stream


def test_items_come_in_order_from_one_thread():
    """The generator runs on one thread that is not the loop's, from its start to its end."""
    threads = []

    def work(stop):
        for number in range(5):
            threads.append(threading.get_ident())
            yield number
        threads.append(threading.get_ident())

    async def scenario():
        return [item async for item in stream(work)]

    assert asyncio.run(scenario()) == [0, 1, 2, 3, 4]
    assert (len(set(threads)), len(threads), threading.get_ident() in threads) == (1, 6, False)


@pytest.mark.parametrize("before", [0, 2])
def test_errors_are_raised_where_the_items_are_awaited(before):
    """After the items that came before; also when the work fails before its first."""

    def work(stop):
        yield from range(before)
        raise KeyError("lost")

    async def scenario():
        try:
            async for item in stream(work):
                items.append(item)
        except KeyError as error:
            return str(error)

    items = []
    assert asyncio.run(scenario()) == "'lost'"
    assert items == list(range(before))


def test_the_loop_goes_on_while_the_work_blocks():
    """Other tasks run until the thread comes back."""
    gate = threading.Event()

    def work(stop):
        yield gate.wait(10)

    async def scenario():
        waiting = asyncio.ensure_future(anext(stream(work)))
        await asyncio.sleep(0.05)
        blocked = not waiting.done()
        gate.set()
        return blocked, await waiting

    assert asyncio.run(scenario()) == (True, True)


def test_work_ends_when_the_caller_leaves():
    """`stop` is set, and the generator is closed on its own thread."""
    closed = threading.Event()
    stops = []

    def work(stop):
        stops.append(stop)
        try:
            for number in range(1_000_000):
                yield number
                stop.wait(0.001)
        finally:
            closed.set()

    async def scenario():
        async with contextlib.aclosing(stream(work)) as items:
            async for item in items:
                if item == 3:
                    break
        return await asyncio.to_thread(closed.wait, 10)

    assert asyncio.run(scenario()) is True
    assert stops[0].is_set()
