"""Figures of interleaved runs: the least and the median, and tables of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Series:
    """CPU seconds of one cell, over all repetitions."""

    seconds: list[float] = field(default_factory=list)

    @property
    def least(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    def json(self) -> dict[str, float | int]:
        return {"cpu_ms_least": 1000 * self.least, "cpu_ms_median": 1000 * self.median, "runs": len(self.seconds)}


def cpu_of(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of all threads of this process while `work` runs, and its result."""
    before = time.process_time()
    result = work()
    return time.process_time() - before, result


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned to the right, as Markdown."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]
    lines = [
        "| " + " | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in (header, *rows)
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|")
    return "\n".join(lines)
