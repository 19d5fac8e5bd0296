"""Work that waits for the model: first in, first out; cancelled work is dropped or told to stop."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

# A job may overtake inside a running one if it has at most this part of its text.
SHORTER = 0.25


@dataclass(slots=True)
class Job:
    """One request of the daemon. cancelled: set once nobody waits for it any more."""

    id: int
    message: dict[str, Any]
    cancelled: threading.Event = field(default_factory=threading.Event)
    _length: int | None = None

    @property
    def is_decision(self) -> bool:
        return "decision" in self.message

    @property
    def length(self) -> int:
        """Characters of state and questions, about: what the time of a request grows with. Counted once."""
        if self._length is None:
            decision = self.message.get("decision", {})
            state = decision.get("state")
            text = state if isinstance(state, str) else repr(state)
            self._length = len(text) + len(repr(decision.get("questions")))
        return self._length


class WorkQueue:
    """Filled by the thread that reads the pipe, emptied by the thread that owns the model."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[int, Job] = OrderedDict()
        self._running: dict[int, Job] = {}
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
            while not self._waiting:
                self._changed.wait()
            return self._start(next(iter(self._waiting.values())))

    def take_shorter(self, running: Job) -> Job | None:
        """The oldest waiting decision that is much shorter than a running one, or None.

        Decisions of one model read alike; a score may need another kind of context, which the running job holds.
        """
        with self._changed:
            if not self._waiting or not running.is_decision:
                return None
            limit = running.length * SHORTER
            shorter = (job for job in self._waiting.values() if job.is_decision and job.length <= limit)
            found = next(shorter, None)
            return None if found is None else self._start(found)

    def take_decision(self) -> Job | None:
        """The oldest job if it is a decision, or None: what comes after other work waits for it."""
        with self._changed:
            oldest = next(iter(self._waiting.values()), None)
            return self._start(oldest) if oldest is not None and oldest.is_decision else None

    def done(self, job: Job) -> None:
        with self._changed:
            del self._running[job.id]

    def cancel(self, job_id: int) -> None:
        """Drop a waiting job without an answer; ask a running one to stop at its next decode."""
        with self._changed:
            if self._waiting.pop(job_id, None) is None and job_id in self._running:
                self._running[job_id].cancelled.set()

    def _start(self, job: Job) -> Job:
        del self._waiting[job.id]
        self._running[job.id] = job
        return job
