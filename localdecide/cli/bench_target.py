"""A server under test: one request after another over one connection per thread, and its CPU time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localdecide.cli import processes

if TYPE_CHECKING:
    from http.client import HTTPConnection

SECONDS = 600.0
# Contracts whose request is a state and a map of questions, and where a server of each serves it.
PATHS = {
    "localdecide": "/v1/systemone",
    "llama.cpp": "/v1/systemone",
    "localai": "/v1/systemone",
    "ollama": "/v1/systemone",
    "requesty": "/v1/systemone",
    "sglang": "/v1/systemone",
    "typesafe": "/v1/systemone",
    "vllm": "/v1/systemone",
}
_LOCAL = ("127.", "::1", "localhost")


class TargetFailed(Exception):
    """A server under test did not answer, or answered with an error; the message names it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """seconds: wall time from the first byte sent to the last received. body: the answer's JSON object."""

    seconds: float
    body: Mapping[str, Any]

    @property
    def prompt_tokens(self) -> int | None:
        """What the server says the prompts held, all questions together."""
        usage = self.body.get("usage")
        found = usage.get("input_tokens") if isinstance(usage, dict) else None
        return found if isinstance(found, int) else None


class Target:
    """url: `http[s]://host[:port][/prefix]`. model: its name there. headers: sent with every request."""

    def __init__(self, url: str, dialect: str, model: str, headers: Mapping[str, str] | None = None) -> None:
        from urllib.parse import urlsplit

        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not the address of a server")
        self.url, self.dialect, self.model = url, dialect, model
        self._secure = parts.scheme == "https"
        self._host = parts.hostname
        self._port = parts.port or (443 if self._secure else 80)
        self._path = parts.path.rstrip("/") + PATHS[dialect]
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self._connections = threading.local()
        self._opened: list[HTTPConnection] = []
        self._process = processes.listener(self._port) if self._host.startswith(_LOCAL) else None

    def cpu(self) -> float | None:
        """CPU seconds of the server so far; None for one whose process cannot be seen."""
        return None if self._process is None else processes.cpu_seconds(self._process)

    def ask(self, state: str, questions: Mapping[str, Any]) -> Reply:
        """One request. Raises TargetFailed."""
        from http.client import HTTPException

        body = json.dumps({"model": self.model, "state": state, "questions": questions}).encode()
        started = time.perf_counter()
        try:
            connection = self._connection()
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            data = response.read()
        except (OSError, HTTPException) as error:
            self._connections.held = None
            raise TargetFailed(f"{self.url} did not answer: {error or type(error).__name__}") from None
        seconds = time.perf_counter() - started
        try:
            value = json.loads(data)
        except ValueError:
            value = None
        if response.status != 200 or not isinstance(value, dict) or "answers" not in value:
            said = data[:300].decode(errors="replace")
            raise TargetFailed(f"{self.url} answered {self._path} with status {response.status}: {said}")
        return Reply(seconds, value)

    def _connection(self) -> HTTPConnection:
        from http.client import HTTPConnection, HTTPSConnection

        if getattr(self._connections, "held", None) is None:
            kind = HTTPSConnection if self._secure else HTTPConnection
            self._connections.held = kind(self._host, self._port, timeout=SECONDS)
            self._opened.append(self._connections.held)
        held: HTTPConnection = self._connections.held
        return held

    def close(self) -> None:
        """End the connections of all threads."""
        for connection in self._opened:
            connection.close()
