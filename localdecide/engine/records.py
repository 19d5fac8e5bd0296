"""Small texts that a runner keeps about its machine: whole or not there, whoever else writes at once."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def write(path: Path, text: str) -> None:
    """Replace `path` by `text`, and make its folder. Raises OSError, with nothing left behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text)
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink()
