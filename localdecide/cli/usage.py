"""The one error that a command raises about how it was called."""

from __future__ import annotations


class UsageProblem(Exception):
    """The command was called in a way that makes no sense; `hint` says how to call it."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint
