"""Content-addressed files: `blobs/sha256-<64 hex>`. A blob that exists is complete."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from localdecide.core.errors import DiskFull, InvalidRequest, StoreFailed, StoreNotWritable

_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_CHUNK = 1 << 20
_ROOM = "`localdecide prune` and `localdecide rm` make room, LOCALDECIDE_MODELS moves the store"
_FICLONE = 0x40049409  # linux/fs.h: share the extents of another file


Claim = Callable[[str], None]


def _no_claim(digest: str) -> None:
    """For blobs that nobody could remove meanwhile."""


class Blobs:
    """The blobs of one store. Digests are `sha256:<hex>` everywhere but in file names."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "blobs"

    def path(self, digest: str) -> Path:
        """Where that blob lies or would lie. Raises InvalidRequest for what is no digest."""
        return self.folder / f"sha256-{hex_of(digest)}"

    def has(self, digest: str) -> bool:
        return self.path(digest).is_file()

    def add(self, data: bytes, claim: Claim = _no_claim) -> tuple[str, int]:
        """Store bytes; gives digest and size. `claim` hears the digest first. Raises StoreNotWritable, DiskFull."""
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        claim(digest)
        if not self.has(digest):
            with self.writing() as (file, place):
                file.write(data)
                place(digest)
        return digest, len(data)

    def add_file(self, source: Path, claim: Claim = _no_claim) -> tuple[str, int]:
        """Store a file that stays where it is; gives digest and size.

        Shares the bytes with the original where the file system can: first a clone (independent of later
        changes), else a hard link (outlives a deletion or an upgrade of the original, which replace the
        file), else a copy. Never a symbolic link, which the next clean-up of the original's folder would
        break. A hard-linked file that is later rewritten in place is found out by `verify`.
        Raises StoreNotWritable, DiskFull, StoreFailed.
        """
        source = resolve_file(source)
        digest, size = file_digest(source), source.stat().st_size
        claim(digest)
        self._share(source, digest)
        return digest, size

    def _share(self, source: Path, digest: str) -> None:
        """Make the blob of that digest from a file that has it."""
        target = self.path(digest)
        if target.is_file():
            return
        with disk_errors(self.folder):
            make_folder(self.folder)
            temporary = self.folder / f".link-{os.getpid()}-{os.urandom(4).hex()}"
            try:
                share(source, temporary)
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
            sync_folder(self.folder)

    def adopt(self, source: Path, digest: str) -> bool:
        """Share a file of another store if its bytes have that digest; False if they have not or it is gone."""
        try:
            found = file_digest(source)
        except OSError:
            return False
        if found == digest:
            self._share(resolve_file(source), digest)
        return found == digest

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[IO[bytes], Placer]]:
        """A temporary file and the function that turns it into a blob; gone again if that is not called."""
        with disk_errors(self.folder):
            make_folder(self.folder)
            handle, name = tempfile.mkstemp(prefix=".write-", dir=self.folder)
            with os.fdopen(handle, "wb") as file:
                placer = Placer(self, file, Path(name))
                try:
                    yield file, placer
                finally:
                    Path(name).unlink(missing_ok=True)

    def upload(self, digest: str) -> Upload:
        """A blob to be written piece by piece. Raises InvalidRequest for what is no digest."""
        return Upload(self, digest)

    def remove(self, digest: str) -> int:
        """Delete a blob; gives the bytes it had, 0 if it was not there. Raises StoreNotWritable."""
        path = self.path(digest)
        with disk_errors(self.folder):
            try:
                size = path.stat().st_size
                path.unlink()
            except FileNotFoundError:
                return 0
        return size

    def all(self) -> dict[str, int]:
        """Size by digest of every complete blob."""
        found: dict[str, int] = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self.folder) as entries:
            for entry in entries:
                if (match := _DIGEST.fullmatch(entry.name)) and entry.is_file():
                    found[f"sha256:{match[1]}"] = entry.stat().st_size
        return found


class Upload:
    """A blob that a client sends piece by piece. Use as a context; `finish` makes it a blob."""

    def __init__(self, blobs: Blobs, digest: str) -> None:
        self._blobs, self._digest = blobs, f"sha256:{hex_of(digest)}"
        self._hasher = hashlib.sha256()
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Upload:
        self._file, self._place = self._stack.enter_context(self._blobs.writing())
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def write(self, data: bytes) -> None:
        """Raises DiskFull."""
        with disk_errors(self._blobs.folder):
            self._hasher.update(data)
            self._file.write(data)

    def finish(self) -> None:
        """Raises InvalidRequest, in Ollama's words, if the bytes have another digest."""
        actual = f"sha256:{self._hasher.hexdigest()}"
        if actual != self._digest:
            raise InvalidRequest.at((), f"digest mismatch, expected {self._digest}, got {actual}")
        self._place(self._digest)


