"""Where the bytes of one file come from: an URL read in ranges, or a piece of a local file."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from localdecide.core.errors import SourceFailed
from localdecide.store.download.net import Net, Transient, host_of, status_failure, transport_failure

if TYPE_CHECKING:
    import httpx

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")
_READ = 1 << 18


class Changed(Exception):
    """The file is no longer the one that an earlier try saw, or the range lies outside it."""


@dataclass(frozen=True, slots=True)
class Body:
    """An answer. start: offset of its first byte; total: size of the file or None; tag: ETag or date or None;
    ranged: whether the server gave the range that was asked for; stream: the bytes."""

    start: int
    total: int | None
    tag: str | None
    ranged: bool
    stream: Iterator[bytes]


class Origin(Protocol):
    """One remote file. `source` names it in messages; `parallel` is how many readers it bears."""

    source: str
    parallel: int

    def open(self, start: int, end: int | None) -> contextlib.AbstractContextManager[Body]:
        """Bytes from `start` up to `end` (exclusive; None: to the end). Raises Transient, Changed, SourceFailed."""
        ...

    def close(self) -> None: ...


Authorize = Callable[[Any], Mapping[str, str] | None]
"""Given a 401 answer, the headers for another try; None if there is no way in."""


@dataclass
class HttpOrigin:
    """A file behind an URL. Follows redirects, keeps the final address, and forgets it when it stops working."""

    net: Net
    url: str
    source: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    authorize: Authorize | None = None
    parallel: int = 4

    def __post_init__(self) -> None:
        self.source = self.source or host_of(self.url)
        self.client = self.net.client(self.source, follow_redirects=False)
        self._final: tuple[str, dict[str, str]] | None = None

    @contextlib.contextmanager
    def open(self, start: int, end: int | None) -> Iterator[Body]:
        import httpx

        wanted = {} if start == 0 and end is None else {"Range": f"bytes={start}-{'' if end is None else end - 1}"}
        try:
            with self._send(wanted) as response:
                yield self._body(response, start, bool(wanted))
        except (httpx.HTTPError, httpx.StreamError, httpx.InvalidURL) as error:
            self._final = None
            raise transport_failure(error, self.source) from error

    def close(self) -> None:
        self.client.close()

    @contextlib.contextmanager
    def _send(self, wanted: Mapping[str, str]) -> Iterator[httpx.Response]:
        """The final answer of a chain of redirects."""
        shortcut = self._final
        address, headers = shortcut or (self.url, dict(self.headers))
        asked = False
        for _ in range(self.client.max_redirects + 2):
            with self.client.stream("GET", address, headers={**headers, **wanted}) as response:
                status = response.status_code
                if response.has_redirect_location:
                    target = str(response.url.join(response.headers["location"]))
                    if address.startswith("https:") and not target.startswith("https:"):
                        raise SourceFailed(f"{self.source}: redirects from https to {target.partition(':')[0]}")
                    if host_of(target) != host_of(address):
                        headers = {name: text for name, text in headers.items() if name.lower() != "authorization"}
                    address = target
                    continue
                if status == 401 and self.authorize and not asked and not shortcut:
                    asked = True
                    if more := self.authorize(response):
                        self.headers = headers = {**headers, **more}
                        continue
                if shortcut and status in (400, 401, 403, 404, 410):  # a signed address that has expired
                    shortcut, address, headers, self._final = None, self.url, dict(self.headers), None
                    continue
                if status == 416:
                    raise Changed(f"{self.source}: answered 416, the range lies outside the file")
                if status not in (200, 206):
                    raise status_failure(status, response.headers, self.source, self.net.patience)
                if address != self.url:
                    self._final = address, headers
                yield response
                return
        raise SourceFailed(f"{self.source}: redirects in a circle", {"source": self.source})

    def _body(self, response: httpx.Response, start: int, asked: bool) -> Body:
        headers = response.headers
        tag = headers.get("etag") or headers.get("last-modified")
        length = headers.get("content-length", "")
        if response.status_code == 206:
            match = _RANGE.fullmatch(headers.get("content-range", ""))
            if not match or int(match[1]) != start:
                raise Transient(f"{self.source}: gave another range than the one asked for")
            total = None if match[3] == "*" else int(match[3])
            return Body(start, total, tag, True, response.iter_raw(_READ))
        total = int(length) if length.isdigit() else None
        return Body(0, total, tag, not asked and headers.get("accept-ranges") == "bytes", response.iter_raw(_READ))


@dataclass
class FileOrigin:
    """A stretch of a local file: what an import reads from a bundle."""

    path: Path
    offset: int
    size: int
    source: str
    parallel: int = 1

    @contextlib.contextmanager
    def open(self, start: int, end: int | None) -> Iterator[Body]:
        with self.path.open("rb") as file:
            file.seek(self.offset + start)
            yield Body(start, self.size, None, True, self._read(file, (self.size if end is None else end) - start))

    def close(self) -> None:
        """Nothing stays open between two reads."""

    def _read(self, file: Any, left: int) -> Iterator[bytes]:
        while left > 0:
            data = file.read(min(_READ, left))
            if not data:
                raise SourceFailed(f"{self.source} is cut off: {left} bytes are missing", {"source": self.source})
            left -= len(data)
            yield data
