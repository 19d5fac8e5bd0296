"""Locks between processes that share a store.

Who writes a model holds a writer's lock from before it looks at the first blob until its manifest is written.
Who removes blobs does so only while nobody writes: a blob without a manifest may be about to get one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from localdecide.store.blobs import disk_errors, hex_of


class Locks:
    """The lock files of one store. A lock ends with its process, however that ends."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "locks"

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold back removals until the block ends. Any number may write. Raises StoreNotWritable."""
        path = self.folder / f"writer-{os.getpid()}-{os.urandom(4).hex()}"
        mine = self._lock(path)
        with self._lock(self.folder / "gate"):
            mine.acquire()
        try:
            yield
        finally:
            mine.release()
            path.unlink(missing_ok=True)

    @contextlib.contextmanager
    def removing(self) -> Iterator[bool]:
        """Whether blobs may be removed now; nobody starts to write before the block ends."""
        with self._lock(self.folder / "gate"):
            yield not any(self._held(path) for path in self.folder.glob("writer-*"))

    @contextlib.contextmanager
    def blob(self, digest: str, timeout: float = -1) -> Iterator[bool]:
        """The one place that may fetch a blob. False if another had it for `timeout` seconds (-1: wait for ever)."""
        lock = self._lock(self.folder / f"blob-{hex_of(digest)}")
        try:
            lock.acquire(timeout=timeout)
        except Timeout:
            yield False
            return
        try:
            yield True
        finally:
            lock.release()

    def _lock(self, path: Path) -> FileLock:
        with disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            if not os.access(self.folder, os.W_OK):
                raise PermissionError(13, os.strerror(13))
        return FileLock(path, thread_local=False)

    def _held(self, path: Path) -> bool:
        lock = FileLock(path, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            return True
        lock.release()
        path.unlink(missing_ok=True)
        return False
