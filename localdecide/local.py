"""The decision service of this machine: models from the store, runners from the scheduler.

Nothing here waits on the disk in the event loop, and nothing here imports llama.cpp or NumPy.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from localdecide.core import frames, names
from localdecide.core.decision import Decision, Result
from localdecide.core.duration import KeepAlive
from localdecide.core.errors import InvalidName, LocaldecideError, ModelFailed, ModelNotFound, RunnerDied
from localdecide.core.model import ModelSpec
from localdecide.scheduler import machine, memory
from localdecide.scheduler.loop import Scheduler
from localdecide.scheduler.process import RunnerProcess
from localdecide.scheduler.seams import Runner
from localdecide.scheduler.state import Limits, Slot
from localdecide.scheduler.stream import stream
from localdecide.scheduler.wanted import Wanted, wanted
from localdecide.service import LoadedModel, ModelCard
from localdecide.settings import Settings
from localdecide.store.catalog import StoredModel
from localdecide.store.derived import derived_folder, measured_folder
from localdecide.store.store import Store

if TYPE_CHECKING:
    from localdecide.store.depot import Depot

T = TypeVar("T")

DEFAULT_NAMES = (None, "", "jev-latest")
PING_SECONDS = 3.0


class LocalService:
    """See `service.DecisionService`. Everything on one event loop, which the first call settles."""

    def __init__(
        self, settings: Settings, store: Store | None = None, make_runner: Callable[..., Runner] = RunnerProcess
    ):
        """make_runner: called with a spec, its load options and `load_timeout`."""
        self.settings = settings
        self.store = store or Store()
        self._make_runner = make_runner
        reading = machine.read()
        whole = memory.usable(settings.memory, machine.Reading(reading.total, reading.total), 0)
        self._cache = memory.cache_bytes(settings.cache_bytes, whole)
        self._known: dict[str, Wanted] = {}
        self._recent: dict[str, Wanted] = {}  # by the name that was asked for
        self._preparing: dict[str, asyncio.Task[Wanted]] = {}
        self._descriptions: dict[tuple[str, str], dict[str, Any]] = {}
        self._jobs: set[asyncio.Task[Any]] = set()

    @functools.cached_property
    def scheduler(self) -> Scheduler:
        """Made when first needed: it belongs to the running event loop."""
        limits = Limits(models=self.settings.max_loaded_models, queue=self.settings.max_queue)
        return Scheduler(self._runner, asyncio.get_running_loop(), self._budget, limits)

    def _budget(self, resident: int) -> int:
        return memory.usable(self.settings.memory, machine.read(), resident)

    def _runner(self, spec: ModelSpec) -> Runner:
        options: dict[str, Any] = {
            "cache_bytes": self._cache,
            "parallel": self.settings.num_parallel,
            "measured": str(measured_folder(self.store.root)),
        }
        if self.settings.fast_weights == "auto":
            options |= {"derived": str(derived_folder(self.store.root)), "memory": self._budget(0)}
        return self._make_runner(spec, options, load_timeout=self.settings.load_timeout.seconds)

    # Decisions.

    async def decide(self, model: str | None, decision: Decision, keep_alive: KeepAlive | None = None) -> Result:
        """See `DecisionService.decide`."""
        model_wanted = await self._prepare(model)
        if frames.is_long(decision.questions, decision.images):
            wire = await asyncio.to_thread(frames.decision_to_wire, decision)
            answer, waited = await self._ask(model_wanted, "decide", {"decision": wire}, keep_alive)
            return await asyncio.to_thread(frames.result_from_wire, {**answer, "load_seconds": waited})
        wire = frames.decision_to_wire(decision)
        answer, waited = await self._ask(model_wanted, "decide", {"decision": wire}, keep_alive)
        return frames.result_from_wire({**answer, "load_seconds": waited})

    async def score(self, model: str | None, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the runner's score says, and `model`."""
        model_wanted = await self._prepare(model)
        answer, _ = await self._ask(model_wanted, "score", {"request": dict(request)}, None)
        return {**answer, "model": model_wanted.name}

    async def _ask(
        self, model: Wanted, op: str, fields: Mapping[str, Any], keep: KeepAlive | None
    ) -> tuple[dict[str, Any], float]:
        """One request to a runner, and the seconds it waited for that."""
        clock = asyncio.get_running_loop()
        started = clock.time()
        for last_try in (False, True):
            async with self._lease(model, keep) as runner:
                waited = clock.time() - started
                try:
                    return await runner.request(op, fields), waited
                except RunnerDied as error:
                    # A runner that was dying when the request was written never read it.
                    if last_try or not error.details.get("fresh"):
                        raise
        raise AssertionError("the second try returns or raises")

    def _lease(self, model: Wanted, keep: KeepAlive | None) -> contextlib.AbstractAsyncContextManager[Runner]:
        return self.scheduler.lease(
            model.spec,
            version=model.version,
            need=model.need,
            keep=keep.seconds if keep else None,
            default_keep=model.keep,
        )

    # What is loaded.

    async def load(self, model: str | None, keep_alive: KeepAlive | None = None) -> LoadedModel:
        """See `DecisionService.load`."""
        model_wanted = await self._prepare(model)
        async with self._lease(model_wanted, keep_alive):
            return self._loaded(self.scheduler.state.slots[model_wanted.name])

    async def unload(self, model: str | None) -> bool:
        """Returns when the runner is gone: after its requests, or within 10 seconds if it hangs."""
        return await self.scheduler.unload(await self._name(model))

    async def loaded(self) -> list[LoadedModel]:
        """Longest remaining first."""
        slots = sorted(self.scheduler.state.slots.values(), key=lambda slot: slot.expires, reverse=True)
        return [self._loaded(slot) for slot in slots]

    def _loaded(self, slot: Slot) -> LoadedModel:
        runner = self.scheduler.runners.get(slot.model)
        info = dict(runner.info) if runner else {}
        engine = info.get("engine") or {}
        known = self._known[slot.model]
        left = slot.keep if slot.users else slot.expires - asyncio.get_running_loop().time()
        return LoadedModel(
            card=card(known.model),
            size=slot.bytes - known.cache + int(engine.get("cache_bytes") or 0),
            size_vram=int(engine.get("vram_bytes") or 0),
            context_length=int(engine.get("context") or known.estimate.context),
            expires_at=expiry(left),
            state="stopping" if slot.going else slot.phase,
            info=info,
        )

    # What is installed.

    async def models(self) -> list[ModelCard]:
        return [card(model) for model in await asyncio.to_thread(self.store.list)]

    async def show(self, model: str | None, *, verbose: bool = False, reading: bool = False) -> dict[str, Any]:
        """The store's body, and `loaded` with what the runner says of itself where there is one.

        reading: where there is none, `described` with the same, or with `error`, why it cannot be read.
        """
        known = await self._prepare(model)
        body = await asyncio.to_thread(self.store.show, known.name, verbose=verbose)
        if (runner := self.scheduler.runners.get(known.name)) and runner.info:
            body["loaded"] = dict(runner.info)
        elif reading:
            body["described"] = await self._described(known)
        return body

    async def _described(self, known: Wanted) -> dict[str, Any]:
        """What a runner without weights says of a model, asked once for each version of it."""
        key = (known.name, known.version)
        if key not in self._descriptions:
            runner = self._make_runner(known.spec, {"describe": True}, load_timeout=self.settings.load_timeout.seconds)
            try:
                await runner.start()
                self._descriptions[key] = {name: runner.info[name] for name in ("family", "joint", "reading")}
            except ModelFailed as error:  # a dead child may have been killed for memory; another may live
                return {"error": error.message}
            except LocaldecideError as error:
                self._descriptions[key] = {"error": error.message}
            finally:
                await runner.stop()
        return self._descriptions[key]

    async def resolve(self, model: str | None) -> str:
        return (await self._prepare(model)).name

    def create(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """See `DecisionService.create`. A model that is loaded in an older form is unloaded."""
        return self._changing(request, lambda stop: self.store.create(request))

    def pull(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """See `DecisionService.pull`. A model that is loaded in an older form is unloaded."""
        return self._changing(request, lambda stop: self._depot.pull(request, stop))

    def job(self, kind: str, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """See `DecisionService.job`. A model that is loaded in an older form is unloaded."""
        return self._changing(request, lambda stop: self._depot.job(kind, request, stop))

    async def look(self, kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """See `DecisionService.look`."""
        return await asyncio.to_thread(lambda: self._depot.look(kind, request))

    async def has_blob(self, digest: str) -> bool:
        return await asyncio.to_thread(self.store.catalog.blobs.has, digest)

    async def add_blob(self, digest: str, chunks: AsyncIterator[bytes]) -> None:
        """See `DecisionService.add_blob`."""
        upload = await asyncio.to_thread(self.store.catalog.blobs.upload, digest)
        with upload:
            async for chunk in chunks:
                await asyncio.to_thread(upload.write, chunk)
            await asyncio.to_thread(upload.finish)

    @functools.cached_property
    def _depot(self) -> Depot:
        # Imported when a model is first pulled: it brings the libraries of every source.
        from localdecide.store.depot import Depot

        return Depot(self.store, offline=self.settings.offline)

    async def _changing(
        self, request: Mapping[str, Any], change: Callable[[threading.Event], Iterator[dict[str, Any]]]
    ) -> AsyncIterator[dict[str, Any]]:
        async with contextlib.aclosing(stream(change)) as progress:
            async for status in progress:
                yield status
        await self._unload_changed(str(request.get("as") or request.get("model") or request.get("name") or ""))

    async def copy(self, source: str, destination: str) -> None:
        await self._prepare(source)
        await asyncio.to_thread(self.store.copy, source, destination)
        await self._unload_changed(destination)

    async def delete(self, model: str) -> None:
        """A loaded model ends its requests first: some systems do not remove a file that is in use."""
        found = await asyncio.to_thread(self.store.find, model)
        if found:
            await self.scheduler.unload(str(found.name))
        await asyncio.to_thread(self.store.delete, model)

    async def _unload_changed(self, text: str) -> None:
        found = await asyncio.to_thread(self.store.find, text) if names.is_valid(text) else None
        slot = self.scheduler.state.slots.get(str(found.name)) if found else None
        if found and slot and slot.version != found.digest:
            self._job(self.scheduler.unload(slot.model))

    # Names.

    async def _name(self, model: str | None) -> str:
        """The name of a model that may be loaded though its files are gone."""
        text = self.settings.default_model if model in DEFAULT_NAMES else str(model)
        if names.is_valid(text) and (name := str(names.parse(text))) in self.scheduler.state.slots:
            return name
        return (await self._prepare(model)).name

    async def _prepare(self, model: str | None) -> Wanted:
        """What to load for a name; one preparation for all who ask at once, which goes on when they leave."""
        text = self.settings.default_model if model in DEFAULT_NAMES else str(model)
        recent = self._recent.get(text)
        if recent and recent.name in self.scheduler.state.slots and self.store.catalog.unchanged(recent.model):
            return recent
        task = self._preparing.get(text)
        if task is None:
            task = self._preparing[text] = self._job(asyncio.to_thread(self._prepare_now, text))
            task.add_done_callback(lambda _: self._preparing.pop(text, None))
        found = await asyncio.shield(task)
        if len(self._recent) > 256:  # spellings of names, not models
            self._recent.clear()
        self._known[found.name] = self._recent[text] = found
        return found

    def _prepare_now(self, text: str) -> Wanted:
        try:
            model = self.store.resolve(text)
        except ModelNotFound as error:
            raise ModelNotFound(error.message + hint(error.details), error.details) from None
        except InvalidName as error:
            raise InvalidName(f"{error.message}: {text!r}"[:200], error.details) from None
        return wanted(model, self.settings.keep_alive, self._cache, self.store.root, self.settings.num_parallel)

    def _job(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)
        return task

    # The daemon's own life.

    async def health(self) -> dict[str, Any]:
        """ready: the loop runs and every loaded runner answers. queued: requests that wait, all models together."""
        scheduler = self.scheduler
        turning = scheduler.turns()
        ready = [slot.model for slot in scheduler.state.slots.values() if slot.phase == "ready"]
        answers = await asyncio.gather(*(scheduler.runners[name].ping(PING_SECONDS) for name in ready))
        runners = dict(zip(ready, answers, strict=True))
        return {
            "ready": turning and all(answers),
            "scheduler": turning,
            "runners": runners,
            "queued": len(scheduler.state.waiting),
        }

    async def close(self, grace: float) -> None:
        """See `DecisionService.close`."""
        await self.scheduler.close(grace)
        for job in tuple(self._jobs):
            job.cancel()
        await asyncio.gather(*self._jobs, return_exceptions=True)


def card(model: StoredModel) -> ModelCard:
    return ModelCard(**model.card())


def expiry(left: float) -> str | None:
    """RFC 3339 of a time in `left` seconds; None for never."""
    try:
        return (datetime.now(UTC) + timedelta(seconds=left)).isoformat().replace("+00:00", "Z")
    except OverflowError:
        return None


def hint(details: Mapping[str, Any]) -> str:
    """The way on from "model 'x' not found"."""
    if command := details.get("pull"):
        return f"; get it with: {command}"
    if near := details.get("suggestion"):
        return f"; did you mean '{near}'?"
    return ""
