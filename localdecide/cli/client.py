"""HTTP to the daemon and nothing else: one connection a request, never through a proxy.

DaemonError             the daemon answered with an error
Unreachable             nobody answers at the address
Interrupted             the answer broke off
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localdecide.settings import Settings

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

CONNECT_SECONDS = 5.0
_BLOCK = 1 << 18  # bytes of a file sent at once
_UNSPECIFIED = {"0.0.0.0": "127.0.0.1", "::": "::1", "localhost": "127.0.0.1"}


class DaemonError(Exception):
    """An error reply: HTTP `status` (200 for one inside a stream), `message`, `hint` or None, `retry_after` seconds."""

    def __init__(self, status: int, message: str, hint: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.retry_after = retry_after


class Unreachable(Exception):
    """Nothing listens at `address`; `reason` is the system's own word."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"no daemon answers at {address}: {reason}")
        self.address = address
        self.reason = reason


class Interrupted(Exception):
    """The connection ended before the answer did."""


class Client:
    """The daemon of `settings.host`. Every method raises the three errors above."""

    def __init__(self, settings: Settings) -> None:
        name, self.port = settings.address
        # Asking for "localhost" may try ::1 first, and waits seconds for the refusal on Windows.
        self.host = _UNSPECIFIED.get(name, name)
        self.local = self.host in ("127.0.0.1", "::1") or self.host.startswith("127.")
        self._key = settings.api_key

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def listening(self) -> bool:
        """Whether anything accepts a connection at the address."""
        import socket

        try:
            socket.create_connection((self.host, self.port), CONNECT_SECONDS).close()
        except OSError:
            return False
        return True

    def get(self, path: str, timeout: float | None = 30.0) -> Any:
        return self.request("GET", path, timeout=timeout)

    def post(self, path: str, body: Any, timeout: float | None = None) -> Any:
        return self.request("POST", path, body, timeout=timeout)

    def request(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> Any:
        """The reply's JSON value; None for an empty body."""
        text = self.raw(method, path, body, timeout)
        try:
            return json.loads(text) if text.strip() else None
        except ValueError:
            raise DaemonError(200, f"{self.address} answered {method} {path} with something other than JSON") from None

    def raw(self, method: str, path: str, body: Any = None, timeout: float | None = None) -> bytes:
        """The reply's bytes. `body`: bytes as they are, anything else as JSON; `timeout` None waits for ever."""
        with _broken(self.address), self._open(method, path, body, timeout) as response:
            return response.read()

    def send_file(self, path: str, file: Path) -> None:
        """POST a file as it is, without reading it whole."""
        with file.open("rb") as body, _broken(self.address), self._open("POST", path, body, None) as response:
            response.read()

    def stream(self, method: str, path: str, body: Any) -> Iterator[dict[str, Any]]:
        """The objects of an NDJSON reply as they arrive. A line with `error` raises DaemonError.

        The last line must be `{"status": "success"}`, else Interrupted.
        """
        last: Mapping[str, Any] = {}
        with _broken(self.address), self._open(method, path, body, None) as response:
            for line in response:
                if not line.strip():
                    continue
                try:
                    last = event = json.loads(line)
                except ValueError:
                    raise Interrupted(f"{self.address} sent a line that is not JSON") from None
                if "error" in event:
                    raise _error(response.status, line, None)
                yield event
        if last.get("status") != "success":
            raise Interrupted(f"{self.address} closed the connection before it was done")

    def _open(self, method: str, path: str, body: Any, timeout: float | None) -> _Exchange:
        from http.client import HTTPConnection

        connection = HTTPConnection(self.host, self.port, timeout=CONNECT_SECONDS, blocksize=_BLOCK)
        try:
            connection.connect()
        except OSError as error:
            raise Unreachable(self.address, error.strerror or str(error)) from None
        connection.sock.settimeout(timeout)
        headers = {"Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        data: Any = None
        if isinstance(body, BufferedReader):
            data = body
            headers |= {
                "Content-Type": "application/octet-stream",
                "Content-Length": str(os.fstat(body.fileno()).st_size),
            }
        elif body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
            headers["Content-Type"] = "application/json"
        try:
            # A daemon that refuses a large body answers and hangs up before it has read all of it.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request(method, path, data, headers)
            response = connection.getresponse()
        except BaseException:
            connection.close()
            raise
        if response.status >= 400:
            with _Exchange(connection, response):
                raise _error(response.status, response.read(), response.headers.get("Retry-After"))
        return _Exchange(connection, response)


class _Exchange:
    """A response and the connection it arrives on, closed together."""

    def __init__(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    def __enter__(self) -> HTTPResponse:
        return self._response

    def __exit__(self, *_: object) -> None:
        self._response.close()
        self._connection.close()


class _broken:
    """Turns what http.client raises mid-answer into Interrupted."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        from http.client import HTTPException

        if isinstance(error, TimeoutError):
            raise Interrupted(f"{self._address} did not answer in time") from None
        if isinstance(error, HTTPException | ConnectionError):
            raise Interrupted(f"{self._address} closed the connection before it was done") from None


def _error(status: int, body: bytes, retry_after: str | None) -> DaemonError:
    hint = None
    try:
        members = json.loads(body)
        message = members["error"]
        hint = members.get("hint")
    except (ValueError, KeyError, TypeError, AttributeError):
        message = body.decode(errors="replace").strip()[:500] or f"the daemon answered with status {status}"
        if message.startswith("<"):
            # A page for a browser: some other program has the port, or a proxy stands in between.
            message = f"another web server than localdecide answered, with status {status}"
            hint = "check `LOCALDECIDE_HOST`, and which program has that port"
    if isinstance(message, dict):
        message = message.get("message", "")
    wait = int(retry_after) if retry_after and retry_after.isdigit() else None
    return DaemonError(status, str(message), hint if isinstance(hint, str) else None, wait)
