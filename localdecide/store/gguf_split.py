"""Upstream decision files that llama.cpp's bindings cannot open as they are: a backbone they can, and a head.

    kev               cls.*                                          pointer head on qwen35
    laya, Julia-1     last blocks, token_types, cls.*                marker head on modern-bert
    lfm2-d1-omni      last blocks, token_types, cls.*                marker head on lfm2
    clef              decision.*, dec.*, token_types.*               joint head; architecture clef is qwen35
    clef of Ollama    clef.*                                         the same on qwen35

The head is a GGUF of its own with the original's keys of its architecture. What else a file says stays in both.
A recipe of where every byte went gives the original back, byte for byte.
"""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile, DigestMismatch
from localdecide.store.gguf_header import Array, Header
from localdecide.store.gguf_pieces import (
    Piece,
    Placed,
    Stretch,
    build,
    number_pair,
    numbers_pair,
    read,
    string,
    text_pair,
)

_PREFIXES = ("cls.", "token_types.", "decision.", "decision2.", "dec.", "clef.")
_BLOCK_HEADS = ("laya", "lfm2-d1-omni")
"""Types whose head has blocks that are numbered on from the backbone's."""
_RENAMED = {"clef": "qwen35"}
_PRE_TOKENIZERS = {"mmbert": "gemma4"}
"""Pre-tokenizers the bindings do not know, and what to load the vocabulary with; see `localdecide.tokenizer.pre`."""
PRE_TOKENIZER = "localdecide.tokenizer.pre"

_I32 = 5


@dataclass(frozen=True)
class Split:
    """The two files that an upstream file becomes."""

    backbone: list[Piece]
    head: list[Piece]


def needs_split(header: Header) -> bool:
    """Whether the file is a decision model with a head inside."""
    return bool(decision_type(header)) and any(tensor.name.startswith(_PREFIXES) for tensor in header.tensors)


def decision_type(header: Header) -> str:
    return str(header.arch("decision.type") or "")


def split(header: Header) -> Split:
    """The pieces of backbone and head. Raises BadModelFile for a file whose head is not where it should be."""
    tensors = sorted(header.tensors, key=lambda tensor: tensor.offset)
    head = [(header, tensor) for tensor in tensors if _is_head(header, tensor.name)]
    backbone = [(header, tensor) for tensor in tensors if not _is_head(header, tensor.name)]
    if not backbone:
        raise BadModelFile(f"{header.path.name} holds a head and no backbone")
    return Split(
        build(_backbone_pairs(header), backbone, header.alignment),
        build(_head_pairs(header), head, header.alignment),
    )


def _encoder_blocks(header: Header) -> int:
    """Blocks of the backbone."""
    blocks = int(header.arch("block_count", 0))
    if decision_type(header) not in _BLOCK_HEADS:
        return blocks
    own = int(header.arch("decision.block_count", 0))
    if not 0 < own < blocks:
        raise BadModelFile(f"{header.path.name}: {own} head blocks of {blocks} blocks make no sense")
    return blocks - own


def _is_head(header: Header, name: str) -> bool:
    if name.startswith(_PREFIXES):
        return True
    first, _, rest = name.partition(".")
    number = rest.partition(".")[0]
    return first == "blk" and number.isdigit() and int(number) >= _encoder_blocks(header) > 0


def _copied(header: Header, key: str) -> list[Piece]:
    start, end = header.extents[key]
    return [Stretch(header.path, start, end)]


def _backbone_pairs(header: Header) -> Iterator[Sequence[Piece]]:
    architecture = header.architecture
    renamed = _RENAMED.get(architecture, architecture)
    blocks, total = _encoder_blocks(header), int(header.arch("block_count", 0))
    for key, value in header.metadata.items():
        if key == "general.architecture" and renamed != architecture:
            yield [text_pair(key, renamed)]
        elif key == f"{architecture}.embedding_length_out" or key == "tokenizer.ggml.token_type_count":
            continue  # of the head
        elif key == "tokenizer.ggml.pre" and value in _PRE_TOKENIZERS:
            yield [text_pair(key, _PRE_TOKENIZERS[value])]
            yield [text_pair(PRE_TOKENIZER, str(value))]
        elif not key.startswith(f"{architecture}."):
            yield _copied(header, key)
        elif blocks != total and key == f"{architecture}.block_count":
            yield [number_pair(key, blocks)]
        elif blocks != total and isinstance(value, list) and len(value) == total:
            yield [_shortened(header, key, value[:blocks])]
        elif renamed != architecture:
            start, end = header.extents[key]
            name = f"{renamed}.{key.partition('.')[2]}"
            yield [string(name), Stretch(header.path, start + len(string(key)), end)]
        else:
            yield _copied(header, key)


