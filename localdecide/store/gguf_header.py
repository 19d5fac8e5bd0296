"""The header of a GGUF file: metadata and tensor table, read with the standard library alone and in milliseconds.

Layout (little endian): magic `GGUF`, version u32, tensor count u64, metadata count u64, the metadata
(key, type u32, value), the tensor table (name, dimension count u32, dimensions u64, type u32, offset u64),
padding to `general.alignment`, the tensor data.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile

MAGIC = b"GGUF"
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_SIZES = {kind: struct.calcsize(form) for kind, form in _SCALARS.items()}
_U64 = struct.Struct("<Q").unpack_from
_U32 = struct.Struct("<I").unpack_from
SMALL_ARRAY = 1024
"""Arrays of up to this many numbers or strings are read at once; longer ones only when asked for."""
_MAX_COUNT = 1 << 24

# elements and bytes of a block, by tensor type (ggml.h)
BLOCKS: Mapping[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17), 40: ("NVFP4", 64, 36),
}  # fmt: skip

FILE_TYPES: Mapping[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Array:
    """A long array that was skipped: element type, count, and where its elements start in the file."""

    kind: int
    count: int
    offset: int


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One row of the tensor table. shape: as in the file, fastest dimension first; offset: from the data's start."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int

    @property
    def elements(self) -> int:
        product = 1
        for side in self.shape:
            product *= side
        return product

    @property
    def kind_name(self) -> str:
        """`Q4_K`, `F32`, ...; `type N` for one this build does not know."""
        return BLOCKS[self.kind][0] if self.kind in BLOCKS else f"type {self.kind}"

    @property
    def size(self) -> int:
        """Bytes of the tensor's data, 0 for a type this build does not know."""
        if self.kind not in BLOCKS:
            return 0
        _, block, size = BLOCKS[self.kind]
        return self.elements // block * size


