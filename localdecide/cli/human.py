"""Numbers and times as a person reads them: 94 MB, 3 days ago, 4 minutes from now."""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ((10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "KB"))
_SPANS = (
    (365.25 * 86400, "year"),
    (30.44 * 86400, "month"),
    (7 * 86400.0, "week"),
    (86400.0, "day"),
    (3600.0, "hour"),
    (60.0, "minute"),
    (1.0, "second"),
)


def size(count: int) -> str:
    """Bytes in decimal units: whole from 10 on, else one digit after the point."""
    for unit, word in _UNITS:
        if count >= unit:
            amount = count / unit
            return f"{amount:.0f} {word}" if amount >= 10 else f"{amount:.1f} {word}"
    return f"{count} B"


def span(seconds: float) -> str:
    """`4 minutes`, `1 hour`, `Less than a second`: the largest unit that fits, rounded down."""
    if seconds < 1:
        return "Less than a second"
    for length, word in _SPANS:
        if seconds >= length:
            count = int(seconds / length)
            return f"{count} {word}{'' if count == 1 else 's'}"
    raise AssertionError("every span of a second or more has a unit")


def when(moment: str | None, now: datetime | None = None) -> str:
    """An RFC 3339 moment seen from now: `3 days ago`, `4 minutes from now`; Forever for none or 20 years off."""
    if not moment:
        return "Forever"
    away = (datetime.fromisoformat(_trim(moment)) - (now or datetime.now(UTC))).total_seconds()
    if away > 20 * 365 * 86400:
        return "Forever"
    if -1 < away < 1:
        return "Now" if away >= 0 else "Less than a second ago"
    return f"{span(away)} from now" if away > 0 else f"{span(-away)} ago"


def _trim(moment: str) -> str:
    """Python reads at most microseconds; a daemon in another language may write nanoseconds."""
    head, point, rest = moment.partition(".")
    if not point:
        return moment
    digits = len(rest) - len(rest.lstrip("0123456789"))
    return f"{head}.{rest[:digits][:6]}{rest[digits:]}"
