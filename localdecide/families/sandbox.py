"""Where templates run: jinja2's immutable sandbox with bounds on what a template may build.

A template comes with a model from anywhere. It cannot reach Python's internals and cannot change the
values it is given. It ends, because all that it can loop over is finite and the sandbox limits
`range`; its output and the strings it repeats are bounded here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from localdecide.core.errors import NotSupported

# Characters: far above any prompt that a context holds, far below what would hurt a machine.
MAX_OUTPUT = 64 * 1024 * 1024


class Refusal(Exception):
    """A template, or a bound on it, says no; the text says why."""


def raise_exception(message: object = "") -> NoReturn:
    """The function of that name inside templates."""
    raise Refusal(str(message))


class Sandbox(ImmutableSandboxedEnvironment):
    """Adds the bound on repetition: `'x' * 10**12` must not take the machine's memory."""

    intercepted_binops = frozenset(["*", "**"])

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "*":
            for sequence, count in ((left, right), (right, left)):
                if isinstance(sequence, str | list | tuple) and isinstance(count, int):
                    if len(sequence) * count > MAX_OUTPUT:
                        raise Refusal("it repeats a text too often")
                    break
        if operator == "**" and isinstance(right, int | float) and abs(right) > 1024:
            raise Refusal("it raises a number to a power over 1024")
        return super().call_binop(context, operator, left, right)


def render(template: jinja2.Template, context: Mapping[str, Any], name: str) -> str:
    """The text a template makes of `context`; NotSupported, naming the template, when it makes none."""
    parts: list[str] = []
    length = 0
    try:
        for part in template.generate(context):
            parts.append(part)
            length += len(part)
            if length > MAX_OUTPUT:
                raise Refusal(f"its output is over {MAX_OUTPUT} characters")
    except Refusal as refusal:
        raise NotSupported(f"{name} refuses this conversation: {refusal}") from None
    except Exception as error:  # a template may fail in any way that Python can
        raise NotSupported(f"{name} cannot be rendered: {type(error).__name__}: {error}") from None
    return "".join(parts)
