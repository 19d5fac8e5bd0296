"""The loop that runs the policy, with runners and a clock made of Python objects."""

from __future__ import annotations

import asyncio
import random

import pytest

from localdecide.core.errors import BadModelFile, Busy, DoesNotFit, LocaldecideError, ModelFailed, RunnerDied
from localdecide.core.model import ModelSpec
from localdecide.scheduler.loop import Scheduler
from localdecide.scheduler.state import Limits


class FakeClock:
    """Time that passes when told, and calls who asked for it."""

    def __init__(self):
        self.now = 100.0
        self.calls = []

    def time(self):
        return self.now

    def call_at(self, when, callback, *args):
        call = FakeCall(when, callback, args)
        self.calls.append(call)
        return call

    async def pass_(self, seconds):
        self.now += seconds
        due = [call for call in self.calls if call.when <= self.now]
        self.calls = [call for call in self.calls if call.when > self.now]
        for call in due:
            if not call.cancelled:
                call.callback(*call.args)
        await turns()


class FakeCall:
    def __init__(self, when, callback, args):
        self.when, self.callback, self.args, self.cancelled = when, callback, args, False

    def cancel(self):
        self.cancelled = True


class FakeRunner:
    """Loads when the test says so, or at once."""

    def __init__(self, spec, world):
        self.spec, self.world = spec, world
        self.info = dict(world.info)
        self.loaded = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.started = False
        self.answers = True
        if world.instant:
            self.loaded.set_result(None)

    @property
    def alive(self):
        return self.started and not self.gone.is_set()

    async def start(self):
        self.started = True
        await self.loaded

    async def request(self, op, fields):
        if not self.alive:
            raise RunnerDied("gone")
        return fields

    async def ping(self, timeout):
        return self.answers

    async def stop(self, patience=5.0):
        if not self.loaded.done():
            self.loaded.set_exception(RunnerDied("stopped"))
        self.gone.set()

    async def wait(self):
        await self.gone.wait()


class World:
    def __init__(self, instant=True, memory=1000, info=None, **limits):
        self.instant, self.info, self.memory = instant, info or {}, memory
        self.made = []
        self.clock = FakeClock()
        self.scheduler = Scheduler(self.make, self.clock, lambda resident: self.memory, Limits(**limits))

    def make(self, spec):
        if spec.path == "explode":
            raise OSError("no such program")
        runner = FakeRunner(spec, self)
        self.made.append(runner)
        return runner

    def lease(self, model, **arguments):
        return self.scheduler.lease(ModelSpec(model, "x"), need=100, **arguments)

    async def use(self, model, seconds=0, **arguments):
        async with self.lease(model, **arguments) as runner:
            for _ in range(seconds):
                await asyncio.sleep(0)
            return runner

    @property
    def resident(self):
        return {name: slot.phase for name, slot in self.scheduler.state.slots.items()}


async def turns(count=30):
    for _ in range(count):
        await asyncio.sleep(0)


def play(scenario):
    """Runs a scenario and closes its world."""

    async def whole():
        world, act = scenario
        world = world()
        try:
            return await asyncio.wait_for(act(world), 30)
        finally:
            await world.scheduler.close(0)

    return asyncio.run(whole())


def test_many_requests_share_one_runner():
    """Ten at once load it once and get the same runner."""

    async def act(world):
        runners = await asyncio.gather(*(world.use("a") for _ in range(10)))
        return len(world.made), {id(runner) for runner in runners} == {id(world.made[0])}

    assert play((World, act)) == (1, True)


def test_a_load_goes_on_when_the_client_left():
    """The cancelled caller leaves; the runner becomes ready and serves the next without another load."""

    async def act(world):
        first = asyncio.create_task(world.use("a"))
        await turns()
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await turns()
        loading = world.resident
        world.made[0].loaded.set_result(None)
        await world.use("a")
        return loading, len(world.made)

    assert play((lambda: World(instant=False), act)) == ({"a": "loading"}, 1)


def test_queued_work_of_a_closed_connection_is_dropped():
    """A waiter that was cancelled is not in the queue any more and its model is never loaded."""

    async def act(world):
        async with world.lease("a"):
            waiter = asyncio.create_task(world.use("b"))
            await turns()
            queued = len(world.scheduler.state.waiting)
            waiter.cancel()
            await turns()
            left = len(world.scheduler.state.waiting)
        await turns()
        return queued, left, world.resident

    assert play((lambda: World(models=1), act)) == (1, 0, {"a": "ready"})


def test_an_idle_model_is_unloaded_in_time():
    """Not a second earlier; a request in between starts the time anew."""

    async def act(world):
        await world.use("a", default_keep=10)
        await world.clock.pass_(9)
        await world.use("a", default_keep=10)
        await world.clock.pass_(9)
        before = dict(world.resident)
        await world.clock.pass_(1)
        return before, world.resident, world.made[0].alive

    assert play((World, act)) == ({"a": "ready"}, {}, False)


def test_a_pin_stays():
    """keep_alive for ever, then a plain request: a year later it is still there."""

    async def act(world):
        await world.use("a", keep=float("inf"))
        await world.use("a")
        await world.clock.pass_(3e7)
        return world.resident

    assert play((World, act)) == {"a": "ready"}


