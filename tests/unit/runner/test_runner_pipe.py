"""The child's side of the pipe: replies that no frame can hold, and decisions side by side."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from localdecide.core import frames
from localdecide.core.errors import ModelFailed
from localdecide.core.model import ModelSpec
from localdecide.runner import loaded, pipe
from localdecide.runner.queue import Job, WorkQueue


class Odd:
    """A model whose replies are given by the request itself."""

    cache_bytes = 7
    room = 0

    def __init__(self, info: Any) -> None:
        self._info = info

    def describe(self) -> Any:
        return self._info

    def handle(self, job: Job, interrupt: Any = None) -> Any:
        return {"value": {"nan": float("nan"), "set": {1}, "text": "ok"}[job.message["ask"]]}


class Said(io.BytesIO):
    """Frames written by the worker; `changed` is released for each."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Semaphore(0)

    def flush(self) -> None:
        self.changed.release()

    def messages(self) -> list[dict[str, Any]]:
        read = io.BytesIO(self.getvalue())
        return [*iter(lambda: frames.read(read), None)]


def work(monkeypatch: pytest.MonkeyPatch, info: Any, asked: list[str], expected: int) -> list[dict[str, Any]]:
    """What the worker says to these requests, when it has said `expected` frames."""
    queue = WorkQueue()
    for number, what in enumerate(asked):
        queue.put({"op": "decide", "id": number, "ask": what})
    return run(monkeypatch, Odd(info), queue, expected)


def run(monkeypatch: pytest.MonkeyPatch, model: Any, queue: WorkQueue, expected: int) -> list[dict[str, Any]]:
    """What the worker of a model says to what is in its queue, when it has said `expected` frames."""
    monkeypatch.setattr(loaded, "LoadedModel", lambda spec, options, progress: model)
    said = Said()
    first = {"op": "load", "spec": ModelSpec("odd", "fake:").to_wire()}
    threading.Thread(target=pipe._work, args=(first, pipe.Pipe(said), queue), daemon=True).start()
    for _ in range(expected):
        assert said.changed.acquire(timeout=30)
    return said.messages()


def test_a_reply_that_is_no_json_is_an_error_and_the_worker_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN and a set end as errors of their own requests; the request after them is answered."""
    ready, nan, odd, fine = work(monkeypatch, {}, ["nan", "set", "text"], 4)

    assert "ready" == ready["op"]
    assert [(0, "model_failed"), (1, "model_failed")] == [(said["id"], said["error"]["code"]) for said in (nan, odd)]
    assert {"id": 2, "result": {"value": "ok"}, "cache_bytes": 7} == fine


def test_a_description_that_is_no_json_fails_the_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """The daemon is told at once, rather than left to wait for a load that never ends."""
    (failed,) = work(monkeypatch, {"size": float("inf")}, [], 1)

    assert ("failed", "model_failed") == (failed["op"], failed["error"]["code"])


class Sharing:
    """A model on two lanes: a decision takes as many steps as its state says, and says what ran beside it."""

    cache_bytes = 7

    def __init__(self) -> None:
        self._left: dict[int, tuple[Job, int]] = {}

    def describe(self) -> Any:
        return {}

    @property
    def room(self) -> int:
        return 2 - len(self._left)

    @property
    def running(self) -> int:
        return len(self._left)

    def handle(self, job: Job, interrupt: Any = None) -> Any:
        return {"beside": sorted(self._left)}

    def start(self, job: Job) -> None:
        if job.message["decision"]["state"] == 0:
            raise ModelFailed("no steps")
        self._left[job.id] = job, job.message["decision"]["state"]

    def step(self) -> Iterator[tuple[Job, Any]]:
        beside = sorted(self._left)
        self._left = {number: (job, left - 1) for number, (job, left) in self._left.items()}
        for number, (job, left) in list(self._left.items()):
            if left == 0:
                del self._left[number]
                yield job, lambda: {"beside": beside}


def test_decisions_travel_together_and_a_score_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that gets free serves the next decision; a score waits for those before it, those after it for the
    score; a decision that cannot start is an error of its own, and a cancelled one is never heard of."""
    queue = WorkQueue()
    for number, steps in enumerate([3, 1, 0, 1, None, 2, 1, 1]):
        fields = {"op": "score"} if steps is None else {"op": "decide", "decision": {"state": steps}}
        queue.put({**fields, "id": number})
    queue.cancel(6)
    answered = run(monkeypatch, Sharing(), queue, 8)
    found = {each["id"]: each.get("result", each.get("error")) for each in answered[1:]}
    beside = [found[number]["beside"] for number in (0, 1, 3, 4, 5, 7)]

    assert [[0], [0, 1], [0, 3], [], [5], [5, 7]] == beside
    assert ("model_failed", 7) == (found[2]["code"], len(found))
