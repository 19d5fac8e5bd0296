"""Work that waits for the model: first in, first out; cancelled work is dropped or told to stop."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Job:
    """One request of the daemon. cancelled: set once nobody waits for it any more."""

    id: int
    message: dict[str, Any]
    cancelled: threading.Event = field(default_factory=threading.Event)


class WorkQueue:
    """Filled by the thread that reads the pipe, emptied by the thread that owns the model."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Job] = OrderedDict()
        self._running: Job | None = None
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._waiting[message["id"]] = Job(message["id"], message)
            self._changed.notify()

    def take(self) -> Job:
        """The oldest job; waits for one."""
        with self._changed:
            self._running = None
            while not self._waiting:
                self._changed.wait()
            _, self._running = self._waiting.popitem(last=False)
            return self._running

    def cancel(self, job_id: int) -> None:
        """Drop a waiting job without an answer; ask a running one to stop at its next decode."""
        with self._changed:
            if self._waiting.pop(job_id, None) is None and self._running is not None and self._running.id == job_id:
                self._running.cancelled.set()
