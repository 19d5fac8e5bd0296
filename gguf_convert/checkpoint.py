"""A checkpoint's folder: its JSON files, and its tensors read one at a time."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]

_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4", "U8": "u1"}


class ConversionError(Exception):
    """A checkpoint that cannot be converted, in one sentence."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is read when it is called for, as float32."""

    shape: tuple[int, ...]
    read: Callable[[], Array]

    def __call__(self) -> Array:
        return self.read()

    def changed(self, change: Callable[[Array], Array]) -> Tensor:
        """What `change` makes of it. The new shape is found without reading."""
        shape = change(np.broadcast_to(np.float32(0), self.shape)).shape
        return Tensor(shape, lambda: change(self.read()))


class Checkpoint:
    """folder: what `huggingface-cli download` leaves."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise ConversionError(f"{folder} is not a folder")

    def has(self, *names: str) -> bool:
        return all((self.folder / name).is_file() for name in names)

    def json(self, name: str) -> dict[str, Any]:
        """A JSON object of the folder. Raises ConversionError."""
        try:
            value = json.loads((self.folder / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConversionError(f"{self.folder / name} cannot be read: {error}") from None
        if not isinstance(value, dict):
            raise ConversionError(f"{self.folder / name} holds no object")
        return value

    def tensors(self, pattern: str = "model*.safetensors") -> dict[str, Tensor]:
        """Readers of all tensors in the files that match, by name. Raises ConversionError where there are none."""
        found: dict[str, Tensor] = {}
        for path in sorted(self.folder.glob(pattern)):
            found |= safetensors(path)
        if not found:
            raise ConversionError(f"{self.folder} holds no {pattern}")
        return found


def safetensors(path: Path) -> dict[str, Tensor]:
    """Readers of a safetensors file's tensors, each as float32 in its own shape."""
    with path.open("rb") as file:
        (size,) = struct.unpack("<Q", file.read(8))
        header: dict[str, Any] = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return {name: _reader(path, 8 + size, name, entry) for name, entry in header.items()}


def _reader(path: Path, start: int, name: str, entry: Mapping[str, Any]) -> Tensor:
    def read() -> Array:
        if entry["dtype"] not in _DTYPES:
            raise ConversionError(f"{path.name}: tensor {name} has the type {entry['dtype']}")
        begin, end = entry["data_offsets"]
        with path.open("rb") as file:
            file.seek(start + begin)
            data = file.read(end - begin)
        values = np.frombuffer(data, _DTYPES[entry["dtype"]]).reshape(entry["shape"])
        if entry["dtype"] == "BF16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(np.float32)

    return Tensor(tuple(entry["shape"]), read)


def torch_file(path: Path) -> dict[str, Any]:
    """What a `.pt` file holds, tensors as float32 arrays. Raises ConversionError where PyTorch is not installed."""
    try:
        import torch
    except ImportError:
        raise ConversionError(f"{path.name} is a PyTorch file; pip install torch to read it") from None

    def plain(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.detach().to(torch.float32).numpy()
        return {key: plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value

    loaded = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(loaded, Mapping):
        raise ConversionError(f"{path.name} holds no dictionary")
    return {key: plain(value) for key, value in loaded.items()}


def flat(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Array]]:
    """Arrays of nested dictionaries by their dotted names."""
    for key, value in nested.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        elif isinstance(value, np.ndarray):
            yield f"{prefix}{key}", value