def _shortened(header: Header, key: str, values: list[Any]) -> bytes:
    """A list by layer, cut to the backbone's layers; one number where all are equal, as other models have it."""
    if all(isinstance(value, bool) for value in values):
        return numbers_pair(key, 7, "?", values)
    if len(set(values)) == 1 and isinstance(values[0], int):
        return number_pair(key, values[0])
    if all(isinstance(value, int) for value in values):
        return numbers_pair(key, _I32, "i", values)
    return numbers_pair(key, 6, "f", values)


def _head_pairs(header: Header) -> Iterator[Sequence[Piece]]:
    yield [text_pair("general.architecture", "localdecide-head")]
    yield [text_pair("localdecide.head.family", decision_type(header))]
    if header.alignment != 32:
        yield [number_pair("general.alignment", header.alignment)]
    for key, value in header.metadata.items():
        ours = key.startswith(f"{header.architecture}.") or key in ("general.name", "tokenizer.ggml.token_type_count")
        if ours and not isinstance(value, Array):
            yield _copied(header, key)


# the way back


def recipe(header: Header, digest: str, model: Sequence[Placed], head: Sequence[Placed]) -> bytes:
    """What gives the original back from its two parts: JSON `{digest, size, pieces}`, compressed.

    A piece is `["model", offset, length]`, `["head", offset, length]` or `["bytes", base64]`.
    """
    placed = [(one, "model") for one in model] + [(one, "head") for one in head]
    placed.sort(key=lambda pair: (pair[0].start, -pair[0].end))
    pieces: list[list[Any]] = []
    at = 0
    for one, which in placed:
        if one.end <= at:
            continue
        if one.start > at:
            pieces.append(_literal(header.path, at, one.start))
            at = one.start
        pieces.append([which, one.at + at - one.start, one.end - at])
        at = one.end
    if at < header.size:
        pieces.append(_literal(header.path, at, header.size))
    body = {"version": 1, "digest": digest, "size": header.size, "pieces": _merged(pieces)}
    return zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 9)


def _literal(path: Path, start: int, end: int) -> list[Any]:
    return ["bytes", base64.b64encode(b"".join(read(Stretch(path, start, end)))).decode()]


def _merged(pieces: list[list[Any]]) -> list[list[Any]]:
    merged: list[list[Any]] = []
    for piece in pieces:
        last: list[Any] = merged[-1] if merged else ["", 0, 0]
        if piece[0] != "bytes" and piece[0] == last[0] and last[1] + last[2] == piece[1]:
            last[2] += piece[2]
        else:
            merged.append(piece)
    return merged


def original(recipe_bytes: bytes) -> tuple[str, int]:
    """Digest and size of the file a recipe gives back. Raises BadModelFile."""
    body = _body(recipe_bytes)
    return str(body["digest"]), int(body["size"])


def join(recipe_bytes: bytes, model: Path, head: Path) -> Generator[bytes, None, None]:
    """The bytes of the original. Raises DigestMismatch at the end if they are not what they were."""
    body = _body(recipe_bytes)
    hasher = hashlib.sha256()
    for piece in body["pieces"]:
        if piece[0] == "bytes":
            chunks: Iterator[bytes] = iter([base64.b64decode(piece[1])])
        else:
            path = model if piece[0] == "model" else head
            chunks = read(Stretch(path, piece[1], piece[1] + piece[2]))
        for data in chunks:
            hasher.update(data)
            yield data
    actual = f"sha256:{hasher.hexdigest()}"
    if actual != body["digest"]:
        message = f"the parts do not give the original back: {actual} in place of {body['digest']}"
        raise DigestMismatch(message, {"expected": body["digest"], "actual": actual})


def _body(recipe_bytes: bytes) -> dict[str, Any]:
    try:
        body = json.loads(zlib.decompress(recipe_bytes))
        if body["version"] != 1:
            raise ValueError(f"version {body['version']}")
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        raise BadModelFile(f"what is known of the original file cannot be read: {error}") from None
    return dict(body)
