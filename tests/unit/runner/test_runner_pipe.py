"""The child's side of the pipe on a model that returns what no frame can hold."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from localdecide.core import frames
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
    monkeypatch.setattr(loaded, "LoadedModel", lambda spec, options, progress: Odd(info))
    said, queue = Said(), WorkQueue()
    for number, what in enumerate(asked):
        queue.put({"op": "decide", "id": number, "ask": what})
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
