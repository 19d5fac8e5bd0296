"""The keeper of a runner, over a real child process that has no model."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import logging
import os
import signal
import sys
from pathlib import Path

import pytest

from localdecide.core import frames
from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, NumericalError, RunnerDied
from localdecide.core.model import ModelSpec
from localdecide.core.questions import parse_question
from localdecide.scheduler.process import RunnerProcess

FAKE = (str(Path(__file__).with_name("fake_runner.py")),)

posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")


def fields(state, images=()):
    question = parse_question({"type": "noul", "instructions": "?"}, ("questions", "q"))
    return {"decision": frames.decision_to_wire(Decision(state, {"q": question}, tuple(images)))}


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request):
    """Runs a scenario on the event loop of the standard library, and on the one the daemon prefers."""
    factory = None if request.param == "asyncio" else pytest.importorskip("uvloop").Loop

    def play(scenario):
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(asyncio.wait_for(scenario(), 60))

    play.loop = request.param
    return play


@contextlib.asynccontextmanager
async def running(system=None, **arguments):
    runner = RunnerProcess(ModelSpec("toy:latest", "/toy.gguf", system=system), command=FAKE, **arguments)
    try:
        await runner.start()
        yield runner
    finally:
        await runner.stop()


def outcome(results):
    return [type(result).__name__ for result in results]


def test_a_ready_runner_tells_of_itself_and_answers(run):
    """Its info is what the ready frame said, with the variables the keeper sets before it starts."""

    async def scenario():
        async with running() as runner:
            info = dict(runner.info)
            result = frames.result_from_wire(await runner.request("decide", fields("hello")))
            return info, result, runner.pid, await runner.ping(10)

    info, result, pid, answers = run(scenario)
    assert info == {"pid": pid, "threads": os.environ.get("OMP_WAIT_POLICY", "passive"), "context": 4096}
    assert (result.model, result.input_tokens, answers) == ("toy:latest", 5, True)


def test_replies_find_their_requests(run):
    """A quick request overtakes a slow one; each gets its own answer."""

    async def scenario():
        async with running() as runner:
            slow = asyncio.create_task(runner.request("decide", fields({"sleep": 0.3})))
            quick = await runner.request("decide", fields("quick"))
            return quick["input_tokens"], slow.done(), (await slow)["input_tokens"]

    assert run(scenario) == (5, False, len("{'sleep': 0.3}"))


def test_info_follows_the_state_cache(run):
    """What an answer says of the cache is what `ps` will show, until the next one."""

    async def scenario():
        async with running() as runner:
            await runner.request("decide", fields({"cached": 77}))
            await runner.request("decide", fields("silent"))
            return runner.info["engine"], runner.info["context"]

    assert run(scenario) == ({"cache_bytes": 77}, 4096)


def test_an_error_of_the_runner_keeps_its_type_and_details(run):
    """The wire error becomes the same class on this side."""

    async def scenario():
        async with running() as runner:
            await runner.request("decide", fields("error"))

    with pytest.raises(NumericalError) as caught:
        run(scenario)
    assert (caught.value.message, caught.value.details) == ("NaN", {"at": 3})


def test_big_frames_pass_without_stopping_the_loop(run):
    """32 MiB of images go through while the loop goes on with other work."""
    images = [os.urandom(1 << 24), os.urandom(1 << 24)]

    async def scenario():
        async with running() as runner:
            big = asyncio.create_task(runner.request("decide", fields("big", images)))
            turns = 0
            while not big.done():
                turns += 1
                await asyncio.sleep(0.001)
            return (await big)["decoded_tokens"], turns

    size, turns = run(scenario)
    assert size == sum(len(base64.b64encode(image)) for image in images)
    assert turns > 3


@pytest.mark.parametrize(("state", "how"), [("die", "ended with exit code 3"), ("abort", "was ended by SIGABRT")])
@posix
def test_when_the_child_dies_every_request_in_it_fails(run, state, how):
    """Not only the request that killed it, and none waits; the error says how it ended and its last words."""

    async def scenario():
        async with running() as runner:
            others = [asyncio.create_task(runner.request("decide", fields({"sleep": 30}))) for _ in range(5)]
            await asyncio.sleep(0.2)
            results = await asyncio.gather(runner.request("decide", fields(state)), *others, return_exceptions=True)
            return results, runner.alive

    results, alive = run(scenario)
    assert outcome(results) == ["RunnerDied"] * 6
    assert not alive
    assert how in results[0].message
    assert results[0].details["log"][0] == "loading toy:latest"
    assert [bool(error.details.get("fresh")) for error in results[1:]] == [False] * 5


@posix
def test_a_killed_child_is_noticed(run):
    """kill -9: pending requests fail with the signal's name, later ones are told that it has ended."""

    async def scenario():
        async with running() as runner:
            waiting = asyncio.create_task(runner.request("decide", fields({"sleep": 30})))
            await asyncio.sleep(0.2)
            os.kill(runner.pid, signal.SIGKILL)
            first = await asyncio.gather(waiting, return_exceptions=True)
            return first + await asyncio.gather(runner.request("decide", fields("x")), return_exceptions=True)

    first, second = run(scenario)
    assert (first.details["signal"], second.details["signal"]) == ("SIGKILL", "SIGKILL")
    assert second.details["fresh"] is True


