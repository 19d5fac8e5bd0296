"""A new GGUF as pieces: bytes of our own and stretches of files that exist. Weights are copied, never decoded."""

from __future__ import annotations

import hashlib
import struct
import threading
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from localdecide.core.errors import BadModelFile, Cancelled
from localdecide.store.gguf_header import Header, TensorInfo

_CHUNK = 4 << 20


@dataclass(frozen=True, slots=True)
class Stretch:
    """Bytes `start` to `end` of a file."""

    path: Path
    start: int
    end: int


Piece = bytes | Stretch


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a stretch of an original file ended up in a new one."""

    start: int
    end: int
    at: int


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def text_pair(key: str, value: str) -> bytes:
    """A metadata pair with a string."""
    return string(key) + struct.pack("<I", 8) + string(value)


def number_pair(key: str, value: int) -> bytes:
    """A metadata pair with a u32."""
    return string(key) + struct.pack("<II", 4, value)


def numbers_pair(key: str, kind: int, form: str, values: Sequence[Any]) -> bytes:
    """A metadata pair with an array; kind: GGUF type, form: its struct letter."""
    return string(key) + struct.pack("<IIQ", 9, kind, len(values)) + struct.pack(f"<{len(values)}{form}", *values)


def build(
    pairs: Iterable[Sequence[Piece]], tensors: Iterable[tuple[Header, TensorInfo]], alignment: int
) -> list[Piece]:
    """The pieces of a GGUF v3: metadata pairs as they are given, tensors one after the other in the order given."""
    pairs, tensors = list(pairs), list(tensors)
    pieces: list[Piece] = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs))]
    for pair in pairs:
        pieces += pair
    offset, table = 0, b""
    data: list[Piece] = []
    for header, tensor in tensors:
        if tensor.size == 0:
            raise BadModelFile(f"{header.path.name}: tensor {tensor.name!r} is of an unknown type, {tensor.kind}")
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        table += string(tensor.name) + shape + struct.pack("<IQ", tensor.kind, offset)
        start = header.data_offset + tensor.offset
        padding = -tensor.size % alignment
        data += [Stretch(header.path, start, start + tensor.size), bytes(padding)]
        offset += tensor.size + padding
    head = length(pieces) + len(table)
    return [*pieces, table + bytes(-head % alignment), *data]


def length(pieces: Iterable[Piece]) -> int:
    """Bytes of all pieces."""
    return sum(len(piece) if isinstance(piece, bytes) else piece.end - piece.start for piece in pieces)


@dataclass
class Written:
    """What `write` did. digest: `sha256:...` of the new file; placed: stretches by file, as they were copied."""

    digest: str = ""
    size: int = 0
    placed: tuple[tuple[Path, Placed], ...] = ()


def write(pieces: Iterable[Piece], file: IO[bytes], stop: threading.Event) -> Generator[int, None, Written]:
    """Copy the pieces into a file and hash them on the way. Yields bytes written so far. Raises Cancelled."""
    hasher, at = hashlib.sha256(), 0
    placed: list[tuple[Path, Placed]] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            hasher.update(piece)
            file.write(piece)
            at += len(piece)
            continue
        placed.append((piece.path, Placed(piece.start, piece.end, at)))
        for data in read(piece):
            if stop.is_set():
                raise Cancelled("the import was cancelled")
            hasher.update(data)
            file.write(data)
            at += len(data)
            yield at
    return Written(f"sha256:{hasher.hexdigest()}", at, tuple(placed))


def read(stretch: Stretch) -> Generator[bytes, None, None]:
    """The bytes of a stretch in chunks. Raises BadModelFile if the file is shorter than it was."""
    left = stretch.end - stretch.start
    with stretch.path.open("rb") as file:
        file.seek(stretch.start)
        while left:
            data = file.read(min(_CHUNK, left))
            if not data:
                raise BadModelFile(f"{stretch.path.name} became shorter while it was read")
            left -= len(data)
            yield data
