"""The child's side of the pipe: frames in on stdin, frames out on the stdout it was born with.

The main thread reads; one worker thread owns the model. End of input, or the daemon's death, ends
the process at once: nothing here is worth saving.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

from localdecide.core import frames
from localdecide.core.errors import LocaldecideError, ModelFailed
from localdecide.core.model import ModelSpec
from localdecide.engine.base import Work
from localdecide.runner.queue import Job, WorkQueue

logger = logging.getLogger(__name__)


class Pipe:
    """Writes frames whole, from any thread."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        """Raises ValueError or TypeError, with nothing written, for what is not JSON: NaN, an array."""
        data = frames.encode(message)
        with self._lock:
            self._stream.write(data)
            self._stream.flush()


def main() -> None:
    """Load what the first frame names, then answer until the pipe closes."""
    # Libraries print to stdout as they like; frames keep the real one for themselves.
    pipe = Pipe(os.fdopen(os.dup(sys.stdout.fileno()), "wb"))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    level = os.environ.get("LOCALDECIDE_LOG_LEVEL", "info").upper()
    logging.basicConfig(level=level, format="%(levelname)s %(message)s")
    source = sys.stdin.buffer
    first = frames.read(source)
    if first is None or first.get("op") != "load":
        return
    queue = WorkQueue()
    worker = threading.Thread(target=_work_or_end, args=(first, pipe, queue), name="model", daemon=True)
    worker.start()
    try:
        while (message := frames.read(source)) is not None and message.get("op") != "stop":
            if message["op"] == "cancel":
                queue.cancel(message["id"])
            elif message["op"] == "ping":
                pipe.send({"id": message["id"], "result": {"waiting": len(queue)}})
            else:
                queue.put(message)
    finally:
        # The worker may be deep inside llama.cpp; a process ends faster than it can be asked.
        logging.shutdown()
        os._exit(0)


def _work_or_end(first: dict[str, Any], pipe: Pipe, queue: WorkQueue) -> None:
    """`_work`; a fault outside every request ends the process, which the daemon sees, and not this thread alone."""
    try:
        _work(first, pipe, queue)
    except BaseException:
        logger.exception("the runner cannot go on")
        logging.shutdown()
        os._exit(1)


def _work(first: dict[str, Any], pipe: Pipe, queue: WorkQueue) -> None:
    from localdecide.runner.loaded import LoadedModel

    try:
        spec = ModelSpec.from_wire(first["spec"])
        model = LoadedModel(
            spec, first.get("options", {}), lambda done: pipe.send({"op": "progress", "fraction": done})
        )
        pipe.send({"op": "ready", "info": model.describe()})
    except Exception as error:
        pipe.send({"op": "failed", "error": _wire(error)})
        return

    def answer(job: Job, ask: Callable[[], dict[str, Any]]) -> None:
        # A reply that is not JSON must not end this thread: a runner without it answers pings and nothing else.
        try:
            pipe.send({"id": job.id, "result": ask(), "cache_bytes": model.cache_bytes})
        except Exception as error:
            pipe.send({"id": job.id, "error": _wire(error)})
        finally:
            queue.done(job)

    def between(running: Job) -> Work | None:
        """A much shorter job that waits behind a long one: it is answered between two parts of its state."""
        shorter = queue.take_shorter(running)
        return None if shorter is None else partial(answer, shorter, partial(model.handle, shorter))

    def start(job: Job) -> None:
        try:
            model.start(job)
        except Exception as error:
            pipe.send({"id": job.id, "error": _wire(error)})
            queue.done(job)

    while True:
        job = queue.take()
        if not (job.is_decision and model.room):
            answer(job, partial(model.handle, job, partial(between, job)))
            continue
        start(job)
        while model.running:
            while model.room and (next_job := queue.take_decision()):
                start(next_job)
            for ended, result in model.step():
                answer(ended, result)


def _wire(error: Exception) -> dict[str, Any]:
    if isinstance(error, LocaldecideError):
        return error.to_wire()
    logger.exception("unexpected error", exc_info=error)
    return ModelFailed(f"internal error: {type(error).__name__}: {error}").to_wire()