class Placer:
    """Turns a temporary file into a blob: flush, fsync, rename, fsync of the folder."""

    def __init__(self, blobs: Blobs, file: IO[bytes], path: Path) -> None:
        self._blobs, self._file, self.path = blobs, file, path

    def __call__(self, digest: str) -> Path:
        target = self._blobs.path(digest)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()  # some systems do not rename what is open
        os.chmod(self.path, 0o644)
        os.replace(self.path, target)
        sync_folder(target.parent)
        return target


def file_digest(path: Path) -> str:
    """`sha256:...` of a file's bytes. Raises OSError."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def is_digest(text: str) -> bool:
    """Whether a text is `sha256:<64 hex>`."""
    return _DIGEST.fullmatch(text) is not None


def hex_of(digest: str) -> str:
    """The 64 hex digits of `sha256:...` or `sha256-...`. Raises InvalidRequest `invalid digest format`."""
    if match := _DIGEST.fullmatch(digest):
        return match[1]
    raise InvalidRequest.at((), "invalid digest format", digest=digest[:100])


def write_atomically(path: Path, data: bytes) -> None:
    """Write a small file so that a reader sees the old one or the new one, whole, even after a crash."""
    with disk_errors(path.parent):
        make_folder(path.parent)
        handle, name = tempfile.mkstemp(prefix=".write-", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, 0o644)
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)
        sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; each new name is flushed, for a file is only as safe as the way to it."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make renames in `folder` survive a power cut, where the system can say so."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def share(source: Path, target: Path) -> None:
    """Make `target` hold the bytes of `source`: clone, else hard link, else copy."""
    if clone(source, target):
        return
    with contextlib.suppress(OSError):
        os.link(source, target)
        return
    check_room(source.stat().st_size, target.parent)
    with source.open("rb") as reader, target.open("wb") as writer:
        shutil.copyfileobj(reader, writer, _CHUNK)
        writer.flush()
        os.fsync(writer.fileno())


def clone(source: Path, target: Path) -> bool:
    """A copy-on-write clone on the Linux file systems that have them; False elsewhere."""
    if not sys.platform.startswith("linux"):
        return False
    import fcntl

    with source.open("rb") as reader, target.open("wb") as writer:
        try:
            fcntl.ioctl(writer, _FICLONE, reader.fileno())
            return True
        except OSError:
            pass
    target.unlink(missing_ok=True)
    return False


def resolve_file(path: Path) -> Path:
    """The regular file that `path` leads to. Raises InvalidRequest for a loop, a folder or nothing."""
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise InvalidRequest(f"no such file: {path}", {"path": str(path)}) from None
    except (OSError, RuntimeError) as error:
        reason = "its links go round in a circle" if _is_loop(error) else str(error)
        raise InvalidRequest(f"cannot read {path}: {reason}", {"path": str(path)}) from None
    if not real.is_file():
        raise InvalidRequest(f"not a file: {path}", {"path": str(path)})
    return real


def _is_loop(error: Exception) -> bool:
    return isinstance(error, RuntimeError) or getattr(error, "errno", None) == errno.ELOOP


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """Turns what a file system says into StoreNotWritable, DiskFull or StoreFailed, with the folder's name."""
    try:
        yield
    except OSError as error:
        where = {"path": str(folder)}
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            message = f"cannot write to {folder}: {error.strerror}; set LOCALDECIDE_MODELS to a folder you may write to"
            raise StoreNotWritable(message, where) from error
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            free = free_bytes(folder)
            message = f"the disk of {folder} is full, {free} bytes are free: {_ROOM}"
            raise DiskFull(message, {**where, "available": free}) from error
        raise StoreFailed(f"{folder}: {error.strerror or error}", where) from error


def free_bytes(folder: Path) -> int:
    """Bytes that may still be written under `folder`, which need not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free


def check_room(needed: int, folder: Path) -> None:
    """Raises DiskFull, with both numbers, if so many bytes do not fit."""
    free = free_bytes(folder)
    if needed > free:
        message = f"not enough room in {folder}: {needed} bytes are needed and {free} are free; {_ROOM}"
        raise DiskFull(message, {"needed": needed, "available": free, "path": str(folder)})
