"""Upstream's server as a judge: the same file and request, its own answers.

    with Judge(path) as judge:
        status, reply = judge.ask({"state": ..., "questions": ...})

`available()` says whether its package (xllamacpp) is installed; it is never imported by the tests.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

SERVE = Path(__file__).with_name("serve.py")
SECONDS = 120


def available() -> bool:
    return importlib.util.find_spec("xllamacpp") is not None


class Judge:
    """path: the GGUF. settings: of `serve.py`: context, ubatch, parallel, exact (f32 cache, no flash attention)."""

    def __init__(self, path: Path | str, **settings: Any) -> None:
        self._settings = {"path": str(path), **settings}

    def __enter__(self) -> Judge:
        command = [sys.executable, str(SERVE), json.dumps(self._settings)]
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        if not line:
            self._close()
            raise RuntimeError(f"the judge does not load {self._settings['path']}")
        self._address = json.loads(line)["address"]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def ask(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and reply of POST /v1/systemone."""
        data = json.dumps(body, ensure_ascii=False).encode()
        request = urllib.request.Request(
            f"{self._address}/v1/systemone", data, {"Content-Type": "application/json"}, method="POST"
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=SECONDS) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def _close(self) -> None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        try:
            self._child.wait(10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child.stdout.close()
