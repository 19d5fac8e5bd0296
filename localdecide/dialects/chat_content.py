"""What a chat API's messages say, where the whole of it is one piece of content to judge.

User messages only; their texts are joined by blank lines; at most four images, inside the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.dialects.fields import items, members
from localdecide.dialects.images import decode_image, read_image

Loc = tuple[str | int, ...]

MAX_IMAGES = 4
TEXTS = ("text", "input_text")


def read_messages(raw: Any, loc: Loc) -> tuple[str, tuple[bytes, ...]]:
    """Text and images of a list of messages. Raises InvalidRequest naming what cannot be judged."""
    texts: list[str] = []
    images: list[bytes] = []
    if not items(raw, loc):
        raise InvalidRequest.at(loc, "must not be empty")
    for index, item in enumerate(raw):
        here = (*loc, index)
        message = members(item, here)
        if message.get("type", "message") != "message" or message.get("role") != "user":
            raise UnsupportedInput.at(here, "decision models read user messages only")
        _read_content(message.get("content"), (*here, "content"), texts, images)
    if len(images) > MAX_IMAGES:
        raise InvalidRequest.at(loc, f"must hold at most {MAX_IMAGES} images, not {len(images)}")
    text = "\n\n".join(texts)
    if not text.strip() and not images:
        raise InvalidRequest.at(loc, "must hold text")
    return text, tuple(images)


def _read_content(raw: Any, loc: Loc, texts: list[str], images: list[bytes]) -> None:
    if isinstance(raw, str):
        texts.append(raw)
        return
    for index, part in enumerate(items(raw, loc)):
        here = (*loc, index)
        kind = members(part, here).get("type")
        if kind in TEXTS:
            if not isinstance(part.get("text"), str):
                raise InvalidRequest.at((*here, "text"), "must be a string")
            texts.append(part["text"])
        elif kind in ("image_url", "input_image"):
            images.append(read_image(part.get("image_url"), (*here, "image_url")))
        elif kind == "image":
            images.append(_source(members(part.get("source"), (*here, "source")), (*here, "source")))
        else:
            raise UnsupportedInput.at((*here, "type"), "must be text or an image")


def _source(source: Mapping[str, Any], loc: Loc) -> bytes:
    """An image block of the Messages API."""
    if source.get("type") != "base64" or not isinstance(source.get("data"), str):
        raise UnsupportedInput.at(loc, "must be base64 data; addresses are never fetched")
    return decode_image(source["data"], (*loc, "data"))
