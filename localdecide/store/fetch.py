"""Getting the files of an offer into the blobs, each once, however many ask for it."""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile, Cancelled, SourceFailed
from localdecide.store.blobs import check_room, disk_errors, hex_of
from localdecide.store.download.download import Download, Wanted, opened
from localdecide.store.download.partial import PIECE, Partial, read_journal
from localdecide.store.gguf_header import read_header
from localdecide.store.locks import Claims
from localdecide.store.sources import ollama_store
from localdecide.store.sources.base import Context, Offer, Part


@dataclass
class Fetch:
    """The files of one offer on their way. found: digest and size by part, in the offer's order, when done.

    stop: set to end every download at its next piece.
    """

    context: Context
    claim: Claims
    stop: threading.Event
    found: list[tuple[str, int]] = field(default_factory=list)
    fetched: int = 0

    @property
    def partials(self) -> Path:
        return self.context.catalog.root / "partials"

    def run(self, offer: Offer) -> Iterator[dict[str, Any]]:
        """Ollama's progress lines. Raises DiskFull before the first byte if the files cannot fit."""
        self._check_room(offer)
        found: dict[int, tuple[str, int]] = {}
        for index, part in enumerate(offer.parts):
            yield from self._part(part, found, index)
        self.found = [found[index] for index in range(len(offer.parts))]

    def _check_room(self, offer: Offer) -> None:
        """Bytes that are still to come, over all parts; what links can share costs nothing."""
        needed = 0
        for part in offer.parts:
            if part.path is None and part.size and not (part.digest and self._here(part.digest)):
                _, pieces = read_journal(self.partials / f"{key_of(part)}.journal")
                needed += max(0, part.size - len(pieces) * PIECE)
        if needed:
            check_room(needed, self.partials)

    def _here(self, digest: str) -> bool:
        return self.context.catalog.blobs.has(digest) or ollama_store.blob(digest, self.context.ollama) is not None

    def _part(self, part: Part, found: dict[int, tuple[str, int]], index: int) -> Iterator[dict[str, Any]]:
        blobs = self.context.catalog.blobs
        if part.digest:
            self.claim(part.digest)
        if part.digest and blobs.has(part.digest):
            size = blobs.path(part.digest).stat().st_size
            if part.size in (None, size):
                yield report(part, size, size)
                found[index] = part.digest, size
                return
            blobs.remove(part.digest)
        place = part.path or (ollama_store.blob(part.digest, self.context.ollama) if part.digest else None)
        if place is not None and (taken := self._take(part, place)):
            yield report(part, taken[1], taken[1], taken[0])
            found[index] = taken
            return
        if part.origin is None:
            raise SourceFailed(f"{part.name} is no longer at {part.path}, or its bytes are not what they should be")
        yield from self._download(part, found, index)

    def _take(self, part: Part, place: Path) -> tuple[str, int] | None:
        """Share a file of this machine."""
        blobs = self.context.catalog.blobs
        if part.digest is None:
            if part.media_type is None:
                read_header(place)  # what is no model is refused before it is a blob that nobody uses
            return blobs.add_file(place, self.claim)
        return (part.digest, place.stat().st_size) if blobs.adopt(place, part.digest) else None

    def _download(self, part: Part, found: dict[int, tuple[str, int]], index: int) -> Iterator[dict[str, Any]]:
        blobs, locks = self.context.catalog.blobs, self.context.catalog.locks
        key = key_of(part)
        while True:
            with locks.partial(key, timeout=0.25) as mine:
                if mine:
                    if part.digest and blobs.has(part.digest):  # another process has got it meanwhile
                        size = blobs.path(part.digest).stat().st_size
                        found[index] = part.digest, size
                        yield report(part, size, size)
                        return
                    yield from self._fetch(part, key, found, index)
                    return
            if self.stop.is_set():
                raise Cancelled("the pull was cancelled")
            _, pieces = read_journal(self.partials / f"{key}.journal")
            yield report(part, min(len(pieces) * PIECE, part.size or len(pieces) * PIECE), part.size)

    def _fetch(self, part: Part, key: str, found: dict[int, tuple[str, int]], index: int) -> Iterator[dict[str, Any]]:
        assert part.origin is not None
        with disk_errors(self.partials):
            self.partials.mkdir(parents=True, exist_ok=True)
        with contextlib.closing(part.origin()) as origin, opened(Partial(self.partials, key)) as partial:
            wanted = Wanted(part.digest, part.size)
            download = Download(origin, partial, wanted, self.stop, self.context.net.patience)
            try:
                for progress in download.run():
                    yield report(part, progress.completed, progress.total)
            finally:
                self.fetched += download.fetched
            if part.digest is None and part.media_type is None:
                _check(partial, part)
            self.claim(download.digest)
            partial.finish(self.context.catalog.blobs.path(download.digest), download.size)
        found[index] = download.digest, download.size


def _check(partial: Partial, part: Part) -> None:
    """Refuse, and drop, a file that no digest vouched for and that is no model. Raises BadModelFile with its name."""
    try:
        read_header(partial.path)
    except BadModelFile as error:
        partial.discard()
        raise BadModelFile(error.message.replace(partial.path.name, part.name), error.details) from None


def key_of(part: Part) -> str:
    """The partial's file name: by digest where it is known, else by the part's name."""
    if part.digest:
        return f"sha256-{hex_of(part.digest)}"
    return f"url-{hashlib.sha256((part.reference or part.name).encode()).hexdigest()[:40]}"


def report(part: Part, completed: int, total: int | None, digest: str | None = None) -> dict[str, Any]:
    """One progress line as Ollama sends it: `completed` is left out while it is 0, `digest` while it is unknown."""
    known = part.digest or digest
    line: dict[str, Any] = {"status": f"pulling {known[7:19] if known else part.name}"}
    if known:
        line["digest"] = known
    if total is not None:
        line["total"] = total
    if completed:
        line["completed"] = completed
    return line
