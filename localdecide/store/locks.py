"""Locks between processes that share a store.

Who writes a model claims each blob before looking whether it is there, and holds the claim until the manifest is
written. Who removes blobs leaves alone what is claimed: a blob without a manifest may be about to get one.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from localdecide.store.blobs import disk_errors


class Claims:
    """The digests that one writer counts on, in a file that removers read."""

    def __init__(self, path: Path, gate: FileLock) -> None:
        self._path, self._gate = path, gate

    def __call__(self, *digests: str) -> None:
        """From now on these blobs are not removed."""
        with self._gate, disk_errors(self._path.parent), self._path.open("a") as file:
            file.write("".join(f"{digest}\n" for digest in digests))


class Locks:
    """The lock files of one store. A lock ends with its process, however that ends."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "locks"

    @contextlib.contextmanager
    def writing(self) -> Iterator[Claims]:
        """Claims that last until the block ends. Any number may write. Raises StoreNotWritable."""
        path = self.folder / f"writer-{os.getpid()}-{os.urandom(4).hex()}"
        mine = self._lock(path.with_suffix(".lock"))
        gate = self._lock(self.folder / "gate")
        with gate:
            mine.acquire()
        try:
            yield Claims(path, gate)
        finally:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
            mine.release()

    @contextlib.contextmanager
    def removing(self) -> Iterator[set[str]]:
        """The digests that are claimed now; no other is claimed before the block ends. Raises StoreNotWritable."""
        with self._lock(self.folder / "gate"):
            claimed: set[str] = set()
            for path in self.folder.glob("writer-*.lock"):
                if self._held(path):
                    with contextlib.suppress(FileNotFoundError):
                        claimed.update(path.with_suffix("").read_text().split())
                else:
                    path.with_suffix("").unlink(missing_ok=True)
            yield claimed

    @contextlib.contextmanager
    def partial(self, key: str, timeout: float = -1) -> Iterator[bool]:
        """The right to work on one partial. False if another had it for `timeout` seconds (-1: wait for ever)."""
        lock = self._lock(self.folder / f"partial-{key}")
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
