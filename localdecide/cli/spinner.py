"""A sign of life on a terminal while a model loads or thinks; nothing anywhere else."""

from __future__ import annotations

import threading
from types import TracebackType

from localdecide.cli.output import Output

FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PATIENCE_SECONDS = 0.3
FRAME_SECONDS = 0.1
_CLEAR = "\r\033[K"


class Spinner:
    """`with Spinner(output, "loading"):` shows the word after a moment and clears it at the end."""

    def __init__(self, output: Output, word: str) -> None:
        self._stream = output.stderr
        self._word = word
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._turn, daemon=True) if output.lively else None

    def __enter__(self) -> None:
        if self._thread:
            self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()

    def _turn(self) -> None:
        if self._over.wait(PATIENCE_SECONDS):
            return
        turn = 0
        while not self._over.wait(FRAME_SECONDS):
            self._stream.write(f"{_CLEAR}{FRAMES[turn % len(FRAMES)]} {self._word}")
            self._stream.flush()
            turn += 1
        self._stream.write(_CLEAR)
        self._stream.flush()
