"""One try at one file: several readers fetch missing pieces, one follower hashes them in order."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from localdecide.core.errors import Cancelled, SourceFailed
from localdecide.store.download.net import Patience, Transient
from localdecide.store.download.origin import Body, Changed, Origin
from localdecide.store.download.partial import PIECE, Lease, Partial

SPAN = 16 << 20
"""Bytes asked for in one range: more makes fewer requests, less keeps the readers near each other."""

_AHEAD = 8  # pieces kept in memory until their turn to be hashed comes; the others are read back at once
_TICK = 0.06  # seconds between two reports
_PROGRESS = 64 << 10  # bytes that make a failed answer a step forward all the same


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes that have arrived, and bytes of the file or None."""

    completed: int
    total: int | None


class Attempt:
    """Readers and follower share this object. `size` None: not known before the end.

    Raises from `run`: Changed, SourceFailed, DiskFull, Cancelled.
    """

    def __init__(
        self,
        origin: Origin,
        partial: Partial,
        size: int | None,
        tag: str | None,
        ranged: bool,
        stop: threading.Event,
        patience: Patience,
    ) -> None:
        self.origin, self.partial, self.patience = origin, partial, patience
        self.size, self.tag, self.ranged, self.stop = size, tag, ranged and size is not None, stop
        self.fetched = 0
        self._lease: Lease = partial.lease()
        self._lock = threading.Condition()
        self._missing = [index for index in range(self.count or 0) if index not in partial.pieces]
        self._tails: dict[int, bytes] = {}
        self._fresh: dict[int, bytes] = {}
        self._error: BaseException | None = None
        self._failures = self._busy = self._frontier = 0
        self._closing = self._streaming = False

    @property
    def count(self) -> int | None:
        """Pieces of the file; None while its size is not known."""
        return None if self.size is None else -(-self.size // PIECE)

    def length(self, index: int) -> int:
        """Bytes of a piece."""
        return PIECE if self.size is None else max(0, min(PIECE, self.size - index * PIECE))

    def run(self) -> Iterator[Progress]:
        """Reports until the file is whole; `digest` is set then."""
        try:
            hasher, reported = hashlib.sha256(), time.monotonic()
            while self._frontier != self.count:
                self._wait(self._frontier)
                while self._ready(self._frontier) and (data := self._take(self._frontier)) is not None:
                    hasher.update(data)
                    self._frontier += 1
                    if time.monotonic() - reported > _TICK:
                        break
                if time.monotonic() - reported > _TICK:
                    reported = time.monotonic()
                    yield self.progress()
            self.digest = f"sha256:{hasher.hexdigest()}"
            yield self.progress()
        finally:
            self._closing = True

    def progress(self) -> Progress:
        with self._lock:
            return Progress(sum(self.length(index) for index in list(self.partial.pieces)), self.size)

    # the follower

    def _wait(self, frontier: int) -> None:
        """Until the next piece is there or a moment has passed. Raises what went wrong."""
        with self._lock:
            if not self._busy and not self._ready(frontier):
                self._start_readers()
            self._lock.wait_for(lambda: self._ready(frontier) or self._error is not None, _TICK)
            if self.stop.is_set():
                raise Cancelled("the download was cancelled")
            if self._error:
                raise self._error

    def _start_readers(self) -> None:
        if not self._missing:
            self._missing = [index for index in range(self.count or 0) if index not in self.partial.pieces]
        spans = max(1, len(self._missing) * PIECE // SPAN)
        readers = min(self.origin.parallel, spans) if self.ranged else 1
        self._busy += readers
        for _ in range(readers):
            threading.Thread(target=self._reader, name="download", daemon=True).start()

    def _ready(self, index: int) -> bool:
        return index in self.partial.pieces

    def _take(self, index: int) -> bytes | None:
        """The bytes of a piece that has arrived; None, and it is fetched again, if the disk has lost them."""
        with self._lock:
            fresh = self._fresh.pop(index, None)
        if fresh is not None:
            return fresh
        data = self.partial.read(index, self.length(index))
        if self.partial.sound(index, data):
            return data
        with self._lock:
            self._missing.insert(0, index)
        return None

    # readers, each in a thread of its own

    def _reader(self) -> None:
        try:
            while not self._over():
                if (span := self._next_span()) is None:
                    return
                try:
                    self._fetch(*span)
                except Transient as error:
                    self._bear(error)
        except BaseException as error:
            with self._lock:
                self._error = self._error or error
        finally:
            with self._lock:
                self._busy -= 1
                self._lock.notify_all()

    def _over(self) -> bool:
        return self.stop.is_set() or self._closing or self._error is not None

    def _next_span(self) -> tuple[int, int | None] | None:
        """The next run of missing pieces, as first index and count; (0, None) is the whole file in one stream."""
        with self._lock:
            if not self.ranged:
                if self._streaming or (self.size is not None and not self._missing):
                    return None
                self._streaming = True
                return 0, None
            if not self._missing:
                return None
            count = 1
            while count < min(len(self._missing), SPAN // PIECE) and self._missing[count] == self._missing[0] + count:
                count += 1
            start = self._missing[0]
            del self._missing[:count]
            return start, count

    def _fetch(self, start: int, count: int | None) -> None:
        """Read one span; what of it did not arrive is missing again."""
        tail = self._tails.pop(start, b"") if count is not None else b""
        end = None if count is None or self.size is None else min((start + count) * PIECE, self.size)
        try:
            with self.origin.open(start * PIECE + len(tail), end) as body:
                self._check(body)
                if count is None or body.ranged:
                    self._cut(body, start, count, tail)
                elif self._only_streamer():
                    count = None
                    self._cut(body, 0, None, b"")
        finally:
            with self._lock:
                self._streaming = self._streaming and count is not None
                last = self.count if count is None or not self.ranged else min(start + count, self.count or 0)
                first = start if self.ranged else 0
                lost = {index for index in range(first, last or 0) if index not in self.partial.pieces}
                self._missing = sorted(lost.union(self._missing) if self.ranged else lost)

    def _only_streamer(self) -> bool:
        """The server ignores ranges after all: whether this reader is the one that goes on."""
        with self._lock:
            self.ranged = False
            mine, self._streaming = not self._streaming, True
            return mine

    def _check(self, body: Body) -> None:
        """Raises Changed if an answer is of another file than the first one was."""
        if None not in (body.total, self.size) and body.total != self.size:
            raise Changed(f"{self.origin.source}: the file has {body.total} bytes, not {self.size} any more")
        if self.tag is not None and body.tag != self.tag:
            raise Changed(f"{self.origin.source}: the file changed while it was read")

    def _cut(self, body: Body, index: int, count: int | None, tail: bytes) -> None:
        """Cut a body into pieces and keep those that are missing."""
        buffer, received = bytearray(tail), 0
        last = self.count if count is None or self.count is None else min(index + count, self.count)
        try:
            for data in body.stream:
                if self._over():
                    return
                buffer += data
                received += len(data)
                self.fetched += len(data)
                while (last is None or index < last) and len(buffer) >= max(1, self.length(index)):
                    length = self.length(index)
                    self._keep(index, bytes(memoryview(buffer)[:length]))
                    del buffer[:length]
                    index += 1
                if index == last and buffer:
                    raise Changed(f"{self.origin.source}: sent more bytes than it announced")
            if last is not None and index < last:
                raise Transient(f"{self.origin.source}: the answer was cut off at byte {index * PIECE + len(buffer)}")
            if last is None:
                self._ended(index, bytes(buffer))
        except BaseException:
            if count is not None and buffer and index != last:
                self._tails[index] = bytes(buffer)
            if received >= _PROGRESS:
                self._failures = 0
            raise

    def _ended(self, index: int, rest: bytes) -> None:
        """A stream of unknown size has ended well: its size is known now."""
        if rest:
            self._keep(index, rest)
        with self._lock:
            self.size = index * PIECE + len(rest)
            self._lock.notify_all()

    def _keep(self, index: int, data: bytes) -> None:
        if index in self.partial.pieces:
            return
        self.partial.write(index, data, self._lease)
        with self._lock:
            if index < self._frontier + _AHEAD:
                self._fresh[index] = data
            self._failures = 0
            self._lock.notify_all()

    def _bear(self, error: Transient) -> None:
        """Wait before the next try, or give up."""
        self._failures += 1
        if self._failures >= self.patience.tries:
            raise SourceFailed(f"{error} ({self._failures} tries)", {"source": self.origin.source}) from error
        deadline = time.monotonic() + self.patience.delay(self._failures, error.retry_after)
        while (left := deadline - time.monotonic()) > 0 and not self._over():
            self.stop.wait(min(left, 0.2))
