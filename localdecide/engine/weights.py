"""Opening a GGUF: llama.cpp's model parameters, its log, and a sentence for every way it can fail."""

from __future__ import annotations

import ctypes
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import llama_cpp as llama
from gguf import GGMLQuantizationType, LlamaFileType

from localdecide.core.errors import BadModelFile

logger = logging.getLogger(__name__)

_recent: list[str] = []
_LEVELS = {1: logging.DEBUG, 2: logging.DEBUG, 3: logging.WARNING, 4: logging.ERROR, 5: logging.DEBUG}


def _log(level: int, text: bytes, _: Any) -> None:
    line = text.decode(errors="replace").rstrip()
    if line:
        if level >= 3:
            _recent.append(line)
            del _recent[:-20]
        logger.log(_LEVELS.get(level, logging.DEBUG), line)


_log_callback = llama.llama_log_callback(_log)


def start_backend() -> None:
    """Once per process, before anything else: llama.cpp's log becomes ours."""
    llama.llama_log_set(_log_callback, ctypes.c_void_p(0))
    llama.llama_backend_init()


def open_model(path: str, parameters: Mapping[str, Any], progress: Callable[[float], None] | None = None) -> Any:
    """The `llama_model` of a GGUF. Raises BadModelFile with what is wrong with it.

    parameters: num_gpu (layers; all that fit by default), main_gpu, use_mmap.
    progress: called with fractions of the load from 0 to 1.
    """
    check_file(Path(path))
    options = llama.llama_model_default_params()
    options.n_gpu_layers = _gpu_layers(path, parameters)
    options.main_gpu = int(parameters.get("main_gpu", 0))
    use_mmap = bool(parameters.get("use_mmap", True))
    options.load_mode = llama.LLAMA_LOAD_MODE_MMAP if use_mmap else llama.LLAMA_LOAD_MODE_NONE

    def report(fraction: float, _: Any) -> bool:
        if progress is not None:
            progress(fraction)
        return True

    callback = llama.llama_progress_callback(report)
    options.progress_callback = callback
    _recent.clear()
    model = llama.llama_model_load_from_file(path.encode(), options)
    if not model:
        raise BadModelFile(_sentence(path, "\n".join(_recent)))
    return model


def _gpu_layers(path: str, parameters: Mapping[str, Any]) -> int:
    if "num_gpu" in parameters:
        return int(parameters["num_gpu"])
    if not llama.llama_supports_gpu_offload():
        return 0
    from localdecide.engine.devices import ALL, free_bytes, layer_bytes, layers_that_fit

    free = free_bytes()
    # An integrated GPU uses the machine's own memory: what fits there fits.
    return layers_that_fit(layer_bytes(path), free) if free else ALL


def check_file(path: Path) -> None:
    """Refuses what is plainly not a model before llama.cpp sees it."""
    if not path.is_file():
        raise BadModelFile(f"{path.name}: no such model file")
    with path.open("rb") as file:
        magic = file.read(4)
    if not magic:
        raise BadModelFile(f"{path.name}: the file is empty")
    if magic != b"GGUF":
        raise BadModelFile(f"{path.name}: not a GGUF file (it begins with {magic!r})")


def _sentence(path: str, log: str) -> str:
    name = Path(path).name
    if found := re.search(r"unknown model architecture: '([^']*)'", log):
        return f"{name}: this build of llama.cpp does not know the architecture {found[1]!r}"
    if found := re.search(r"bad GGUF version: (\d+)", log):
        return f"{name}: a GGUF of version {found[1]}, which this build of llama.cpp does not read"
    if "not within the file bounds" in log or "corrupted or incomplete" in log or "failed to read" in log:
        return f"{name}: the file is truncated: it ends before its tensors do"
    if found := re.search(r"unknown pre-tokenizer type: '([^']*)'", log):
        return f"{name}: this build of llama.cpp does not know the pre-tokenizer {found[1]!r}"
    causes = [line for line in log.splitlines() if "error" in line or "failed" in line] or log.splitlines()
    cause = causes[0] if causes else "llama.cpp gave no reason"
    return f"{name}: llama.cpp could not load the model: {cause.split(': ', 1)[-1]}"


def read_metadata(model: Any) -> dict[str, Any]:
    """The scalar keys of the header as llama.cpp holds them: texts, and numbers with six decimals."""
    metadata: dict[str, Any] = {}
    for index in range(int(llama.llama_model_meta_count(model))):
        key = _text(llama.llama_model_meta_key_by_index, model, index)
        value = _text(llama.llama_model_meta_val_str_by_index, model, index)
        metadata[key] = value if key.startswith(("general.", "tokenizer.chat_template")) else _typed(value)
    return metadata


def main_type(metadata: Mapping[str, Any]) -> str:
    """The ggml type ("Q4_K", "F16", ...) that a header says most weights have; F16 where it says nothing known."""
    try:
        name = LlamaFileType(int(metadata["general.file_type"])).name
    except (KeyError, ValueError):
        return "F16"
    # MOSTLY_Q4_K_M, ALL_F32: what is mixed in, and how much of it, does not matter here.
    parts = name.split("_")[1:]
    while parts and "_".join(parts) not in GGMLQuantizationType.__members__:
        del parts[-1]
    return "_".join(parts) or "F16"


def _text(read: Callable[..., int], model: Any, index: int) -> str:
    size = 256
    while True:
        buffer = ctypes.create_string_buffer(size)
        length = int(read(model, index, buffer, size))
        if length < size:
            return buffer.raw[: max(length, 0)].decode(errors="replace")
        size = length + 1


def _typed(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
