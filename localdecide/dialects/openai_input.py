"""OpenAI's `input`: a string, or messages and tool calls made of parts, as one state and its images."""

from __future__ import annotations

from typing import Any

from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.dialects.fields import members
from localdecide.dialects.images import read_image
from localdecide.dialects.systemone import compact_json

Loc = tuple[str | int, ...]

ROLES = ("user", "assistant", "developer", "system")
MAX_JSON_DEPTH = 32
MAX_JSON_VALUES = 10_000
MAX_JSON_BYTES = 256 * 1024


def read_input(raw: Any, loc: Loc = ("input",)) -> tuple[Json, tuple[bytes, ...]]:
    """State and images. One user message is its content; a conversation is an array of its items."""
    if isinstance(raw, str):
        if not raw.strip():
            raise InvalidRequest.at(loc, "must not be empty")
        return raw, ()
    if not isinstance(raw, list):
        raise InvalidRequest.at(loc, "must be a string or an array of input items")
    if not raw:
        raise InvalidRequest.at(loc, "must not be empty")
    images: list[bytes] = []
    read = [_item(item, (*loc, index), images) for index, item in enumerate(raw)]
    if len(read) == 1 and set(read[0]) == {"role", "content"} and read[0]["role"] == "user":
        content: Json = read[0]["content"]
        return content, tuple(images)
    return list(read), tuple(images)


def _item(raw: Any, loc: Loc, images: list[bytes]) -> dict[str, Any]:
    """One item as plain JSON; its images go to `images`."""
    item = members(raw, loc)
    match item.get("type", "message"):
        case "message":
            role = item.get("role")
            if role not in ROLES:
                raise InvalidRequest.at((*loc, "role"), f"must be one of {', '.join(ROLES)}")
            return {"role": role, "content": read_content(item.get("content"), (*loc, "content"), images)}
        case "function_call" | "custom_tool_call" as kind:
            what = "arguments" if kind == "function_call" else "input"
            return {"type": kind, **_strings(item, ("name", what, "call_id"), loc)}
        case "function_call_output" | "custom_tool_call_output" as kind:
            output = item.get("output")
            value = output if isinstance(output, str) else read_content(output, (*loc, "output"), images)
            return {"type": kind, **_strings(item, ("call_id",), loc), "output": value}
        case _:
            raise InvalidRequest.at((*loc, "type"), "is not a kind of input item")


def read_content(raw: Any, loc: Loc, images: list[bytes] | None) -> Json:
    """A string, or parts: texts and JSON, joined by a blank line unless a single JSON part is all there is.

    images: where image parts go; None where images have no place.
    """
    if isinstance(raw, str):
        if not raw.strip():
            raise InvalidRequest.at(loc, "must not be empty")
        return raw
    if not isinstance(raw, list) or not raw:
        raise InvalidRequest.at(loc, "must be a string or an array of parts")
    found: list[Json] = []
    for index, part in enumerate(raw):
        here = (*loc, index)
        match members(part, here).get("type"):
            case "input_text" | "output_text" | "text":
                found.append(_strings(part, ("text",), here)["text"])
            case "refusal":
                found.append(_strings(part, ("refusal",), here)["refusal"])
            case "input_json":
                found.append(_data(part.get("data"), (*here, "data")))
            case "input_image" if images is not None:
                images.append(read_image(part.get("image_url"), (*here, "image_url")))
            case "input_image":
                raise UnsupportedInput.at(here, "images are read from input only")
            case _:
                raise InvalidRequest.at((*here, "type"), "is not a kind of part that can be read here")
    if len(found) == 1:
        return found[0]
    return "\n\n".join(piece if isinstance(piece, str) else compact_json(piece) for piece in found)


def _strings(item: dict[str, Any], names: tuple[str, ...], loc: Loc) -> dict[str, str]:
    for name in names:
        if not isinstance(item.get(name), str):
            raise InvalidRequest.at((*loc, name), "must be a string")
    return {name: item[name] for name in names}


def _data(raw: Any, loc: Loc) -> Json:
    """The value of an input_json part: an object or a list of objects, within OpenAI's bounds."""
    for index, item in enumerate(raw if isinstance(raw, list) else [raw]):
        members(item, (*loc, index) if isinstance(raw, list) else loc)
    if _count(raw, 1, loc) > MAX_JSON_VALUES:
        raise InvalidRequest.at(loc, f"must hold at most {MAX_JSON_VALUES} values")
    if len(compact_json(raw).encode()) > MAX_JSON_BYTES:
        raise InvalidRequest.at(loc, f"must not exceed {MAX_JSON_BYTES} bytes of JSON")
    value: Json = raw
    return value


def _count(value: Any, depth: int, loc: Loc) -> int:
    if depth > MAX_JSON_DEPTH:
        raise InvalidRequest.at(loc, f"must not be nested deeper than {MAX_JSON_DEPTH} levels")
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(_count(item, depth + 1, loc) for item in inner)
