"""The few ggml functions that the binding does not wrap, by name."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import llama_cpp
from llama_cpp._ctypes_extensions import load_shared_library


@lru_cache(maxsize=4)
def _library(name: str) -> Any:
    folder = Path(os.environ.get("LLAMA_CPP_LIB_PATH") or Path(llama_cpp.__file__).parent / "lib")
    return load_shared_library(name, folder)


def function(name: str, result: Any, *arguments: Any, library: str = "ggml-base") -> Any:
    """A function of ggml with its types set. Raises AttributeError where the build has none of that name."""
    # Not the attribute, which is one object for all callers: each sets types of its own.
    found = _library(library)[name]
    found.restype, found.argtypes = result, list(arguments)
    return found


class ContextParameters(ctypes.Structure):
    """`ggml_init_params`."""

    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))
