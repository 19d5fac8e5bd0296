"""The keeper of one runner: starts the child process, speaks with it in frames, and sees it to its end.

Contract
    Whatever becomes of the child, every request that waits for it ends: with its answer, its error,
    or RunnerDied as soon as the process is gone. `stop` ends it within 10 seconds, hung or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from localdecide.core import frames
from localdecide.core.errors import LocaldecideError, RunnerDied, from_wire
from localdecide.core.model import ModelSpec
from localdecide.scheduler import child
from localdecide.scheduler.voice import Voice

RUNNER = ("-m", "localdecide.runner")
TERMINATE_SECONDS = 2.0
FRESH_SECONDS = 0.1


class RunnerProcess:
    """See `seams.Runner`. Every method on one event loop."""

    def __init__(
        self,
        spec: ModelSpec,
        options: Mapping[str, Any] | None = None,
        *,
        load_timeout: float = 300.0,
        command: Sequence[str] = RUNNER,
    ) -> None:
        """options: the `options` of the load frame. load_timeout: seconds a load may show no progress.

        command: what this Python is started with.
        """
        self.spec = spec
        self.info: Mapping[str, Any] = {}
        self._options = dict(options or {})
        self._load_timeout = load_timeout
        self._command = tuple(command)
        self._log = logging.getLogger(f"localdecide.runner.{spec.name}")
        self._last_lines: deque[str] = deque(maxlen=20)
        self._process: Process | None = None
        self._watch: asyncio.Task[None] | None = None
        self._gone = asyncio.Event()
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[Mapping[str, Any]] = self._loop.create_future()
        self._heard = self._loop.time()
        self._pending: dict[int, tuple[float, asyncio.Future[Any]]] = {}
        self._last_id = 0

    @property
    def alive(self) -> bool:
        """Started, and not known to have ended."""
        return self._process is not None and not self._gone.is_set()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Starts the child and returns when its model is loaded.

        Raises the error the runner reports, or RunnerDied if it ends, or shows no progress for too long.
        """
        if self._stopping:
            raise self._died("was stopped before it started")
        transport, voice = await self._loop.subprocess_exec(
            lambda: Voice(self._loop, self._hear),
            sys.executable,
            *self._command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=child.environment(),
            **child.own_session(),
        )
        self._process = Process(transport, voice, self._loop)
        self._watch = self._loop.create_task(self._see_through(self._process, voice), name=f"runner {self.spec.name}")
        if self._stopping:
            await self.stop(patience=0)
            raise self._died("was stopped before it started")
        self._heard = self._loop.time()
        await self._send({"op": "load", "spec": self.spec.to_wire(), "options": self._options})
        self.info = await self._loaded()

    async def request(self, op: str, fields: Mapping[str, Any]) -> Any:
        """The `result` of one frame. A cancelled caller sends a cancel frame.

        Raises the runner's error or RunnerDied; its details say `fresh` where the runner ended so soon
        after the request was written that it may have been dying already.
        """
        if not self.alive:
            raise self._died("has ended", fresh=True)
        self._last_id += 1
        number, future = self._last_id, self._loop.create_future()
        self._pending[number] = (self._loop.time(), future)
        try:
            await self._send({"op": op, "id": number, **fields}, finite=True)
            return await future
        except asyncio.CancelledError:
            self._write(frames.encode({"op": "cancel", "id": number}))
            raise
        finally:
            del self._pending[number]

    async def ping(self, timeout: float) -> bool:
        """Whether the runner answers within `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self.request("ping", {})
        except (TimeoutError, LocaldecideError):
            return False
        return True

    async def wait(self) -> None:
        """Returns when the process is gone."""
        if self._watch is not None:
            await self._gone.wait()

    async def stop(self, patience: float = 5.0) -> None:
        """Asks the child to end, then tells it, then kills it; returns when it is gone."""
        self._stopping = True
        process = self._process
        if process is None or process.stdin is None:
            return
        self._write(frames.encode({"op": "stop"}))
        process.stdin.close()
        if await self._gone_within(patience):
            return
        self._log.warning("did not stop when asked; terminating it")
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        if not await self._gone_within(TERMINATE_SECONDS):
            child.kill(process)
            await self._gone.wait()

    # Out.

    async def _send(self, message: Mapping[str, Any], *, finite: bool = False) -> None:
        """finite: see `frames.encode`."""
        decision = message.get("decision", {})
        if frames.is_long(decision.get("questions", ()), decision.get("images", ())):
            frame = await asyncio.to_thread(frames.encode, message, finite=finite)
        else:
            frame = frames.encode(message, finite=finite)
        self._write(frame)
        # A child that has gone is noticed, and told to the caller, by whoever reads its output.
        with contextlib.suppress(ConnectionError):
            if self._process and self._process.stdin:
                await self._process.stdin.drain()

    def _write(self, frame: bytes) -> None:
        stdin = self._process.stdin if self._process else None
        if stdin is not None and not stdin.is_closing():
            stdin.write(frame)

    # In.

    async def _see_through(self, process: Process, voice: Voice) -> None:
        """Waits until the child is gone, then ends what still waits for it."""
        assert process.stderr is not None
        lines = self._loop.create_task(self._read_lines(process.stderr))
        try:
            await voice.ended
        except Exception as nonsense:
            self._log.error("spoke nonsense: %s", nonsense)
            child.kill(process)
        # A child without a voice is of no use; one that has closed its output is ending anyway.
        try:
            async with asyncio.timeout(1.0):
                await process.wait()
        except TimeoutError:
            child.kill(process)
            await process.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1.0):
                await lines
        self._gone.set()
        error = self._died(child.how_it_ended(process.returncode))
        if not self._stopping:
            self._log.error("%s", error)
        self._end(error)

    def _hear(self, message: Mapping[str, Any]) -> None:
        self._heard = self._loop.time()
        match message:
            case {"id": number, "result": result}:
                if "cache_bytes" in message:
                    engine = {**self.info.get("engine", {}), "cache_bytes": message["cache_bytes"]}
                    self.info = {**self.info, "engine": engine}
                self._settle(self._waiting(number), result=result)
            case {"id": number, "error": error}:
                self._settle(self._waiting(number), error=from_wire(error))
            case {"op": "progress"}:
                pass
            case {"op": "ready", "info": info}:
                self._settle(self._ready, result=info)
            case {"op": "failed", "error": error}:
                self._settle(self._ready, error=from_wire(error))
            case _:
                raise ValueError(f"a frame with the keys {sorted(message)}")

    def _waiting(self, number: int) -> asyncio.Future[Any] | None:
        return self._pending[number][1] if number in self._pending else None

    async def _read_lines(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while chunk := await stream.read(1 << 16):
            *lines, rest = (rest + chunk).split(b"\n")
            # A line without an end is cut, so that a babbling child cannot fill the daemon's memory.
            if len(rest) > 1 << 16:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._note(line)
        self._note(rest)

    def _note(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        if text:
            self._last_lines.append(text[:1000])
            self._log.info("%s", text)

    # Ends.

    async def _loaded(self) -> Mapping[str, Any]:
        while not self._ready.done():
            left = self._heard + self._load_timeout - self._loop.time()
            if left <= 0:
                message = f"showed no progress in loading for {self._load_timeout:g} seconds (LOCALDECIDE_LOAD_TIMEOUT)"
                self._end(self._died(message))
                break
            await asyncio.wait({self._ready}, timeout=None if left == float("inf") else left)
        return await self._ready

    def _end(self, error: RunnerDied) -> None:
        self._settle(self._ready, error=error)
        now = self._loop.time()
        for sent, future in self._pending.values():
            fresh = {"fresh": True} if now - sent < FRESH_SECONDS else {}
            self._settle(future, error=RunnerDied(error.message, {**error.details, **fresh}))

    def _died(self, how: str, **details: Any) -> RunnerDied:
        details |= child.facts(self._process.returncode if self._process else None)
        details["log"] = list(self._last_lines)
        tail = f": {self._last_lines[-1]}" if self._last_lines and not self._stopping else ""
        return RunnerDied(f"the runner of '{self.spec.name}' {how}{tail}", details)

    async def _gone_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        return self._gone.is_set()

    @staticmethod
    def _settle(future: asyncio.Future[Any] | None, result: Any = None, error: LocaldecideError | None = None) -> None:
        if future is None or future.done():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
            future.exception()  # nobody may be left to look at it
