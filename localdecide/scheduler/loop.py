"""The scheduler: feeds events to the policy, one at a time, and carries out its orders.

The clock, the way to make a runner and the memory budget come from outside, so that a test turns the hands.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from localdecide.core.errors import LocaldecideError, ModelFailed
from localdecide.core.model import ModelSpec
from localdecide.scheduler import policy, state
from localdecide.scheduler.seams import Clock, Runner

log = logging.getLogger("localdecide.scheduler")

# A runner that hangs is gone after these two and what a terminate is given, 10 seconds at most.
PROBE_SECONDS = 3.0
HUNG_PATIENCE = 0.5


class Scheduler:
    """Hands out runners. One for a daemon; every method on one event loop."""

    def __init__(
        self,
        make_runner: Callable[[ModelSpec], Runner],
        clock: Clock,
        budget: Callable[[int], int],
        limits: state.Limits,
    ) -> None:
        """budget: bytes that runners may use together, given the bytes that they are thought to use now."""
        self.state = state.State()
        self.runners: dict[str, Runner] = {}
        self._make_runner = make_runner
        self._clock = clock
        self._budget = budget
        self._limits = limits
        self._newest = 0
        self._specs: dict[int, ModelSpec] = {}
        self._granted: dict[int, asyncio.Future[Runner]] = {}
        self._events: deque[state.Event] = deque()
        self._turning = False
        self._changed = asyncio.Event()
        self._jobs: set[asyncio.Task[None]] = set()
        self._timer: Any = None
        self.alive = True

    def turns(self) -> bool:
        """Whether it still handles an event."""
        self._post(state.Tick(self._clock.time()))
        return self.alive

    @contextlib.asynccontextmanager
    async def lease(
        self, spec: ModelSpec, *, version: str = "", need: int = 0, keep: float | None = None, default_keep: float = 300
    ) -> AsyncIterator[Runner]:
        """A loaded runner of the model, the caller's until the block ends. Arguments as in `state.Ticket`.

        Raises Busy, DoesNotFit or what kept the model from loading. A cancelled caller leaves the queue;
        a load that it caused goes on.
        """
        if not self.alive:
            raise LocaldecideError("the scheduler has stopped; the daemon's log says why")
        self._newest += 1
        ticket = state.Ticket(self._newest, spec.name, version, need, keep, default_keep)
        granted = asyncio.get_running_loop().create_future()
        self._specs[ticket.id], self._granted[ticket.id] = spec, granted
        try:
            self._post(state.Arrive(ticket, self._clock.time(), self._look(spec.name)))
            yield await granted
        finally:
            del self._granted[ticket.id]
            self._post(state.Leave(ticket.id, self._clock.time()))

    async def unload(self, model: str) -> bool:
        """Ends a model's runner once its requests are through, at once if it hangs. False if there is none."""
        slot = self.state.slots.get(model)
        if slot is None:
            return False
        self._post(state.Stop(model, self._newest, self._clock.time()))
        await self._until(lambda: (now := self.state.slots.get(model)) is None or now.serial != slot.serial)
        return True

    async def close(self, grace: float) -> None:
        """Refuses new tickets, gives the others `grace` seconds, then ends every runner and the loop."""
        self._post(state.Close(self._clock.time()))
        for model, runner in self.runners.items():
            self._job(self._probe(model, runner))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if grace == float("inf") else grace):
                await self._until(lambda: self.state.closing and not self._granted)
        self._post(state.Close(self._clock.time(), waiting=True))
        await asyncio.gather(*(runner.stop() for runner in tuple(self.runners.values())))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._until(lambda: not self.state.slots and not self.state.waiting)
        if self._timer is not None:
            self._timer.cancel()
        self._end()
        for task in self._jobs:
            task.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)

    def _look(self, model: str) -> int | None:
        """The budget, where a load may follow; a runner found dead is reported before anyone is sent to it."""
        slot = self.state.slots.get(model)
        if slot and slot.phase == "ready":
            if self.runners[model].alive:
                return None
            self._post(state.Gone(model, slot.serial, self._clock.time()))
        return self._budget(sum(slot.bytes for slot in self.state.slots.values()))

    def _post(self, event: state.Event) -> None:
        """Handles the event now; one that comes up meanwhile is handled after it."""
        self._events.append(event)
        if self._turning:
            return
        self._turning = True
        try:
            while self.alive and self._events:
                self._turn(self._events.popleft())
        except Exception:
            log.exception("the scheduler has stopped")
            self._end()
        finally:
            self._turning = False

    def _turn(self, event: state.Event) -> None:
        self.state, actions = policy.step(self.state, event, self._limits)
        for action in actions:
            self._carry_out(action)
        self._forget(event)
        self._set_timer()
        self._changed.set()

    def _end(self) -> None:
        self.alive = False
        for granted in self._granted.values():
            if not granted.done():
                granted.set_exception(policy.closing())
        self._changed.set()

    def _forget(self, event: state.Event) -> None:
        match event:
            case state.Leave(ticket, _):
                self._specs.pop(ticket, None)
            case state.Gone(model=model) | state.LoadFailed(model=model) if model not in self.state.slots:
                self.runners.pop(model, None)

    def _carry_out(self, action: state.Action) -> None:
        match action:
            case state.Grant(ticket, model):
                if (granted := self._granted.get(ticket)) and not granted.done():
                    granted.set_result(self.runners[model])
            case state.Refuse(ticket, error):
                if (granted := self._granted.get(ticket)) and not granted.done():
                    granted.set_exception(error)
            case state.Load(model, serial, ticket):
                runner = self.runners[model] = self._make_runner(self._specs[ticket])
                self._job(self._live(model, serial, runner))
            case state.Unload(model, _):
                self._job(self.runners[model].stop())
            case state.Probe(model, _):
                self._job(self._probe(model, self.runners[model]))

    async def _live(self, model: str, serial: int, runner: Runner) -> None:
        """A runner's whole life, told to the policy."""
        try:
            await runner.start()
            size = runner.info.get("memory")
            self._post(state.Loaded(model, serial, self._clock.time(), size if isinstance(size, int) else None))
        except Exception as error:
            if not isinstance(error, LocaldecideError):
                log.exception("loading %s", model)
                error = ModelFailed(f"model '{model}' could not be loaded: {error}")
            # Only a process that is gone has given its memory back.
            await runner.stop()
            self._post(state.LoadFailed(model, serial, self._clock.time(), error))
        await runner.wait()
        self._post(state.Gone(model, serial, self._clock.time()))

    async def _probe(self, model: str, runner: Runner) -> None:
        if runner.alive and not await runner.ping(PROBE_SECONDS):
            log.warning("the runner of %s does not answer; it is ended", model)
            await runner.stop(HUNG_PATIENCE)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (wake := policy.next_wake(self.state)) is not None:
            self._timer = self._clock.call_at(wake, lambda: self._post(state.Tick(self._clock.time())))

    def _job(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _until(self, true: Callable[[], bool]) -> None:
        while self.alive and not true():
            self._changed.clear()
            await self._changed.wait()
