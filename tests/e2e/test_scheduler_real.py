"""The service of this machine with real runners and the default model: what holds when things go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localdecide import settings
from localdecide.core.decision import Decision, Result
from localdecide.core.duration import KeepAlive
from localdecide.core.errors import BadModelFile, RunnerDied
from localdecide.core.questions import parse_question
from localdecide.local import LocalService
from localdecide.store.store import Store

MODEL = "smollm2:latest"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")


@pytest.fixture(scope="module")
def models(tmp_path_factory, smollm2):
    """A store that holds the default model; hashing it once is enough."""
    root = tmp_path_factory.mktemp("store")
    Store(root).resolve("smollm2")
    return root


@contextlib.asynccontextmanager
async def serving(models, **overrides):
    service = LocalService(settings.load({}, **overrides), Store(models))
    try:
        yield service
    finally:
        await service.close(5)


def decision(state="I was charged twice. Refund me today."):
    question = {
        "type": "choice",
        "instructions": "Which team?",
        "criteria": {"billing": "payments", "technical": "bugs"},
    }
    return Decision(state, {"team": parse_question(question, ("questions", "team"))})


def play(scenario, seconds=120):
    return asyncio.run(asyncio.wait_for(scenario(), seconds))


def long():
    """A state that takes a runner some time to read."""
    return "again " * 1200


def test_kill_9_of_a_runner_during_twenty_requests(models):
    """Each gets an answer or RunnerDied, the next request succeeds, with the same numbers as before."""

    async def scenario():
        async with serving(models) as service:
            before = await service.decide(None, decision())
            requests = [asyncio.create_task(service.decide(None, decision(long()))) for _ in range(20)]
            await asyncio.sleep(0.3)
            os.kill(service.scheduler.runners[MODEL].pid, signal.SIGKILL)
            first = await asyncio.wait(requests, return_when=asyncio.FIRST_EXCEPTION)
            died = [task for task in first[0] if isinstance(task.exception(), RunnerDied)]
            for task in first[1]:
                task.cancel()
            results = await asyncio.gather(*requests, return_exceptions=True)
            after = await service.decide(None, decision())
            return len(died), {type(result) for result in results}, before.readings, after.readings

    died, kinds, before, after = play(scenario)
    assert 1 <= died <= 4
    assert kinds <= {Result, RunnerDied, asyncio.CancelledError}
    assert before == after


def test_a_hung_runner_is_stopped_within_ten_seconds(models):
    """SIGSTOP with a request in it: the stop ends it, the request fails, the next one succeeds."""

    async def scenario():
        async with serving(models) as service:
            await service.load(None)
            waiting = asyncio.create_task(service.decide(None, decision(long())))
            await asyncio.sleep(0.1)
            os.kill(service.scheduler.runners[MODEL].pid, signal.SIGSTOP)
            async with asyncio.timeout(10):
                stopped = await service.unload(None)
            failed = await asyncio.gather(waiting, return_exceptions=True)
            return stopped, type(failed[0]), (await service.decide(None, decision())).model

    assert play(scenario) == (True, RunnerDied, MODEL)


def test_a_pinned_model_stays_pinned(models):
    """keep_alive for ever, then a plain request."""

    async def scenario():
        async with serving(models, keep_alive="1s") as service:
            await service.decide(None, decision(), KeepAlive(float("inf")))
            await service.decide(None, decision())
            (loaded,) = await service.loaded()
            return loaded.expires_at, loaded.state

    assert play(scenario) == (None, "ready")


def test_a_cancelled_request_leaves_the_runner_free(models):
    """Dropped work is not computed: the next answer comes though 50 long requests were abandoned."""

    async def scenario():
        async with serving(models) as service:
            await service.load(None)
            abandoned = [asyncio.create_task(service.decide(None, decision(long()))) for _ in range(50)]
            await asyncio.sleep(0.2)
            for task in abandoned:
                task.cancel()
            await asyncio.gather(*abandoned, return_exceptions=True)
            answer = await service.decide(None, decision())
            info = await service.scheduler.runners[MODEL].request("ping", {})
            return answer.model, info, (await service.health())["queued"]

    assert play(scenario) == (MODEL, {"waiting": 0}, 0)


def test_a_broken_file_is_refused_and_the_daemon_lives_on(models, tmp_path):
    """A file that is no GGUF once its model was made: an error that says so, then other models answer."""

    async def scenario():
        async with serving(models) as service:
            found = service.store.resolve("smollm2")
            broken = tmp_path / "broken.gguf"
            broken.write_bytes(found.path.read_bytes()[: 3 << 20])
            results = []
            try:
                async for _ in service.create({"model": "broken", "modelfile": f"FROM {broken}"}):
                    pass
                await service.decide("broken", decision())
            except BadModelFile as error:
                results.append(type(error))
            return results, (await service.decide(None, decision())).model

    assert play(scenario) == ([BadModelFile], MODEL)


ORPHAN = """
import asyncio, sys
from localdecide import settings
from localdecide.core.decision import Decision
from localdecide.core.questions import parse_question
from localdecide.local import LocalService
from localdecide.store.store import Store

