"""Jinja as llama.cpp's own engine reads it, on top of jinja2.

Decision templates were written for and tested with that engine. What it does differently:

- `tojson` keeps insertion order, prints floats with six significant digits and, with `indent`,
  separates items by a bare comma;
- null, undefined and objects print as nothing, a list prints its items, floats print fixed-point;
- null joined to a string by `+` or `~` is the empty string, and a number joined to one becomes text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import nodes
from jinja2.visitor import NodeTransformer

from localdecide.families.sandbox import Refusal, Sandbox


class LlamaSandbox(Sandbox):
    """The sandbox with llama.cpp's `+`, printing and `tojson`; `tree` gives it the operator `~`."""

    intercepted_binops = Sandbox.intercepted_binops | {"+"}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, finalize=text)
        self.filters["tojson"] = tojson
        self.filters["llama_concat"] = text

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "+" and isinstance(left, str) != isinstance(right, str):
            return text(left) + text(right)
        return super().call_binop(context, operator, left, right)

    def tree(self, source: str) -> nodes.Template:
        """The parsed template with every `a ~ b` rewritten; jinja2 offers no other hook for it."""
        rewritten: nodes.Template = _ConcatAsFilter().visit(self.parse(source))
        return rewritten


class _ConcatAsFilter(NodeTransformer):
    def visit_Concat(self, node: nodes.Concat) -> nodes.Filter:
        self.generic_visit(node)
        parts = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(parts, "llama_concat", [], [], None, None, lineno=node.lineno)


def text(value: Any) -> str:
    """`value` as llama.cpp's engine prints it: floats fixed-point with one to six decimals."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int):
        return str(value)
    if isinstance(value, float):
        digits = f"{value:.6f}".rstrip("0")
        return digits + "0" if digits.endswith(".") else digits
    if isinstance(value, list | tuple):
        return "".join(map(text, value))
    return ""


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: Sequence[str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON text as llama.cpp's `tojson` writes it.

    Integers beyond 64 bits are floats, since its JSON reader makes them so. Empty containers stay on
    one line whatever the indent. `sort_keys` is refused, as there.
    """
    if sort_keys:
        raise Refusal("tojson cannot sort keys")
    given = tuple(separators or ())
    item = given[0] if given else (", " if indent is None else ",")
    colon = given[1] if len(given) > 1 else ": "
    return "".join(_Writer(indent, item, colon, ensure_ascii).parts(value, 0))


class _Writer:
    def __init__(self, indent: int | None, item: str, colon: str, ascii_only: bool) -> None:
        self._newline = "" if indent is None else "\n"
        self._pad = " " * (indent or 0)
        self._item = item
        self._colon = colon
        self._ascii = ascii_only

    def parts(self, value: Any, level: int) -> Iterator[str]:
        if isinstance(value, str):
            yield self._string(value)
        elif isinstance(value, bool):
            yield "true" if value else "false"
        elif isinstance(value, int) and -(2**63) <= value < 2**64:
            yield str(value)
        elif isinstance(value, int | float):
            yield f"{float(value):g}"
        elif isinstance(value, Mapping):
            members = [(self._string(text(key)) + self._colon, member) for key, member in value.items()]
            yield from self._block("{}", members, level)
        elif isinstance(value, list | tuple):
            yield from self._block("[]", [("", member) for member in value], level)
        else:
            yield "null"

    def _string(self, value: str) -> str:
        return json.dumps(value, ensure_ascii=self._ascii)

    def _block(self, ends: str, members: list[tuple[str, Any]], level: int) -> Iterator[str]:
        if not members:
            yield ends
            return
        yield ends[0] + self._newline
        for index, (key, member) in enumerate(members):
            yield self._pad * (level + 1) + key
            yield from self.parts(member, level + 1)
            yield (self._item if index + 1 < len(members) else "") + self._newline
        yield self._pad * level + ends[1]
