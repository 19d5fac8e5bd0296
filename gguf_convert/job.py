"""What every conversion is given, and what it leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gguf_convert.checkpoint import Checkpoint, ConversionError


@dataclass(frozen=True, slots=True)
class Job:
    """checkpoint: the decision model. base: its base model's folder, where the checkpoint is an adapter or a head.

    out: the folder for the files. kind: type of the backbone's matrices (heads stay F32).
    """

    checkpoint: Checkpoint
    base: Checkpoint | None
    out: Path
    kind: str = "F16"

    @property
    def name(self) -> str:
        """What the files are called."""
        return self.checkpoint.folder.name.lower()

    @property
    def model(self) -> Path:
        return self.out / f"{self.name}.gguf"

    @property
    def head(self) -> Path:
        return self.out / f"{self.name}-head.gguf"

    @property
    def modelfile(self) -> Path:
        return self.out / "Modelfile"

    def need_base(self) -> Checkpoint:
        """The base model. Raises ConversionError, saying how to give it."""
        if self.base is None:
            raise ConversionError("this checkpoint does not hold its base model; give its folder with --base")
        return self.base
