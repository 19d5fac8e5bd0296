"""What a GGUF header says about a model's size and shape: the numbers a memory estimate is made of."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile
from localdecide.store.gguf_header import FILE_TYPES, Header, read_header

_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """Sizes and shapes.

    layers: blocks of the backbone; kv_heads: key-value heads by layer, 0 where a layer keeps no such cache;
    key_length, value_length: numbers per head; sliding_window: tokens, 0 for none;
    recurrent_bytes: state per sequence of recurrent layers (float32), 0 where there are none;
    tensor_bytes: bytes of all weights; vocabulary: tokens; decision_type: `<arch>.decision.type` or None;
    attention_causal: False for encoders.
    """

    architecture: str
    name: str
    layers: int
    heads: int
    kv_heads: tuple[int, ...]
    key_length: int
    value_length: int
    embedding_length: int
    feed_forward_length: int
    context_train: int
    vocabulary: int
    sliding_window: int
    recurrent_bytes: int
    tensor_bytes: int
    parameter_count: int
    quantization: str
    decision_type: str | None
    attention_causal: bool

    def kv_bytes(self, tokens: int, bytes_per_number: int = 2) -> int:
        """Bytes of a full key-value cache for that many tokens."""
        return sum(self.kv_heads) * (self.key_length + self.value_length) * tokens * bytes_per_number

    @property
    def parameter_size(self) -> str:
        """As lists show it: `134.52M`, `9.0B`."""
        count = self.parameter_count
        for unit, factor in (("T", 10**12), ("B", 10**9), ("M", 10**6), ("K", 10**3)):
            if count >= factor:
                digits = 1 if unit in "TB" else 2
                return f"{count / factor:.{digits}f}{unit}"
        return str(count)


def facts_of(path: Path) -> HeaderFacts:
    """The facts of a file, read once for as long as it does not change. Raises BadModelFile."""
    try:
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
    except OSError:
        stamp = (0, 0, 0)
    return _cached(path, stamp)


@functools.lru_cache(maxsize=256)
def _cached(path: Path, stamp: tuple[int, int, int]) -> HeaderFacts:
    return facts_from(read_header(path))


def facts_from(header: Header) -> HeaderFacts:
    """The facts of a header that was read already. Raises BadModelFile for senseless ones."""
    layers = _integer(header.arch("block_count"))
    if not 0 <= layers <= _MOST_LAYERS:
        raise BadModelFile(f"{header.path.name} is damaged: it claims {layers} layers", {"path": str(header.path)})
    embedding = _integer(header.arch("embedding_length"))
    heads = max(_list(header.arch("attention.head_count"), 1), default=0)
    head_length = embedding // heads if heads else 0
    recurrent = _recurrent_layers(header, layers)
    kv = _list(header.arch("attention.head_count_kv", header.arch("attention.head_count")), layers)
    return HeaderFacts(
        architecture=header.architecture,
        name=str(header.metadata.get("general.name", "")),
        layers=layers,
        heads=heads,
        kv_heads=tuple(0 if here else count for count, here in zip(kv, recurrent, strict=False)),
        key_length=_integer(header.arch("attention.key_length", head_length)),
        value_length=_integer(header.arch("attention.value_length", head_length)),
        embedding_length=embedding,
        feed_forward_length=max(_list(header.arch("feed_forward_length"), 1), default=0),
        context_train=_integer(header.arch("context_length")),
        vocabulary=_vocabulary(header),
        sliding_window=_integer(header.arch("attention.sliding_window")),
        recurrent_bytes=sum(recurrent) * _recurrent_bytes(header, embedding),
        tensor_bytes=sum(tensor.size for tensor in header.tensors),
        parameter_count=sum(tensor.elements for tensor in header.tensors),
        quantization=quantization(header),
        decision_type=header.arch("decision.type"),
        attention_causal=bool(header.arch("attention.causal", True)),
    )


def quantization(header: Header) -> str:
    """The file's own type name, else the type that most of its weights have."""
    named = FILE_TYPES.get(_integer(header.metadata.get("general.file_type"), -1))
    if named:
        return named
    totals: dict[str, int] = {}
    for tensor in header.tensors:
        totals[tensor.kind_name] = totals.get(tensor.kind_name, 0) + tensor.elements
    return max(totals, key=totals.__getitem__, default="unknown")


def _recurrent_layers(header: Header, layers: int) -> list[bool]:
    """Which layers keep a recurrent state in place of a key-value cache."""
    given = header.arch("attention.recurrent_layers")
    if isinstance(given, list) and len(given) == layers:
        return [bool(here) for here in given]
    interval = _integer(header.arch("full_attention_interval"))
    if interval > 1:
        return [(layer + 1) % interval != 0 for layer in range(layers)]
    return [False] * layers


def _recurrent_bytes(header: Header, embedding: int) -> int:
    """Float32 state of one recurrent layer: the state matrix and the convolution's window."""
    inner = _integer(header.arch("ssm.inner_size"))
    state = _integer(header.arch("ssm.state_size"))
    kernel = _integer(header.arch("ssm.conv_kernel"))
    groups = _integer(header.arch("ssm.group_count"))
    return 4 * (inner * state + max(kernel - 1, 0) * (inner + 2 * groups * state))


def _vocabulary(header: Header) -> int:
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    count = getattr(tokens, "count", None)
    if isinstance(count, int):
        return count
    return len(tokens) if isinstance(tokens, list) else _integer(header.arch("vocab_size"))


def _integer(value: Any, default: int = 0) -> int:
    return int(value) if isinstance(value, int | float) else default


def _list(value: Any, length: int) -> list[int]:
    if isinstance(value, list):
        return [_integer(one) for one in value]
    return [_integer(value)] * length
