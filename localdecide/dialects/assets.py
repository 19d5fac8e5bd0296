"""Images that a request names by placeholder: inside its JSON, or as parts of a multipart body.

The decision carries the images in the order of `assets`. Where a placeholder stood the text says
`[image N]`, N counted from 1, so that it still tells which picture is meant.
"""

from __future__ import annotations

from typing import Any

from localdecide.core import jsontext
from localdecide.core.errors import InvalidRequest
from localdecide.core.jsontext import Json
from localdecide.dialects.base import Body, Incoming, as_object
from localdecide.dialects.fields import members
from localdecide.dialects.images import check_image, decode_image
from localdecide.dialects.multipart import is_multipart, read_parts

FORMATS = ("png", "jpg", "jpeg")


def read_with_assets(incoming: Incoming) -> tuple[Body, tuple[bytes, ...]]:
    """The request's JSON object with its placeholders replaced, and its images."""
    if is_multipart(incoming.content_type):
        parts = read_parts(incoming.body, incoming.content_type)
        if "request" not in parts:
            raise InvalidRequest.at(("request",), "the multipart body needs a part named request")
        body = as_object(jsontext.loads(parts.pop("request")))
    else:
        parts, body = {}, incoming.object()
    assets = body.get("assets")
    if assets is None:
        if parts:
            raise InvalidRequest.at(("assets",), f"no asset claims the part {next(iter(parts))!r}")
        return body, ()
    if not members(assets, ("assets",)):
        raise InvalidRequest.at(("assets",), "must not be empty")
    images = tuple(_image(asset, parts, ("assets", key)) for key, asset in assets.items())
    if parts:
        raise InvalidRequest.at(("assets",), f"no asset claims the part {next(iter(parts))!r}")
    if "" in assets:
        raise InvalidRequest.at(("assets",), "a placeholder must not be empty")
    words = {placeholder: f"[image {number}]" for number, placeholder in enumerate(assets, 1)}
    replaced: Body = {name: _replace(body[name], words) for name in ("state", "questions") if name in body}
    return {**body, **replaced}, images


def _image(raw: Any, parts: dict[str, bytes], loc: tuple[str | int, ...]) -> bytes:
    """One asset's bytes; a part that it claims is taken out of `parts`."""
    asset = members(raw, loc)
    if asset.get("type") != "image":
        raise InvalidRequest.at((*loc, "type"), "must be image")
    if asset.get("format") is not None and asset["format"] not in FORMATS:
        raise InvalidRequest.at((*loc, "format"), f"must be one of {', '.join(FORMATS)}")
    if isinstance(text := asset.get("data_base64"), str):
        return decode_image(text, (*loc, "data_base64"))
    part = asset.get("part")
    if not isinstance(part, str) or part not in parts:
        raise InvalidRequest.at((*loc, "part"), "must name a part of the multipart body that no other asset claims")
    return check_image(parts.pop(part), (*loc, "part"))


def _replace(value: Json, words: dict[str, str]) -> Json:
    """`value` with every placeholder inside its strings replaced. Ids and option names are left alone."""
    if isinstance(value, str):
        for placeholder, word in words.items():
            value = value.replace(placeholder, word)
        return value
    if isinstance(value, list):
        return [_replace(item, words) for item in value]
    if isinstance(value, dict):
        return {key: _replace(item, words) for key, item in value.items()}
    return value