def test_unload_returns_when_the_runner_is_gone():
    """It waits for the request in it; a model that is not loaded gives False."""

    async def act(world):
        async with world.lease("a"):
            unloading = asyncio.create_task(world.scheduler.unload("a"))
            await turns()
            during = unloading.done(), world.made[0].alive
        return during, await unloading, world.made[0].alive, await world.scheduler.unload("b")

    assert play((World, act)) == ((False, True), True, False, False)


def test_unload_ends_a_runner_that_hangs():
    """It does not answer the probe, so it is ended with the request still in it."""

    async def act(world):
        async with world.lease("a"):
            world.made[0].answers = False
            return await world.scheduler.unload("a"), world.made[0].alive

    assert play((World, act)) == (True, False)


@pytest.mark.parametrize("error", [BadModelFile("not a GGUF"), OSError("odd")])
def test_a_failed_load_reaches_all_who_wait_and_the_next_tries_again(error):
    """An error that is not ours becomes ModelFailed; the runner is ended."""

    async def act(world):
        waiters = [asyncio.create_task(world.use("a")) for _ in range(3)]
        await turns()
        world.made[0].loaded.set_exception(error)
        results = await asyncio.gather(*waiters, return_exceptions=True)
        world.instant = True
        await world.use("a")
        return results, len(world.made), world.made[0].alive

    results, made, alive = play((lambda: World(instant=False), act))
    assert [isinstance(result, ModelFailed) for result in results] == [True] * 3
    assert ["not a GGUF" in str(result) or "odd" in str(result) for result in results] == [True] * 3
    assert (made, alive) == (2, False)


def test_a_dead_runner_is_not_handed_out():
    """Found dead on the way in: a fresh one is loaded for the request."""

    async def act(world):
        first = await world.use("a")
        first.gone.set()
        return await world.use("a") is first, len(world.made)

    assert play((World, act)) == (False, 2)


def test_too_large_and_too_many_are_refused():
    """DoesNotFit by memory, Busy by the queue; neither leaves a trace."""

    async def act(world):
        world.memory = 99
        too_large = await asyncio.gather(world.use("a"), return_exceptions=True)
        world.memory = 1000
        async with world.lease("a"):
            waiting = [asyncio.create_task(world.use("a")) for _ in range(5)]
            await turns()
            refused = [task for task in waiting if task.done()]
            errors = [task.exception() for task in refused]
        await asyncio.gather(*waiting, return_exceptions=True)
        return [type(error) for error in too_large + errors], len(world.scheduler.state.waiting)

    kinds, left = play((lambda: World(in_flight=1, queue=3), act))
    assert (kinds, left) == ([DoesNotFit, Busy, Busy], 0)


def test_what_the_runner_says_it_uses_replaces_the_estimate():
    """`memory` of its info counts from then on."""

    async def act(world):
        await world.use("a")
        return world.scheduler.state.slots["a"].bytes

    assert play((lambda: World(info={"memory": 640}), act)) == 640


@pytest.mark.parametrize("seed", range(4))
def test_fifty_random_requests_over_three_models_with_room_for_one(seed):
    """All finish, and the queue is empty after."""

    async def act(world):
        chance = random.Random(seed)
        uses = []
        for _ in range(50):
            uses.append(asyncio.create_task(world.use(chance.choice("abc"), seconds=chance.randrange(20))))
            await turns(chance.randrange(5))
        await asyncio.gather(*uses)
        await turns()
        return len(world.scheduler.state.waiting), len(world.resident)

    assert play((lambda: World(models=1), act)) == (0, 1)


def test_close_lets_requests_finish_and_ends_every_runner():
    """The one that runs ends well, a new one is refused, nothing is left alive."""

    async def act(world):
        await world.use("b")
        running = asyncio.create_task(world.use("a", seconds=50))
        await turns(20)
        closing = asyncio.create_task(world.scheduler.close(10))
        await turns(5)
        late = await asyncio.gather(world.use("a"), return_exceptions=True)
        await closing
        result = await running
        return result is world.made[1], type(late[0]), [runner.alive for runner in world.made], world.scheduler.alive

    assert play((World, act)) == (True, Busy, [False, False], False)


def test_close_does_not_wait_longer_than_its_grace():
    """Who still waits is refused, who is in a runner loses it."""

    async def act(world):
        held, entered = asyncio.Event(), asyncio.Event()

        async def hold():
            async with world.lease("a"):
                entered.set()
                await held.wait()

        holder = asyncio.create_task(hold())
        await entered.wait()
        waiter = asyncio.create_task(world.use("a"))
        await turns()
        await world.scheduler.close(0.01)
        held.set()
        await holder
        return type((await asyncio.gather(waiter, return_exceptions=True))[0]), world.made[0].alive

    assert play((lambda: World(in_flight=1), act)) == (Busy, False)


def test_a_broken_loop_fails_its_callers(caplog):
    """If carrying out an order raises, who waits gets an error, later callers too, and `alive` says so."""

    async def act(world):
        broken = world.scheduler.lease(ModelSpec("a", "explode"))
        first = await asyncio.gather(broken.__aenter__(), return_exceptions=True)
        second = await asyncio.gather(world.use("a"), return_exceptions=True)
        return isinstance(first[0], LocaldecideError), type(second[0]), world.scheduler.alive

    assert play((World, act)) == (True, LocaldecideError, False)
    assert "the scheduler has stopped" in caplog.text
