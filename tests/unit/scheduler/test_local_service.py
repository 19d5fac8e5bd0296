"""The whole service over a real store and a runner process without a model."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFWriter

from localdecide import local, settings
from localdecide.core.decision import Decision
from localdecide.core.duration import KeepAlive
from localdecide.core.errors import (
    Busy,
    DoesNotFit,
    InvalidName,
    InvalidRequest,
    ModelNotFound,
    NumericalError,
    RunnerDied,
)
from localdecide.core.questions import parse_question
from localdecide.local import LocalService
from localdecide.scheduler import loop, process
from localdecide.scheduler.process import RunnerProcess
from localdecide.store.store import Store

FAKE = (str(Path(__file__).with_name("fake_runner.py")),)
posix = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX systems")


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """A GGUF of one small tensor with the header of a two-layer llama."""
    path = tmp_path_factory.mktemp("weights") / "toy.gguf"
    writer = GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_embedding_length(64)
    writer.add_head_count(4)
    writer.add_context_length(2048)
    writer.add_tensor("token_embd.weight", np.zeros((16, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def impatient(monkeypatch):
    """A runner that does not answer for half a second hangs."""
    monkeypatch.setattr(local, "PING_SECONDS", 0.5)
    monkeypatch.setattr(loop, "PROBE_SECONDS", 0.5)
    monkeypatch.setattr(process, "TERMINATE_SECONDS", 0.2)


@contextlib.asynccontextmanager
async def serving(tmp_path, weights, models=("a",), modelfile="", **overrides):
    """A service whose store holds `models`, each from the same weights."""
    store = Store(tmp_path / "models", tmp_path / "library")
    service = LocalService(
        settings.load({}, default_model="a", **overrides), store, functools.partial(RunnerProcess, command=FAKE)
    )
    for name in models:
        await create(service, weights, name, modelfile)
    try:
        yield service
    finally:
        await service.close(0)


async def create(service, weights, name, modelfile=""):
    request = {"model": name, "modelfile": f"FROM {weights}\n{modelfile}"}
    return [status async for status in service.create(request)]


def decision(state="hello"):
    return Decision(state, {"q": parse_question({"type": "noul", "instructions": "?"}, ("questions", "q"))})


def play(scenario):
    return asyncio.run(asyncio.wait_for(scenario(), 60))


def test_a_decision_loads_the_model_and_answers(tmp_path, weights):
    """The answer names the model it was served by and says how long it waited for it."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            first = await service.decide("a", decision())
            return first, await service.decide("a:latest", decision("again"))

    first, second = play(scenario)
    assert (first.model, first.input_tokens, list(first.readings)) == ("a:latest", 5, ["q"])
    assert first.load_seconds > second.load_seconds >= 0


@pytest.mark.parametrize("name", [None, "", "jev-latest"])
def test_no_name_means_the_default_model(tmp_path, weights, name):
    """And so does the name that clients of another service send by themselves."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            return (await service.decide(name, decision())).model, await service.resolve(name)

    assert play(scenario) == ("a:latest", "a:latest")


def test_an_unknown_name_is_not_found_and_the_nearest_is_offered(tmp_path, weights):
    """The sentence begins as Ollama's and ends with the way on; no runner starts."""

    async def scenario():
        async with serving(tmp_path, weights, ("sentiment",)) as service:
            results = await asyncio.gather(
                service.decide("sentimant", decision()), service.resolve("b/d/n/ame"), return_exceptions=True
            )
            return results, service.scheduler.runners

    (missing, invalid), runners = play(scenario)
    assert type(missing) is ModelNotFound
    assert missing.message.startswith("model 'sentimant' not found")
    assert "'sentiment" in missing.message.removeprefix("model 'sentimant' not found")
    assert missing.details["suggestion"].startswith("sentiment")
    assert type(invalid) is InvalidName
    assert runners == {}


def test_a_library_model_is_made_on_first_use(tmp_path, weights):
    """A name that the library knows needs no create; many first requests make it once."""
    folder = tmp_path / "library" / "known"
    folder.mkdir(parents=True)
    package = tmp_path / "packages" / "toy_weights_of_a_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    os.link(weights, package / "toy.gguf")
    (folder / "Modelfile").write_text("FROM package:toy_weights_of_a_test/toy.gguf\n")

    async def scenario():
        async with serving(tmp_path, weights, ()) as service:
            results = await asyncio.gather(*(service.decide("known", decision()) for _ in range(5)))
            return {result.model for result in results}, [card.name for card in await service.models()]

    sys.path.insert(0, str(package.parent))
    try:
        assert play(scenario) == ({"known:latest"}, ["known:latest"])
    finally:
        sys.path.remove(str(package.parent))


