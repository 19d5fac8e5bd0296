"""Question options in the order they stand on the command line, across their three types.

The parser keeps one list an option; only its own record of the order tells which came first.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

from localdecide.cli.questions import KINDS

_NAMES = {kind.replace("-", "_"): kind for kind in KINDS}
META = "localdecide.questions"


class QuestionCommand(TyperCommand):
    """A command whose context holds `[(kind, text), ...]` under `META`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        parser = self.make_parser(ctx)
        values, _, order = parser.parse_args(args=list(args))
        waiting = {name: iter(values.get(name) or ()) for name in _NAMES}
        ctx.meta[META] = [
            (_NAMES[parameter.name], next(waiting[parameter.name])) for parameter in order if parameter.name in _NAMES
        ]
        return list(super().parse_args(ctx, args))
