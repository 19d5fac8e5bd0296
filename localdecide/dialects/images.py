"""Images of a request as bytes: base64, a data URL, or an object with one. Never an address to fetch."""

from __future__ import annotations

import base64
import binascii
from itertools import pairwise
from typing import Any

from localdecide.core.errors import InputTooLarge, InvalidRequest, UnsupportedInput

Loc = tuple[str | int, ...]

MAX_IMAGE_BYTES = 16 * 1024 * 1024
PIECE = 1 << 18  # characters of base64 that are decoded at a time; divisible by 4
_MAGIC = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff")


def read_images(raw: Any, loc: Loc = ("images",), *, most: int | None = None) -> tuple[bytes, ...]:
    """The images of a list, in order; absent and null are none. Raises InvalidRequest."""
    if raw is None:
        return ()
    if not isinstance(raw, list):
        raise InvalidRequest.at(loc, "must be an array of images")
    if most is not None and len(raw) > most:
        raise InvalidRequest.at(loc, f"must hold at most {most} images, not {len(raw)}")
    return tuple(read_image(item, (*loc, index)) for index, item in enumerate(raw))


def read_image(raw: Any, loc: Loc) -> bytes:
    """One image: base64 text, a `data:` URL, or `{"url": ...}` with either."""
    if isinstance(raw, dict):
        raw, loc = raw.get("url"), (*loc, "url")
    if not isinstance(raw, str) or not raw.strip():
        raise InvalidRequest.at(loc, "must be base64 or a data URL")
    text = raw.strip()
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise InvalidRequest.at(loc, "a data URL must hold base64")
    elif "://" in text[:16]:
        # Fetching what a request names would let a web page read the user's own network.
        raise UnsupportedInput.at(loc, "addresses are never fetched; send base64 or a data URL")
    return decode_image(text, loc)


def decode_image(text: str, loc: Loc) -> bytes:
    """The bytes of base64 `text`, which must be a PNG or JPEG of at most 16 MiB."""
    try:
        data = _decode(text)
    except (binascii.Error, ValueError):
        raise InvalidRequest.at(loc, "is not valid base64") from None
    return check_image(data, loc)


def _decode(text: str) -> bytes:
    """`base64.b64decode(text, validate=True)`, with a turn for other threads now and then."""
    # The last piece has 4 characters or more: padding needs something before it.
    cuts = [*range(0, max(1, len(text) - 3), PIECE), len(text)]
    pieces = [text[start:end] for start, end in pairwise(cuts)]
    if any(piece.endswith("=") for piece in pieces[:-1]):
        raise ValueError("padding before the end")
    return b"".join([base64.b64decode(piece, validate=True) for piece in pieces])


def check_image(data: bytes, loc: Loc) -> bytes:
    """`data`, if it is a PNG or JPEG of at most 16 MiB."""
    if len(data) > MAX_IMAGE_BYTES:
        raise InputTooLarge.at(loc, f"has {len(data)} bytes; an image may have {MAX_IMAGE_BYTES}")
    if not data.startswith(_MAGIC):
        raise UnsupportedInput.at(loc, "must be a PNG or JPEG image")
    return data