def test_the_keep_alive_of_request_model_and_server(tmp_path, weights):
    """The request's, else the model's PARAMETER, else the server's; a plain request keeps a pin."""

    async def scenario():
        async with serving(tmp_path, weights, ("plain",), keep_alive="77s") as service:
            await create(service, weights, "own", "PARAMETER keep_alive 1h")
            for name in ("plain", "own"):
                await service.decide(name, decision())
            keeps = {name: slot.keep for name, slot in service.scheduler.state.slots.items()}
            await service.decide("plain", decision(), KeepAlive(float("inf")))
            await service.decide("plain", decision())
            return keeps, [(one.card.name, one.expires_at is None) for one in await service.loaded()]

    assert play(scenario) == (
        {"plain:latest": 77.0, "own:latest": 3600.0},
        [("plain:latest", True), ("own:latest", False)],
    )


def test_keep_alive_zero_unloads_after_the_request(tmp_path, weights):
    """The answer comes, and then the runner goes."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            answer = await service.decide("a", decision(), KeepAlive(0.0))
            for _ in range(200):
                if not service.scheduler.runners:
                    break
                await asyncio.sleep(0.02)
            return answer.model, await service.loaded()

    assert play(scenario) == ("a:latest", [])


def test_load_and_unload(tmp_path, weights):
    """load says what is resident; unload returns when it is gone, and False when there was nothing."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            loaded = await service.load("a", KeepAlive(float("inf")))
            names = [one.card.name for one in await service.loaded()]
            return loaded, names, await service.unload("a"), await service.loaded(), await service.unload("a")

    loaded, names, first, after, second = play(scenario)
    assert (loaded.card.name, loaded.state, loaded.expires_at, loaded.context_length) == (
        "a:latest",
        "ready",
        None,
        2048,
    )
    assert loaded.size > weights.stat().st_size
    assert (names, first, after, second) == (["a:latest"], True, [], False)


def test_errors_of_the_runner_come_through(tmp_path, weights):
    """With their type; the runner stays."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            results = await asyncio.gather(service.decide("a", decision("error")), return_exceptions=True)
            return type(results[0]), (await service.decide("a", decision())).model

    assert play(scenario) == (NumericalError, "a:latest")


@posix
def test_kill_9_of_a_runner_under_twenty_requests(tmp_path, weights):
    """Each gets an answer or RunnerDied, none waits for ever, and the next request succeeds."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            await service.decide("a", decision())
            pid = service.scheduler.runners["a:latest"].pid
            requests = [asyncio.create_task(service.decide("a", decision({"sleep": 0.3}))) for _ in range(20)]
            await asyncio.sleep(0.45)
            os.kill(pid, signal.SIGKILL)
            results = await asyncio.gather(*requests, return_exceptions=True)
            after = await service.decide("a", decision())
            return (
                {type(result).__name__ for result in results},
                after.model,
                service.scheduler.runners["a:latest"].pid != pid,
            )

    assert play(scenario) == ({"Result", "RunnerDied"}, "a:latest", True)


@posix
def test_the_request_right_after_a_kill_succeeds(tmp_path, weights):
    """Though it may reach a process that is dying and not yet dead."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            served = []
            for _ in range(5):
                await service.load("a")
                os.kill(service.scheduler.runners["a:latest"].pid, signal.SIGKILL)
                served.append((await service.decide("a", decision())).model)
            return served

    assert play(scenario) == ["a:latest"] * 5


def test_a_request_that_kills_every_runner_fails(tmp_path, weights):
    """It is tried at most twice."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            return await asyncio.gather(service.decide("a", decision("die")), return_exceptions=True)

    assert [type(result) for result in play(scenario)] == [RunnerDied]


@posix
def test_unload_ends_a_runner_that_hangs(tmp_path, weights, impatient):
    """Stopped by SIGSTOP with a request in it: the request fails, the runner goes, the next request works."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            waiting = asyncio.create_task(service.decide("a", decision({"sleep": 60})))
            while not service.scheduler.state.slots or not service.scheduler.state.slots["a:latest"].users:
                await asyncio.sleep(0.02)
            os.kill(service.scheduler.runners["a:latest"].pid, signal.SIGSTOP)
            async with asyncio.timeout(15):
                unloaded = await service.unload("a")
            failed = await asyncio.gather(waiting, return_exceptions=True)
            return unloaded, type(failed[0]), (await service.decide("a", decision())).model

    assert play(scenario) == (True, RunnerDied, "a:latest")


def test_three_models_with_room_for_one(tmp_path, weights):
    """12 requests over three models that may not be resident together all finish."""

    async def scenario():
        async with serving(tmp_path, weights, ("a", "b", "c"), max_loaded_models="1") as service:
            asked = [name for _ in range(4) for name in ("a", "b", "c")]
            results = await asyncio.gather(*(service.decide(name, decision()) for name in asked))
            return [result.model for result in results], len(service.scheduler.state.slots)

    assert play(scenario) == (["a:latest", "b:latest", "c:latest"] * 4, 1)


def test_the_queue_and_the_memory_have_bounds(tmp_path, weights):
    """Over the queue's bound comes Busy with a time to wait; a model that cannot fit, both numbers."""

    async def scenario():
        async with serving(tmp_path / "one", weights, max_queue="2") as service:
            many = [service.decide("a", decision({"sleep": 0.1})) for _ in range(12)]
            busy = [one for one in await asyncio.gather(*many, return_exceptions=True) if isinstance(one, Exception)]
        async with serving(tmp_path / "two", weights, memory="1MiB") as service:
            return busy, await asyncio.gather(service.load("a"), return_exceptions=True)

    busy, (too_large,) = play(scenario)
    assert [(type(error), error.retry_after >= 1) for error in busy] == [(Busy, True)] * 10
    assert type(too_large) is DoesNotFit
    assert (too_large.details["needed"] > 2**20, too_large.details["available"]) == (True, 2**20)


