"""How a JSON value becomes prompt text: one named rule for each that decision models were trained with.

Every family shows strings as they are. What they do with the rest differs in separators, key order and
escapes, and a model notices. Pure functions; `None` is JSON's null.
"""

from __future__ import annotations

import json
import re
from typing import Any

from localdecide.core.jsontext import Json


def json_text(value: Json) -> str:
    """JSON with ", " and ": ", members in their order; strings are quoted."""
    return json.dumps(value, ensure_ascii=False)


def json_text_compact(value: Json) -> str:
    """JSON with "," and ":", members in their order; strings are quoted."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def compact(value: Json) -> str:
    """Text as it is, null as nothing, the rest as compact JSON. SGLang's plain prompt."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json_text_compact(value)


def spaced(value: Json) -> str:
    """Text as it is, the rest as JSON with default separators. vLLM's plain prompt, PPLX, d3, openjev, Laya."""
    return value if isinstance(value, str) else json_text(value)


def sorted_compact(value: Json) -> str:
    """Text as it is, the rest as compact JSON with sorted keys. Clef."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def sorted_spaced(value: Json) -> str:
    """Text as it is, the rest as JSON with default separators and sorted keys. lev."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def indented(value: Json) -> str:
    """Text as it is, the rest as JSON over lines, two spaces deep. Liquid d1."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def indented_ascii(value: Json) -> str:
    """As `indented`, with everything beyond ASCII escaped. xor."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=True, indent=2)


def nimble(value: Json) -> str:
    r"""JSON with default separators in which `<` and `>` are `\u003c` and `\u003e`; strings are quoted."""
    return json_text(value).replace("<", "\\u003c").replace(">", "\\u003e")


_KEV_TOKEN = re.compile(r"<\|([A-Za-z0-9_]+)\|>")


def kev_escape(text: str) -> str:
    """`<|name|>` with broken bars, `<¦name¦>`: how kev keeps its delimiters out of user text."""
    return _KEV_TOKEN.sub("<¦\\1¦>", text)


def kev(value: Json) -> str:
    """Labelled lines, null as nothing, scalars as Python prints them (`True`, `1.0`). kev; not yet escaped.

    An object is `key: value` a line, with what is nested below `key:` and two spaces deeper; a list is
    `- item` a line, with the first line of what is nested behind the dash.
    """
    return _kev(value, 0)


def _kev(value: Any, level: int) -> str:
    if value is None:
        return ""
    pad = "  " * level
    if isinstance(value, list):
        return "\n".join(f"{pad}- {_kev(item, level + 1).lstrip()}" for item in value)
    if isinstance(value, dict):
        return "\n".join(
            f"{pad}{key}:\n{_kev(member, level + 1)}" if _nests(member) else f"{pad}{key}: {_kev(member, level)}"
            for key, member in value.items()
        )
    return str(value)


def clm(value: Json) -> str:
    """Labelled text, null as nothing, booleans as `true` and `false`. CLM.

    Members of the outermost object are paragraphs, members further in are lines, two spaces deeper
    below `key:`; list items are `- item`, or `-` with what is nested on the lines below.
    """
    return _clm(value, 0)


def _clm(value: Any, level: int) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    pad = "  " * level
    if isinstance(value, list):
        return "\n".join(_clm_line(f"{pad}-", item, level) for item in value)
    if isinstance(value, dict):
        lines = [_clm_line(f"{pad}{key}:", member, level) for key, member in value.items()]
        return ("\n" if level else "\n\n").join(lines)
    return str(value)


def _clm_line(head: str, value: Any, level: int) -> str:
    return f"{head}\n{_clm(value, level + 1)}" if _nests(value) else f"{head} {_clm(value, level)}"


def _nests(value: Any) -> bool:
    return isinstance(value, list | dict)