@pytest.mark.parametrize("state", ["nonsense", "mute"])
def test_a_child_that_cannot_be_understood_is_ended(run, state):
    """A frame over the limit, or a closed output with the process still there: killed, and the request fails."""
    if (run.loop, state) == ("uvloop", "mute"):
        pytest.skip("uvloop leaves a second copy of its output open in the child: it cannot fall silent so")

    async def scenario():
        async with running() as runner:
            await runner.request("decide", fields(state))

    with pytest.raises(RunnerDied):
        run(scenario)


def test_a_cancelled_request_is_cancelled_in_the_runner(run, caplog):
    """The runner gets a cancel frame for it and goes on serving."""
    caplog.set_level(logging.INFO, "localdecide.runner")

    async def scenario():
        async with running() as runner:
            task = asyncio.create_task(runner.request("decide", fields("wait for cancel")))
            await asyncio.sleep(0.2)
            task.cancel()
            cancelled = await asyncio.gather(task, return_exceptions=True)
            for _ in range(100):
                if any(record.getMessage() == "cancelled 1" for record in caplog.records):
                    break
                await asyncio.sleep(0.05)
            return [*cancelled, (await runner.request("decide", fields("next")))["model"]]

    cancelled, after = run(scenario)
    assert (type(cancelled), after) == (asyncio.CancelledError, "toy:latest")
    assert "cancelled 1" in [record.getMessage() for record in caplog.records]


def test_what_the_child_writes_to_stderr_is_logged_under_its_model(run, caplog):
    """Its lines go to the logger localdecide.runner.<model>."""
    caplog.set_level(logging.INFO, "localdecide.runner")

    async def scenario():
        async with running():
            pass

    run(scenario)
    assert ("localdecide.runner.toy:latest", "loading toy:latest") in [
        (record.name, record.getMessage()) for record in caplog.records
    ]


@pytest.mark.parametrize(
    ("system", "error", "words"),
    [("refuse", BadModelFile, "not a GGUF"), ("abort", RunnerDied, "GGML_ASSERT(false) failed")],
)
def test_a_load_that_fails_says_why(run, system, error, words):
    """The runner's own error, or its last line if it died."""

    async def scenario():
        async with running(system):
            pass

    with pytest.raises(error) as caught:
        run(scenario)
    assert words in caught.value.message


def test_a_load_without_progress_times_out(run):
    """It fails with RunnerDied that names the setting, and the child is gone."""

    async def scenario():
        runner = RunnerProcess(ModelSpec("toy:latest", "x", system="stall"), command=FAKE, load_timeout=0.5)
        try:
            await runner.start()
        finally:
            await runner.stop(patience=0.1)
            assert not runner.alive

    with pytest.raises(RunnerDied, match="LOCALDECIDE_LOAD_TIMEOUT"):
        run(scenario)


def test_progress_keeps_a_slow_load_alive(run):
    """A load of 0.75 s with a frame every 0.15 s outlives a limit of 0.6 s without progress."""

    async def scenario():
        async with running("slow", load_timeout=0.6) as runner:
            return runner.info["context"]

    assert run(scenario) == 4096


@posix
def test_a_hung_child_does_not_answer_pings_and_is_killed(run):
    """Stopped by SIGSTOP: ping says False, stop ends it and the request in it, though SIGTERM cannot."""

    async def scenario():
        async with running() as runner:
            waiting = asyncio.create_task(runner.request("decide", fields({"sleep": 30})))
            await asyncio.sleep(0.2)
            os.kill(runner.pid, signal.SIGSTOP)
            answers = await runner.ping(0.3)
            await runner.stop(patience=0.2)
            return answers, outcome(await asyncio.gather(waiting, return_exceptions=True)), runner.alive

    assert run(scenario) == (False, ["RunnerDied"], False)


def test_a_child_is_stopped_by_the_end_of_its_input(run):
    """stop without patience to spare still finds it gone by itself, exit code 0."""

    async def scenario():
        async with running() as runner:
            await runner.stop()
            return runner._process.returncode

    assert run(scenario) == 0


@posix
def test_a_child_has_its_own_session(run):
    """So a Ctrl-C on the daemon's terminal does not reach it."""

    async def scenario():
        async with running() as runner:
            return os.getsid(runner.pid) == runner.pid

    assert run(scenario) is True