async def main():
    service = LocalService(settings.load({}), Store(sys.argv[1]))
    await service.load(None)
    question = parse_question({"type": "noul", "instructions": "Is it urgent?"}, ())
    working = asyncio.create_task(service.decide(None, Decision("again " * 1200, {"urgent": question})))
    await asyncio.sleep(0.1)
    print(service.scheduler.runners["smollm2:latest"].pid, flush=True)
    await working
    await asyncio.sleep(60)

asyncio.run(main())
"""


def test_a_runner_ends_with_its_daemon(models):
    """kill -9 of the daemon while the model computes: the child sees the end of its input and goes."""
    daemon = subprocess.Popen([sys.executable, "-c", ORPHAN, str(models)], stdout=subprocess.PIPE, text=True)
    with daemon:
        runner = int(daemon.stdout.readline())
        daemon.kill()
    assert any(gone(runner) or time.sleep(0.05) for _ in range(400))


def gone(pid):
    """Whether no such process runs; one that only waits for its parent's notice has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with contextlib.suppress(FileNotFoundError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    return False


@pytest.mark.slow
def test_fifty_random_requests_over_three_models_with_room_for_one(models):
    """All finish with the answers that each model gives alone, and models are not swapped for every request."""
    names = {"one": 512, "two": 1024, "three": 2048}

    async def scenario():
        async with serving(models, max_loaded_models="1") as service:
            for name, context in names.items():
                text = f"FROM smollm2\nPARAMETER num_ctx {context}"
                async for _ in service.create({"model": name, "modelfile": text}):
                    pass
            alone = {name: (await service.decide(name, decision())).readings for name in names}
            chance = random.Random(7)
            asked = [chance.choice(list(names)) for _ in range(50)]
            loads = service.scheduler.state.serial
            results = await asyncio.gather(*(service.decide(name, decision()) for name in asked))
            loads = service.scheduler.state.serial - loads
            right = [result.readings == alone[name] for name, result in zip(asked, results, strict=True)]
            served = [result.model for result in results] == [f"{name}:latest" for name in asked]
            return all(right), served, loads <= 10, len(service.scheduler.state.slots)

    assert play(scenario, 300) == (True, True, True, 1)


CYCLES = """
import asyncio, os, sys
from localdecide import settings
from localdecide.core.decision import Decision
from localdecide.core.questions import parse_question
from localdecide.local import LocalService
from localdecide.store.store import Store

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    service = LocalService(settings.load({}), Store(sys.argv[1]))
    question = parse_question({"type": "noul", "instructions": "Is it urgent?"}, ())
    for cycle in range(20):
        await service.decide(None, Decision("The house is on fire.", {"urgent": question}))
        await service.unload(None)
        if cycle == 3:
            settled = resident()
    print(len(await service.loaded()), settled, resident())
    await service.close(1)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_twenty_load_and_unload_cycles_keep_memory_flat(models):
    """After the fourth cycle the daemon's side grows by less than 3 MiB, and stays under 60 MiB."""
    done = subprocess.run([sys.executable, "-c", CYCLES, str(models)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    loaded, settled, last = map(int, done.stdout.split())
    assert loaded == 0
    assert last - settled < 3 * 2**20
    assert last < 60 * 2**20
