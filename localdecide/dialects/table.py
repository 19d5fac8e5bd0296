"""Every path that answers decisions, and whose contract it speaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from localdecide.dialects import root
from localdecide.dialects.base import Dialect, Incoming, Operation

# Some paths are shared by contracts; the body says which. Never by trying one and then another.
Choose = Callable[[Incoming], Operation]

OPERATIONS: Mapping[str, Operation | Choose] = {
    "/v1/systemone": root.SYSTEMONE,
}


def dialect_of(path: str) -> Dialect:
    """Whose error body a request to `path` gets, before anything else is known of it."""
    found = OPERATIONS.get(path)
    return found.dialect if isinstance(found, Operation) else root.DIALECT


def forced(path: str, name: str) -> str | None:
    """The path that serves root `path` in the dialect `name`; None where that dialect has none."""
    if name == root.DIALECT.name:
        return path
    route = f"/{name}{path}"
    return route if route in OPERATIONS else None
