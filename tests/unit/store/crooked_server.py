"""A web server on the loopback that misbehaves exactly as it is told, and counts what it sent."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""

    @property
    def range(self) -> tuple[int, int | None] | None:
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", ""))
        return (int(match[1]), int(match[2]) if match[2] else None) if match else None


@dataclass
class Answer:
    """What to send. body None: the file, in the range asked for.

    cut: stop after so many bytes and drop the line; flip: index of a byte of the file to spoil;
    stall: seconds of silence before the body; ranges: whether Range is honoured.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cut: int | None = None
    flip: int | None = None
    stall: float = 0.0
    ranges: bool = True
    length: bool = True


Behaviour = Callable[[Asked, int], Answer]
"""From a request and its number (0 for the first) to the answer."""


class CrookedServer:
    """files: bytes by path. behave: by default an honest file server."""

    def __init__(self, files: dict[str, bytes], behave: Behaviour | None = None) -> None:
        self.files = files
        self.behave = behave or (lambda asked, number: Answer())
        self.asked: list[Asked] = []
        self.sent = 0
        self.tag = '"v1"'
        self.lock = threading.Lock()
        crooked = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: Any) -> None:
                pass

            def handle_any(self) -> None:
                crooked.handle(self)

            do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_CONNECT = handle_any

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *args: Any) -> None:
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.host = f"127.0.0.1:{self.server.server_address[1]}"

    def handle(self, handler: Any) -> None:
        length = int(handler.headers.get("content-length") or 0)
        body = handler.rfile.read(length) if length else b""
        headers = {name.lower(): text for name, text in handler.headers.items()}
        asked = Asked(handler.command, handler.path, headers, body)
        with self.lock:
            number = len(self.asked)
            self.asked.append(asked)
        answer = self.behave(asked, number)
        whole = self.files.get(asked.path.partition("?")[0])
        status, data = answer.status, answer.body
        extra = dict(answer.headers)
        if data is None and status in (0, 200, 206) and whole is None:
            status, data = 404, b"not here"
        elif data is None and whole is not None and status in (0, 200, 206):
            if answer.flip is not None:
                spoiled = bytearray(whole)
                spoiled[answer.flip] ^= 1
                whole = bytes(spoiled)
            wanted = asked.range if answer.ranges else None
            extra = {"ETag": self.tag, **extra}
            if wanted and wanted[0] >= len(whole):
                status, data = 416, b""
                extra["Content-Range"] = f"bytes */{len(whole)}"
            elif wanted:
                end = min(len(whole), (wanted[1] if wanted[1] is not None else len(whole)) + 1)
                status, data = 206, whole[wanted[0] : end]
                extra.setdefault("Content-Range", f"bytes {wanted[0]}-{end - 1}/{len(whole)}")
            else:
                status, data = 200, whole
        data = data or b""
        handler.send_response(status or 200)
        for name, text in extra.items():
            handler.send_header(name, text)
        if answer.length:
            handler.send_header("Content-Length", str(len(data)))
        else:
            handler.send_header("Connection", "close")
            handler.close_connection = True
        handler.end_headers()
        if asked.method == "HEAD":
            return
        if answer.stall:
            time.sleep(answer.stall)
        cut = len(data) if answer.cut is None else min(answer.cut, len(data))
        for start in range(0, cut, 1 << 16):
            handler.wfile.write(data[start : min(start + (1 << 16), cut)])
            with self.lock:
                self.sent += min(1 << 16, cut - start)
        if cut < len(data):
            handler.close_connection = True
            handler.wfile.flush()


@contextmanager
def serving(files: dict[str, bytes], behave: Behaviour | None = None) -> Iterator[CrookedServer]:
    """The server, up until the block ends."""
    crooked = CrookedServer(files, behave)
    thread = threading.Thread(target=crooked.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield crooked
    finally:
        crooked.server.shutdown()
        crooked.server.server_close()
        thread.join()
