"""What the llama.cpp build is and sees, as one JSON object on standard output.

    python -m localdecide.engine.probe

`localdecide doctor` runs it as a child: a build for another CPU ends its process at the first
instruction that is missing, and a driver may hang.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

TYPES = ("CPU", "GPU", "GPU on shared memory", "accelerator")


def probe() -> dict[str, Any]:
    """binding, ggml, library, offload, flags (of the CPU, that the build uses), devices with bytes free and total."""
    # Read here, not at the top: importing the binding is the first thing that may fail.
    import llama_cpp as llama

    from localdecide.engine.ggml import function

    # Loads the backends; their log is not part of the answer.
    callback = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(callback, ctypes.c_void_p(0))
    llama.llama_backend_init()
    info = llama.llama_print_system_info().decode(errors="replace")
    folder = os.environ.get("LLAMA_CPP_LIB_PATH") or Path(llama.__file__).parent / "lib"
    return {
        "binding": llama.__version__,
        "ggml": function("ggml_version", ctypes.c_char_p)().decode(),
        "library": str(folder),
        "offload": bool(llama.llama_supports_gpu_offload()),
        "flags": [name for name, on in re.findall(r"(\w+) = (\d+)", info) if on != "0"],
        "devices": _devices(function),
    }


def _devices(function: Any) -> list[dict[str, Any]]:
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    count = function("ggml_backend_dev_count", size, library="ggml")()
    device_at = function("ggml_backend_dev_get", pointer, size, library="ggml")
    name = function("ggml_backend_dev_name", ctypes.c_char_p, pointer)
    description = function("ggml_backend_dev_description", ctypes.c_char_p, pointer)
    kind = function("ggml_backend_dev_type", ctypes.c_int, pointer)
    memory = function("ggml_backend_dev_memory", None, pointer, ctypes.POINTER(size), ctypes.POINTER(size))
    found = []
    for index in range(count):
        device, free, total = device_at(index), size(), size()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        number = kind(device)
        found.append(
            {
                "name": name(device).decode(errors="replace"),
                "description": description(device).decode(errors="replace"),
                "type": TYPES[number] if 0 <= number < len(TYPES) else str(number),
                "free": free.value,
                "total": total.value,
            }
        )
    return found


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
