"""A GGUF of a few hundred bytes, written with struct alone, so that the reader under test checks nobody but itself."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

F32 = 0


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item: Any) -> bytes:
    """Type and value: bool, int (u32), float (f32), text, and lists of one of those."""
    if isinstance(item, list):
        kind, _ = _scalar(item[0]) if item else (4, b"")
        return struct.pack("<IIQ", 9, kind, len(item)) + b"".join(_scalar(one)[1] for one in item)
    kind, data = _scalar(item)
    return struct.pack("<I", kind) + data


def _scalar(item: Any) -> tuple[int, bytes]:
    match item:
        case bool():
            return 7, struct.pack("<?", item)
        case int():
            return 4, struct.pack("<I", item)
        case float():
            return 6, struct.pack("<f", item)
        case _:
            return 8, string(item)


def build(
    metadata: Mapping[str, Any] | None = None,
    tensors: Mapping[str, Sequence[float]] | None = None,
    *,
    version: int = 3,
    alignment: int = 32,
) -> bytes:
    """The bytes of a GGUF; tensors are one-dimensional float32."""
    pairs = {"general.architecture": "llama", **(metadata or {})}
    rows = {"output_norm.weight": [1.0, 2.0]} if tensors is None else tensors
    head = b"GGUF" + struct.pack("<IQQ", version, len(rows), len(pairs))
    head += b"".join(string(key) + value(item) for key, item in pairs.items())
    data = b""
    for name, numbers in rows.items():
        head += string(name) + struct.pack("<IQIQ", 1, len(numbers), F32, len(data))
        raw = struct.pack(f"<{len(numbers)}f", *numbers)
        data += raw + b"\0" * (-len(raw) % alignment)
    return head + b"\0" * (-len(head) % alignment) + data


def write(path: Path, metadata: Mapping[str, Any] | None = None, **more: Any) -> Path:
    path.write_bytes(build(metadata, **more))
    return path
