"""What a command prints: data on stdout, talk on stderr, in one of three modes.

human: for a person. json: one JSON value on stdout. quiet: the bare essentials on stdout, no talk.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from typing import Any, Literal, TextIO

Mode = Literal["human", "json", "quiet"]


class Output:
    """The only thing commands print through. `stdout` and `stderr` default to the process's own."""

    def __init__(self, mode: Mode = "human", stdout: TextIO | None = None, stderr: TextIO | None = None) -> None:
        self.mode = mode
        self.stdout = stdout or sys.stdout
        self.stderr = stderr or sys.stderr

    @classmethod
    def of(cls, json: bool = False, quiet: bool = False) -> Output:
        """The output of a command's flags; `--json` wins."""
        return cls("json" if json else "quiet" if quiet else "human")

    @property
    def fancy(self) -> bool:
        """Whether stdout is a terminal that wants colour and block characters."""
        return _fancy(self.stdout)

    @property
    def lively(self) -> bool:
        """Whether stderr is a terminal that may show progress bars."""
        return self.mode != "quiet" and self.stderr.isatty() and os.environ.get("TERM") != "dumb"

    def data(self, text: str) -> None:
        """A line, or several, of what was asked for."""
        print(text, file=self.stdout)

    def json(self, value: Any) -> None:
        self.data(json.dumps(value, ensure_ascii=False, indent=2))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Columns four spaces apart, as wide as their longest cell."""
        widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
        for row in (header, *rows):
            self.data("".join(cell.ljust(width + 4) for cell, width in zip(row, widths, strict=True)).rstrip())

    def talk(self, text: str) -> None:
        """What happens meanwhile; nothing in quiet mode."""
        if self.mode != "quiet":
            print(text, file=self.stderr, flush=True)

    def error(self, sentence: str, hint: str | None = None) -> None:
        """What went wrong and, after a blank line, what to do about it; in every mode."""
        word, note = ("\033[31merror\033[0m", "\033[36mhint\033[0m") if _fancy(self.stderr) else ("error", "hint")
        print(f"{word}: {sentence}", file=self.stderr)
        if hint:
            print(f"\n{note}: {hint}", file=self.stderr)


def _fancy(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
