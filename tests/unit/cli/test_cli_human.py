"""Sizes and times as a person reads them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from localdecide.cli import human

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (94_000_000, "94 MB"), (9_530_000_000, "9.5 GB"), (10**13, "10 TB")],
)
def test_size(count: int, text: str) -> None:
    """Decimal units; one digit below ten."""
    assert text == human.size(count)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (None, "Forever"),
        ("", "Forever"),
        ("2318-03-01T12:00:00Z", "Forever"),
        ("2026-03-01T12:04:59.9Z", "4 minutes from now"),
        ("2026-03-01T12:00:30.123456789+00:00", "30 seconds from now"),
        ("2026-03-01T14:01:00+02:00", "1 minute from now"),
        ("2026-02-26T12:00:00Z", "3 days ago"),
        ("2026-02-15T12:00:00Z", "2 weeks ago"),
        ("2025-02-15T12:00:00Z", "1 year ago"),
        ("2026-03-01T12:00:00Z", "Now"),
        ("2026-03-01T11:59:59.5Z", "Less than a second ago"),
    ],
)
def test_when(moment: str | None, text: str) -> None:
    """A moment is told by its largest unit, before or after now; none is for ever."""
    assert text == human.when(moment, NOW)