def test_a_model_that_is_made_anew_or_removed_is_unloaded(tmp_path, weights):
    """The old runner goes; requests get the new form, or ModelNotFound."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            await service.decide("a", decision())
            old = service.scheduler.runners["a:latest"]
            await create(service, weights, "a", "PARAMETER num_ctx 512")
            again = await service.load("a")
            new = service.scheduler.runners["a:latest"]
            await service.delete("a")
            gone = await asyncio.gather(service.decide("a", decision()), return_exceptions=True)
            return new is old, old.alive, again.card.digest != "", new.alive, type(gone[0])

    assert play(scenario) == (False, False, True, False, ModelNotFound)


def test_create_copy_show_and_list(tmp_path, weights):
    """Progress ends in success; a copy has its own name; show is the store's body; bad requests raise."""

    async def scenario():
        async with serving(tmp_path, weights, ()) as service:
            statuses = await create(service, weights, "first")
            await service.copy("first", "second")
            shown = await service.show("second")
            bad = await asyncio.gather(create(service, weights, "x", "PARAMETER colour blue"), return_exceptions=True)
            return (
                statuses[-1],
                sorted(card.name for card in await service.models()),
                "FROM" in shown["modelfile"],
                bad[0],
            )

    last, names, shown, bad = play(scenario)
    assert (last, names, shown) == ({"status": "success"}, ["first:latest", "second:latest"], True)
    assert isinstance(bad, InvalidRequest)


def test_pull_brings_a_model_in(tmp_path, weights):
    """Ollama's progress, then the model answers; what is nowhere raises."""

    async def scenario():
        async with serving(tmp_path, weights, (), offline="1") as service:
            request = {"model": str(weights), "as": "pulled"}
            statuses = [line["status"] async for line in service.pull(request)]
            return statuses[0], statuses[-1], (await service.decide("pulled", decision())).model

    assert play(scenario) == ("pulling manifest", "success", "pulled:latest")


def test_a_score_names_its_model(tmp_path, weights):
    """The runner's answer with the served name."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            return await service.score(None, {"prompts": ["x"]})

    assert play(scenario) == {"scores": [[1.0]], "echo": {"prompts": ["x"]}, "model": "a:latest"}


@posix
def test_health_covers_scheduler_and_runners(tmp_path, weights, impatient):
    """Ready with an answering runner; not ready with one that hangs."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            await service.load("a")
            well = await service.health()
            os.kill(service.scheduler.runners["a:latest"].pid, signal.SIGSTOP)
            return well, await service.health()

    well, ill = play(scenario)
    assert well == {"ready": True, "scheduler": True, "runners": {"a:latest": True}, "queued": 0}
    assert (ill["ready"], ill["scheduler"], ill["runners"]) == (False, True, {"a:latest": False})


def test_close_finishes_what_runs_and_ends_every_runner(tmp_path, weights):
    """Within its grace; what comes after is refused."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            await service.load("a")
            runner = service.scheduler.runners["a:latest"]
            running = asyncio.create_task(service.decide("a", decision({"sleep": 0.3})))
            await asyncio.sleep(0.1)
            await service.close(10)
            late = await asyncio.gather(service.decide("a", decision()), return_exceptions=True)
            return (await running).model, runner.alive, isinstance(late[0], Exception)

    assert play(scenario) == ("a:latest", False, True)


def test_a_hung_runner_ends_soon_enough():
    """Probe, patience, terminate, and the patience of an ordinary stop: each way under 10 seconds."""
    probed = loop.PROBE_SECONDS + loop.HUNG_PATIENCE + process.TERMINATE_SECONDS
    stopped = inspect.signature(RunnerProcess.stop).parameters["patience"].default + process.TERMINATE_SECONDS
    assert (probed <= 8, stopped <= 8) == (True, True)


@posix
def test_close_ends_a_runner_that_hangs_before_its_grace(tmp_path, weights, impatient):
    """The request in it fails at once then, and does not hold the daemon for the whole grace."""

    async def scenario():
        async with serving(tmp_path, weights) as service:
            await service.load("a")
            waiting = asyncio.create_task(service.decide("a", decision({"sleep": 60})))
            await asyncio.sleep(0.2)
            os.kill(service.scheduler.runners["a:latest"].pid, signal.SIGSTOP)
            await service.close(3600)
            return type((await asyncio.gather(waiting, return_exceptions=True))[0])

    assert play(scenario) is RunnerDied


def test_the_daemon_imports_neither_numpy_nor_llama_cpp():
    """Its memory is for requests; models live in children."""
    heavy = "{'numpy', 'llama_cpp', 'torch'}"
    code = f"import sys, localdecide.local, localdecide.store.depot; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert done.stdout.strip() == "[]"
