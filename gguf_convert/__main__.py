"""The command: `python -m gguf_convert CHECKPOINT [--base FOLDER] [--out FOLDER] [--type F16|F32]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from gguf_convert import clef, clm, d1_omni, files, gliner, kev, laya, readout
from gguf_convert.checkpoint import Checkpoint, ConversionError
from gguf_convert.job import Job

# The first that knows a checkpoint converts it; the most telling files come first.
KINDS = (kev, clef, laya, readout, d1_omni, clm, gliner)


def convert(job: Job) -> None:
    """Write backbone, head and Modelfile. Raises ConversionError for a checkpoint of no known kind."""
    for kind in KINDS:
        if kind.known(job.checkpoint):
            job.out.mkdir(parents=True, exist_ok=True)
            kind.convert(job)
            return
    names = ", ".join(kind.__name__.rpartition(".")[2] for kind in KINDS)
    raise ConversionError(f"{job.checkpoint.folder} is no decision model of a known kind ({names})")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m gguf_convert", description="Convert a decision model to GGUF.")
    parser.add_argument("checkpoint", type=Path, help="folder of the decision model")
    parser.add_argument("--base", type=Path, help="folder of its base model, for adapters and bare heads")
    parser.add_argument("--out", type=Path, default=Path(), help="folder for the files (default: here)")
    parser.add_argument("--type", choices=sorted(files.TYPES), default="F16", help="type of the backbone's matrices")
    chosen = parser.parse_args(arguments)
    try:
        base = None if chosen.base is None else Checkpoint(chosen.base)
        job = Job(Checkpoint(chosen.checkpoint), base, chosen.out, chosen.type)
        convert(job)
    except (ConversionError, KeyError) as error:
        missing = f"the checkpoint's configuration has no {error}" if isinstance(error, KeyError) else str(error)
        sys.stderr.write(f"Error: {missing}\n")
        return 1
    sys.stdout.write(f"{job.model}\n{job.head}\n{job.modelfile}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
