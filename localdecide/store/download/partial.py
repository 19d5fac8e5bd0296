"""A file on its way into the store: its bytes and a journal of the pieces that have arrived.

    partials/<key>            the bytes, each piece at its place
    partials/<key>.journal    a line of JSON about the whole, then one line `index crc32` for every piece

A piece is written before its line, so a process may die at any moment and at most the pieces in flight are
lost. After a power cut a line may outlive its bytes: the checksum finds that out when the file is read again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from localdecide.core.errors import Cancelled
from localdecide.store.blobs import disk_errors, make_folder, sync_folder

PIECE = 1 << 20
"""Bytes of a piece; the last one of a file may be shorter."""

_LINE = re.compile(rb"(\d{1,9}) ([0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class Identity:
    """What must not change between two tries at one file. size: bytes, None if unknown; tag: ETag or date."""

    size: int | None
    tag: str | None
    source: str


class Lease:
    """A right to write. An object of its own, compared by identity."""


class Partial:
    """One unfinished file. Methods may be called from several threads."""

    def __init__(self, folder: Path, key: str) -> None:
        self.folder = folder
        self.path = folder / key
        self.journal = folder / f"{key}.journal"
        self.identity: Identity | None = None
        self.pieces: dict[int, int] = {}
        self._lock = threading.Lock()
        self._data: IO[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._lease = Lease()

    def open(self) -> None:
        """Read what an earlier try left. Raises StoreNotWritable, DiskFull."""
        with disk_errors(self.folder):
            make_folder(self.folder)
            self.identity, self.pieces = read_journal(self.journal)
            if not self.path.exists():
                self.identity, self.pieces = None, {}
            self._data = self.path.open("r+b" if self.path.exists() else "x+b", buffering=0)
            self._log = self.journal.open("ab", buffering=0)

    def begin(self, identity: Identity) -> None:
        """Start over as a file of that identity."""
        with self._lock, disk_errors(self.folder):
            self.identity, self.pieces = identity, {}
            data, log = self._files()
            log.truncate(0)
            data.truncate(0)
            data.truncate(identity.size or 0)
            head = {"size": identity.size, "tag": identity.tag, "source": identity.source, "started": time.time()}
            log.write(json.dumps(head).encode() + b"\n")
            os.fsync(log.fileno())

    def lease(self) -> Lease:
        """The right to write, taken from whoever had it before: a reader of an earlier try may still be alive."""
        with self._lock:
            self._lease = Lease()
            return self._lease

    def forget(self) -> None:
        """What is here belongs to another file."""
        with self._lock:
            self.identity, self.pieces = None, {}
            self._lease = Lease()

    def write(self, index: int, data: bytes, lease: Lease) -> None:
        """Keep a piece, then say so in the journal. Raises DiskFull; Cancelled without a valid lease."""
        line = f"{index} {zlib.crc32(data):08x}\n".encode()
        with self._lock, disk_errors(self.folder):
            if lease is not self._lease:
                raise Cancelled("the download has ended")
            file, log = self._files()
            file.seek(index * PIECE)
            rest = memoryview(data)
            while rest:
                rest = rest[file.write(rest) :]
            log.write(line)
            self.pieces[index] = zlib.crc32(data)

    def read(self, index: int, length: int) -> bytes:
        """The bytes of a piece as they lie on the disk."""
        with self._lock, disk_errors(self.folder):
            file, _ = self._files()
            file.seek(index * PIECE)
            data = b""
            while len(data) < length and (more := file.read(length - len(data))):
                data += more
            return data

    def sound(self, index: int, data: bytes) -> bool:
        """Whether `data` is what the journal says arrived; if not, the piece counts as missing."""
        if self.pieces.get(index) == zlib.crc32(data):
            return True
        with self._lock:
            self.pieces.pop(index, None)
        return False

    def finish(self, target: Path, size: int) -> None:
        """Become the blob: flush, rename, flush the folder, drop the journal."""
        with disk_errors(self.folder):
            with self._lock:
                data, _ = self._files()
                data.truncate(size)
                os.fsync(data.fileno())
            self.close()
            make_folder(target.parent)
            os.replace(self.path, target)
            sync_folder(target.parent)
            self.journal.unlink(missing_ok=True)

    def discard(self) -> None:
        """Drop bytes and journal."""
        for path in (self.journal, self.path):
            path.unlink(missing_ok=True)

    def close(self) -> None:
        """No piece is written any more; what has arrived stays for the next try, if anything has."""
        with self._lock:
            was_open = self._data is not None
            for file in (self._data, self._log):
                if file:
                    file.close()
            self._data = self._log = None
        if was_open and self.identity is None:  # the source never said what the file is
            self.discard()

    def _files(self) -> tuple[IO[bytes], IO[bytes]]:
        if self._data is None or self._log is None:
            raise Cancelled("the download has ended")
        return self._data, self._log


def read_journal(path: Path) -> tuple[Identity | None, dict[int, int]]:
    """Identity and checksums by piece; nothing for a journal that cannot be read. A torn last line is ignored."""
    try:
        head, *lines = path.read_bytes().split(b"\n")
        about = json.loads(head)
        identity = Identity(about["size"], about["tag"], about["source"])
    except (OSError, ValueError, KeyError, TypeError):
        return None, {}
    pieces: dict[int, int] = {}
    for line in lines[:-1]:
        if match := _LINE.fullmatch(line):
            pieces[int(match[1])] = int(match[2], 16)
    return identity, pieces


@dataclass(frozen=True, slots=True)
class Leftover:
    """A partial as `prune` and `du` list it. size: bytes on disk; done: bytes that arrived; age: seconds."""

    key: str
    size: int
    done: int
    total: int | None
    source: str
    age: float

    def to_json(self) -> dict[str, Any]:
        fields = ("key", "size", "done", "total", "source", "age")
        return {name: getattr(self, name) for name in fields}


def leftovers(folder: Path) -> Iterator[Leftover]:
    """Every partial in the folder."""
    now = time.time()
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            if path.suffix == ".journal" and path.with_suffix("").exists():
                continue
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                identity, pieces = read_journal(path.with_name(path.name + ".journal"))
                used = stat.st_blocks * 512 if hasattr(stat, "st_blocks") else stat.st_size
                total = identity.size if identity else None
                done = min(len(pieces) * PIECE, total or len(pieces) * PIECE)
                source = identity.source if identity else ""
                yield Leftover(path.name, used, done, total, source, max(0.0, now - stat.st_mtime))
