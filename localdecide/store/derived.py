"""What runners make of blobs: faster copies of weights. They can always be made again.

Files lie in `derived/` and begin with the name of the blob they come from, `sha256-<hex>`. What they
measured of the machine (`engine.kernels`) lies in `measured/` and belongs to no blob.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

_NAME = len("sha256-") + 64


def derived_folder(root: Path) -> Path:
    return root / "derived"


def measured_folder(root: Path) -> Path:
    return root / "measured"


def derived_files(root: Path) -> Iterator[tuple[str, Path, int]]:
    """Digest of the blob, path and bytes of every derived file."""
    folder = derived_folder(root)
    for path in sorted(folder.glob("sha256-*")):
        yield path.name[:_NAME].replace("-", ":", 1), path, path.stat().st_size


def weights_bytes(root: Path, blob: Path) -> int:
    """Bytes of the weights that a runner will load for a blob: its faster copy where there is one."""
    copies = [size for _, path, size in derived_files(root) if path.name.startswith(f"{blob.name}-")]
    return max(copies, default=blob.stat().st_size)
