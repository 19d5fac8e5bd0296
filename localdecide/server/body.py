"""A request's body: read with a bound, unpacked with the same bound."""

from __future__ import annotations

import asyncio
import zlib

import zstandard
from starlette.requests import Request
from starlette.types import Receive

from localdecide.core.errors import Cancelled, InputTooLarge, MalformedBody, UnsupportedEncoding

# What the zstd format asks every decoder to allow, and what its default levels need.
MAX_WINDOW = 8 * 1024 * 1024
STEP = 4096
# Over a millisecond's work, for which join lets other threads run.
JOIN_IN_THREAD = 1024 * 1024


async def read_body(receive: Receive, declared: str | None, limit: int) -> bytes:
    """The body as it was sent. declared: its Content-Length, where it has one.

    Raises InputTooLarge before more than `limit` bytes are kept.
    """
    declared = declared or ""
    if declared.isdigit() and int(declared) > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Cancelled("the client closed the connection while it sent the request")
        size += len(chunk := message.get("body", b""))
        if size > limit:
            raise too_large(limit)
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks) if size <= JOIN_IN_THREAD else await asyncio.to_thread(b"".join, chunks)


async def body_of(request: Request, limit: int) -> bytes:
    """The body of `request`, see `read_body`."""
    return await read_body(request.receive, request.headers.get("content-length"), limit)


def too_large(limit: int) -> InputTooLarge:
    """The error for a body over `limit` bytes."""
    return InputTooLarge(f"the request body must not exceed {limit} bytes (LOCALDECIDE_MAX_BODY)", {"limit": limit})


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """The body without its Content-Encoding: identity, gzip, deflate or zstd. Never over `limit` bytes."""
    for name in reversed([part.strip().lower() for part in encoding.split(",") if part.strip()]):
        if name == "identity":
            continue
        if name in ("gzip", "x-gzip"):
            body = _inflate(body, zlib.MAX_WBITS | 16, limit)
        elif name == "deflate":
            body = _inflate(body, zlib.MAX_WBITS, limit)
        elif name == "zstd":
            body = _unpack_zstd(body, limit)
        else:
            raise UnsupportedEncoding(
                f"Content-Encoding {name[:40]!r} is not supported; send zstd, gzip, deflate or an uncompressed body"
            )
    return body


def _inflate(body: bytes, wbits: int, limit: int) -> bytes:
    out = bytearray()
    at = 0
    while True:
        stream = zlib.decompressobj(wbits)
        while not stream.eof:
            if at >= len(body) and not stream.unconsumed_tail:
                raise MalformedBody("the compressed body ends too early")
            # In steps: zlib copies what follows a stream's end, and thousands of tiny streams would copy it each time.
            step = stream.unconsumed_tail or body[at : (at := at + STEP)]
            try:
                out += stream.decompress(step, limit + 1 - len(out))
            except zlib.error as error:
                raise MalformedBody(f"the compressed body is damaged: {error}") from None
            if len(out) > limit:
                raise too_large(limit)
        at = min(at, len(body)) - len(stream.unused_data)
        if at == len(body):  # gzip files may follow each other
            return bytes(out)


def _unpack_zstd(body: bytes, limit: int) -> bytes:
    decompressor = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
    try:
        size = zstandard.frame_content_size(body)
        if size < 0:  # a streamed frame does not say; count without keeping more than the limit
            with decompressor.stream_reader(body) as stream:
                size = len(stream.read(limit + 1))
        if size > limit:
            raise too_large(limit)
        return decompressor.decompress(body, max_output_size=max(size, 1), allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise MalformedBody(f"the compressed body is damaged: {error}") from None
