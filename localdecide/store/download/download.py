"""Fetching one file: what is known of it, two attempts at most, the digest, and repair of what was wrong."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from localdecide.core.errors import Cancelled, DigestMismatch, SourceFailed
from localdecide.store.blobs import check_room
from localdecide.store.download.attempt import SPAN, Attempt, Progress
from localdecide.store.download.net import Patience, Transient
from localdecide.store.download.origin import Body, Changed, Origin
from localdecide.store.download.partial import PIECE, Identity, Partial


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is known of a file before the first byte: `sha256:...` and size, or None."""

    digest: str | None = None
    size: int | None = None


class Download:
    """One file. The caller holds its lock; `partial` is open and may hold what earlier tries got.

    `run` reports progress; then `digest` and `size` are known and the partial holds the whole file.
    Raises DigestMismatch, DiskFull, SourceFailed, Cancelled. Whatever it raises, what arrived stays,
    but for a file that is proven wrong. fetched: bytes that crossed the line.
    """

    def __init__(
        self, origin: Origin, partial: Partial, wanted: Wanted, stop: threading.Event, patience: Patience | None = None
    ) -> None:
        self.origin, self.partial, self.wanted, self.stop = origin, partial, wanted, stop
        self.patience = patience or Patience()
        self.digest, self.size, self.fetched = "", 0, 0

    def run(self) -> Iterator[Progress]:
        for last in (False, True):
            try:
                yield from self._attempt()
                break
            except Changed as error:
                if last:
                    raise SourceFailed(f"{error} (twice)", {"source": self.origin.source}) from None
                self.partial.forget()
        if self.wanted.digest and self.digest != self.wanted.digest:
            yield from self._repair()

    def _attempt(self) -> Iterator[Progress]:
        size, tag, ranged = self._know()
        attempt = Attempt(
            self.origin, self.partial, size, None if self.wanted.digest else tag, ranged, self.stop, self.patience
        )
        try:
            yield from attempt.run()
        finally:
            self.fetched += attempt.fetched
        assert attempt.size is not None
        self.digest, self.size = attempt.digest, attempt.size

    def _know(self) -> tuple[int | None, str | None, bool]:
        """Size, tag, and whether ranges can be asked for; the partial is ready for exactly that file then."""
        wanted, old = self.wanted, self.partial.identity
        if wanted.digest and old and old.size is not None and wanted.size in (None, old.size):
            complete = len(self.partial.pieces) == -(-old.size // PIECE)
            if complete or wanted.size is not None:  # nothing to learn: the digest will judge
                return old.size, None, True
        if wanted.size is not None and wanted.size <= PIECE:
            body = Body(0, wanted.size, None, False, iter(()))
        else:
            body = self._probe()
        size = wanted.size if body.total is None else body.total
        if wanted.size is not None and size != wanted.size:
            raise Changed(f"{self.origin.source}: has {size} bytes, expected {wanted.size}")
        same_bytes = bool(wanted.digest) or (body.tag is not None and old is not None and old.tag == body.tag)
        if not (old and same_bytes and size is not None and old.size == size):
            check_room(size or 0, self.partial.folder)
            self.partial.begin(Identity(size, body.tag, self.origin.source))
        return size, body.tag, body.ranged

    def _probe(self) -> Body:
        """What the server says of the file when asked for its first byte."""

        def first_byte() -> Body:
            try:
                with self.origin.open(0, 1) as body:
                    return body
            except Changed:  # 416: an empty file, or a server that knows no ranges
                with self.origin.open(0, None) as body:
                    return Body(0, body.total, body.tag, False, iter(()))

        for failures in range(1, self.patience.tries + 1):
            try:
                return first_byte()
            except Transient as error:
                self._pause(failures, error)
        raise AssertionError("the last try either returned or raised")

    def _pause(self, failures: int, error: Transient) -> None:
        if failures >= self.patience.tries:
            raise SourceFailed(f"{error} ({failures} tries)", {"source": self.origin.source}) from error
        if self.stop.wait(self.patience.delay(failures, error.retry_after)):
            raise Cancelled("the download was cancelled")

    # a file that is whole and wrong

    def _repair(self) -> Iterator[Progress]:
        """Fetch the file once more, keep what is the same, replace what is not, until the digest is right.

        Raises DigestMismatch, and drops the file, if the source says the same wrong thing twice.
        """
        lied = self.digest
        for start in range(0, self.size, SPAN):
            if self._replace(start, min(start + SPAN, self.size)):
                self.digest = self._rehash()
                if self.digest == self.wanted.digest:
                    yield Progress(self.size, self.size)
                    return
            yield Progress(self.size, self.size)
        self.partial.discard()
        message = f"digest mismatch: {self.origin.source} gave {lied} for {self.wanted.digest}, twice"
        details = {"expected": self.wanted.digest, "actual": lied, "source": self.origin.source}
        raise DigestMismatch(message, details)

    def _replace(self, start: int, end: int) -> bool:
        """Whether bytes `start` to `end` came differently this time; the pieces that did are replaced."""
        lease, differs, failures = self.partial.lease(), False, 0
        while True:
            try:
                with self.origin.open(start, end) as body:
                    for index, data in self._pieces(body, start, end):
                        if data != self.partial.read(index, len(data)):
                            self.partial.write(index, data, lease)
                            differs = True
                return differs
            except Changed:
                return differs
            except Transient as error:
                failures += 1
                self._pause(failures, error)

    def _pieces(self, body: Body, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        buffer, skip = bytearray(), start - body.start
        for data in body.stream:
            if self.stop.is_set():
                raise Cancelled("the download was cancelled")
            self.fetched += len(data)
            buffer += data[skip:]  # of a server that ignores ranges
            skip = max(0, skip - len(data))
            while len(buffer) >= min(PIECE, end - start):
                length = min(PIECE, end - start)
                yield start // PIECE, bytes(buffer[:length])
                del buffer[:length]
                start += length
                if start >= end:
                    return
        raise Transient(f"{self.origin.source}: the answer was cut off")

    def _rehash(self) -> str:
        hasher = hashlib.sha256()
        for start in range(0, self.size, PIECE):
            hasher.update(self.partial.read(start // PIECE, min(PIECE, self.size - start)))
        return f"sha256:{hasher.hexdigest()}"


@contextlib.contextmanager
def opened(partial: Partial) -> Iterator[Partial]:
    """An open partial, closed for every reader when the block ends."""
    partial.open()
    try:
        yield partial
    finally:
        partial.close()
