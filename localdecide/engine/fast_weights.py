"""A faster copy of slow weights: some quantised types have no fast matrix product on some CPUs.

A file whose types are slow here is converted once to F16 or BF16, which is nearer to its exact values
than the quantised product and two to five times faster. Which types are slow is measured.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import llama_cpp as llama
import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize, quantize

from localdecide.engine import records
from localdecide.engine.matmul import speed

# Types that llama.cpp does not repack at load: what `speed` measures is what a decode would get.
CONVERTIBLE = ("Q4_1", "Q5_0", "Q5_1", "Q8_0")
WORTH = 1.25  # times faster, or the disk is better left alone
PRECISION = 1.15  # BF16 must be this much faster than F16, whose rounding error is an eighth of it
LARGEST = 8 << 30
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided for a file on a machine. type: F16, BF16 or None to leave the weights as they are."""

    type: str | None
    reason: str
    machine: str
    version: int = _VERSION


def choose_weights(
    path: str, folder: Path | None, memory: int, progress: Callable[[float], None] | None = None
) -> tuple[str, Choice]:
    """The file to load in place of `path`, and why.

    folder: where copies and decisions are kept; None decides nothing. memory: bytes that models may use.
    """
    if folder is None:
        return path, Choice(None, "LOCALDECIDE_FAST_WEIGHTS=off", "")
    record = folder / f"{Path(path).name}.json"
    choice = _remembered(record)
    copy = _copy_path(path, folder, choice)
    if choice is None or (copy is not None and not copy.is_file()):
        reader = GGUFReader(path)
        choice = _decide(reader, folder, memory)
        copy = _copy_path(path, folder, choice)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if copy is not None and choice.type is not None:
                convert(reader, copy, choice.type, progress)
            records.write(record, json.dumps(asdict(choice)))
        except OSError as error:
            # A store on a read-only or full disk still serves what it holds.
            reason = f"no {choice.type} copy can be kept in {folder}: {error.strerror or error}"
            return path, (choice if choice.type is None else replace(choice, type=None, reason=reason))
    return (path if copy is None else str(copy)), choice


def _copy_path(path: str, folder: Path, choice: Choice | None) -> Path | None:
    return folder / f"{Path(path).name}-{choice.type}.gguf" if choice is not None and choice.type else None


def _remembered(record: Path) -> Choice | None:
    try:
        choice = Choice(**json.loads(record.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return choice if (choice.machine, choice.version) == (_machine(), _VERSION) else None


def _machine() -> str:
    """What a measurement holds for: this build on this kind of processor."""
    return str(llama.llama_print_system_info().decode()).strip()


def _decide(reader: GGUFReader, folder: Path, memory: int) -> Choice:
    elements: dict[str, int] = {}
    for tensor in reader.tensors:
        if tensor.name.endswith(".weight") and len(tensor.shape) > 1:
            elements[tensor.tensor_type.name] = elements.get(tensor.tensor_type.name, 0) + int(tensor.n_elements)
    slow = {kind: count for kind, count in elements.items() if kind in CONVERTIBLE}
    if not slow:
        return Choice(None, "no weight type that could be slow here", _machine())
    target = "BF16" if speed("BF16") > PRECISION * speed("F16") else "F16"
    now = sum(count / speed(kind) for kind, count in slow.items())
    gain = now / (sum(slow.values()) / speed(target))
    kinds = ", ".join(sorted(slow))
    if gain < WORTH:
        return Choice(None, f"{kinds}: {target} would be {gain:.1f} times as fast here", _machine())
    size = sum(_size(tensor, target) for tensor in reader.tensors)
    if size > min(LARGEST, memory * 6 // 10):
        return Choice(None, f"{kinds}: a {target} copy of {size >> 20} MiB would need too much memory", _machine())
    free = shutil.disk_usage(folder if folder.is_dir() else folder.parent).free
    if free < size * 11 // 10 + (1 << 29):
        return Choice(None, f"{kinds}: no disk space for a {target} copy of {size >> 20} MiB", _machine())
    return Choice(target, f"{kinds}: {target} multiplies {gain:.1f} times as fast here", _machine())


def _size(tensor: Any, target: str) -> int:
    return int(tensor.n_elements) * 2 if tensor.tensor_type.name in CONVERTIBLE else int(tensor.n_bytes)


def convert(reader: GGUFReader, path: Path, target: str, progress: Callable[[float], None] | None = None) -> None:
    """Write a copy with every convertible tensor in `target`, all else as it is; atomically.

    Memory: one tensor at a time.
    """
    kind = GGMLQuantizationType[target]
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    writer = GGUFWriter(part, _value(reader, "general.architecture"))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        array = field.types[0] == GGUFValueType.ARRAY
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=field.types[-1] if array else None)
    for tensor in reader.tensors:
        shape, stored = _stored(tensor, kind)
        writer.add_tensor_info(tensor.name, shape, stored.dtype, stored.nbytes, raw_dtype=stored.kind)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for number, tensor in enumerate(reader.tensors):
            data = tensor.data
            if tensor.tensor_type.name in CONVERTIBLE:
                data = quantize(dequantize(tensor.data, tensor.tensor_type), kind)
            writer.write_tensor_data(data)
            if progress is not None:
                progress(number / len(reader.tensors))
        writer.close()
        _sync(part)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Stored:
    dtype: Any
    nbytes: int
    kind: GGMLQuantizationType


def _stored(tensor: Any, target: GGMLQuantizationType) -> tuple[tuple[int, ...], _Stored]:
    """Shape and type a tensor is written with, in the terms of the writer (bytes for all but plain floats)."""
    if tensor.tensor_type.name not in CONVERTIBLE:
        return tensor.data.shape, _Stored(tensor.data.dtype, tensor.data.nbytes, tensor.tensor_type)
    logical = tuple(int(size) for size in reversed(tensor.shape))
    nbytes = int(tensor.n_elements) * 2
    if target is GGMLQuantizationType.F16:
        return logical, _Stored(np.dtype(np.float16), nbytes, target)
    return (*logical[:-1], logical[-1] * 2), _Stored(np.dtype(np.uint8), nbytes, target)


def _value(reader: GGUFReader, name: str) -> Any:
    field = reader.get_field(name)
    return field.contents() if field is not None else ""


def _sync(path: Path) -> None:
    with path.open("rb+") as file:
        os.fsync(file.fileno())
