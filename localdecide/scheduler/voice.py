"""What a child says on its stdout, as frames, heard as soon as they are whole."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from localdecide.core import frames

STDOUT = 1
LINES = 1 << 16  # bytes of stderr that may wait to be read


class Voice(SubprocessStreamProtocol):
    """stdin and stderr are streams, as asyncio makes them; each frame of stdout goes to `hear`.

    ended: done when stdout is at its end; raises as soon as a frame is wrong, or `hear` says so.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, hear: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__(limit=LINES, loop=loop)
        self.ended: asyncio.Future[None] = loop.create_future()
        self._hear = hear
        self._unread = bytearray()

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        if fd != STDOUT:
            super().pipe_data_received(fd, data)
        elif not self.ended.done():
            assert isinstance(data, bytes)
            self._unread += data
            try:
                self._read_frames()
            except Exception as nonsense:
                self._end(nonsense)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        super().pipe_connection_lost(fd, exc)
        if fd == STDOUT:
            self._end(None)

    def _read_frames(self) -> None:
        size = frames.HEADER.size
        while len(self._unread) >= size:
            (length,) = frames.HEADER.unpack_from(self._unread)
            if length > frames.MAX_FRAME:
                raise ValueError(f"a frame of {length} bytes")
            if len(self._unread) < size + length:
                return
            message = orjson.loads(self._unread[size : size + length])
            del self._unread[: size + length]
            self._hear(message)

    def _end(self, nonsense: Exception | None) -> None:
        if self.ended.done():
            return
        if nonsense is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(nonsense)