@dataclass(frozen=True)
class Header:
    """What a GGUF says about itself.

    metadata: scalars, strings, short arrays as lists, long arrays as `Array` (read them with `array`).
    kinds: the GGUF type of each metadata value; data_offset: where tensor data start; size: bytes of the file.
    """

    path: Path
    version: int
    metadata: Mapping[str, Any]
    kinds: Mapping[str, int]
    tensors: tuple[TensorInfo, ...]
    data_offset: int
    alignment: int
    size: int
    extents: Mapping[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    """Where each metadata pair (key included) lies in the file: start and end."""

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", ""))

    def arch(self, key: str, default: Any = None) -> Any:
        """The value of `<architecture>.<key>`."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def array(self, key: str) -> list[Any]:
        """A metadata array in full. Raises KeyError; BadModelFile if the file changed meanwhile."""
        value = self.metadata[key]
        if not isinstance(value, Array):
            return list(value)
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(data, self.path).elements(value)


def read_header(path: Path | str) -> Header:
    """Read and check a header. Raises BadModelFile, which says whether it is empty, cut off or no GGUF at all."""
    path = Path(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise BadModelFile(f"cannot read {path}: {error.strerror or error}", {"path": str(path)}) from None
    with file:
        size = os.fstat(file.fileno()).st_size
        if size == 0:
            raise BadModelFile(f"{path.name} is empty (0 bytes)", {"path": str(path)})
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            _check_magic(data[:512], path)
            try:
                return _Reader(data, path).header()
            except (struct.error, IndexError):
                message = f"{path.name} is cut off: it ends inside its header after {size} bytes"
                raise BadModelFile(message, {"path": str(path), "size": size}) from None


def _check_magic(start: bytes, path: Path) -> None:
    if start[:4] == MAGIC:
        return
    lowered = start.lstrip().lower()
    if MAGIC.startswith(start[:4]):
        what = f"is cut off: it has only {len(start)} bytes"
    elif lowered.startswith((b"<!doctype", b"<html", b"<?xml")):
        what = "is a web page, not a GGUF: the download gave an error or login page"
    elif lowered.startswith(b"version https://git-lfs"):
        what = "is a Git LFS pointer, not the GGUF itself: fetch it with git lfs pull"
    elif start[:2] == b"PK":
        what = "is a zip archive (perhaps a PyTorch checkpoint), not a GGUF: convert it with gguf_convert"
    elif start[8:10] == b'{"' or lowered.startswith(b"{"):
        what = "is not a GGUF: it looks like safetensors or JSON; convert it with gguf_convert"
    else:
        what = f"is not a GGUF: it starts with {start[:4]!r}"
    raise BadModelFile(f"{path.name} {what}", {"path": str(path)})


class _Reader:
    """A cursor over the mapped file."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self.data, self.path, self.at, self.size = data, path, 0, len(data)

    def header(self) -> Header:
        version = _U32(self.data, 4)[0]
        if version not in (2, 3):
            if version in (2 << 24, 3 << 24):
                self.fail("is a big-endian GGUF, which this machine cannot read")
            self.fail(f"is a GGUF of version {version}; versions 2 and 3 can be read")
        tensor_count, pair_count = _U64(self.data, 8)[0], _U64(self.data, 16)[0]
        if tensor_count > _MAX_COUNT or pair_count > _MAX_COUNT:
            self.fail(f"is damaged: it claims {tensor_count} tensors and {pair_count} metadata pairs")
        self.at = 24
        metadata: dict[str, Any] = {}
        kinds: dict[str, int] = {}
        extents: dict[str, tuple[int, int]] = {}
        for _ in range(pair_count):
            start = self.at
            key = self.string()
            kind = self.u32()
            if key in metadata:
                self.fail(f"is damaged: the metadata key {key!r} comes twice")
            metadata[key], kinds[key] = self.value(kind), kind
            extents[key] = (start, self.at)
        tensors = tuple(self.tensor() for _ in range(tensor_count))
        alignment = metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            self.fail(f"is damaged: its alignment {alignment!r} is not a power of two")
        data_offset = (self.at + alignment - 1) // alignment * alignment
        self.check_bounds(tensors, data_offset)
        if not isinstance(metadata.get("general.architecture"), str):
            self.fail("names no architecture (general.architecture)")
        start = data_offset if tensors else self.at
        return Header(self.path, version, metadata, kinds, tensors, start, alignment, self.size, extents)

    def check_bounds(self, tensors: tuple[TensorInfo, ...], data_offset: int) -> None:
        names: set[str] = set()
        for tensor in tensors:
            if tensor.name in names:
                self.fail(f"is damaged: the tensor {tensor.name!r} comes twice")
            names.add(tensor.name)
            end = data_offset + tensor.offset + tensor.size
            if end > self.size:
                self.fail(f"is cut off: tensor {tensor.name!r} ends at byte {end} and the file has {self.size}")

    def u32(self) -> int:
        value: int = _U32(self.data, self.at)[0]
        self.at += 4
        return value

    def u64(self) -> int:
        value: int = _U64(self.data, self.at)[0]
        self.at += 8
        return value

    def string(self) -> str:
        length = self.u64()
        if length > self.size - self.at:
            raise IndexError
        raw = self.data[self.at : self.at + length]
        self.at += length
        return raw.decode("utf-8", errors="replace")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            value = struct.unpack_from(_SCALARS[kind], self.data, self.at)[0]
            self.at += _SIZES[kind]
            return value
        if kind == _STRING:
            return self.string()
        if kind != _ARRAY:
            self.fail(f"is damaged: metadata type {kind} does not exist")
        element, count = self.u32(), self.u64()
        array = Array(element, count, self.at)
        if count <= SMALL_ARRAY:
            return self.elements(array)
        self.skip(array)
        return array

    def elements(self, array: Array) -> list[Any]:
        """The elements of an array; the cursor ends behind them."""
        self.at = array.offset
        if array.kind in _SIZES and array.count * _SIZES[array.kind] > self.size - self.at:
            raise IndexError
        return [self.value(array.kind) for _ in range(array.count)]

    def skip(self, array: Array) -> None:
        if array.kind in _SIZES:
            self.at += array.count * _SIZES[array.kind]
            if self.at > self.size:
                raise IndexError
            return
        if array.kind != _STRING:
            self.fail(f"is damaged: a long array holds elements of type {array.kind}")
        data, at, read = self.data, self.at, _U64
        if array.count * 8 > self.size - at:
            raise IndexError
        for _ in range(array.count):
            at += 8 + read(data, at)[0]
        if at > self.size:
            raise IndexError
        self.at = at

    def tensor(self) -> TensorInfo:
        name = self.string()
        sides = self.u32()
        if not 1 <= sides <= 4:
            self.fail(f"is damaged: tensor {name!r} has {sides} dimensions")
        shape = tuple(self.u64() for _ in range(sides))
        kind, offset = self.u32(), self.u64()
        return TensorInfo(name, shape, kind, offset)

    def fail(self, what: str) -> Any:
        raise BadModelFile(f"{self.path.name} {what}", {"path": str(self.path)})
