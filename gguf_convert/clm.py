"""CLM: Qwen3 as it is, and a bi-encoder head in a `.pt` file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gguf_convert import files
from gguf_convert.backbone import text_config, write_backbone
from gguf_convert.checkpoint import Checkpoint, ConversionError, flat, torch_file
from gguf_convert.job import Job
from localdecide.families.clm import MAX_TOKENS


def known(checkpoint: Checkpoint) -> bool:
    return _file(checkpoint) is not None


def convert(job: Job) -> None:
    path = _file(job.checkpoint)
    assert path is not None
    saved = torch_file(path)
    settings: dict[str, Any] = saved.get("cfg", {})
    base = job.need_base()
    config = text_config(base.json("config.json"))
    if settings.get("hidden_size", config["hidden_size"]) != config["hidden_size"]:
        raise ConversionError("the head belongs to a base model of another width")
    write_backbone(job.model, base, config, base.tensors(), name=job.name, decision={}, kind=job.kind)
    keys = {
        "family": "clm",
        "activation": str(settings.get("activation", "gelu")),
        "residual": bool(settings.get("residual", False)),
        "max_length": MAX_TOKENS,
    }
    towers = ("state_head", "action_head")
    tensors = {f"{tower}.{name}": array for tower in towers for name, array in flat(saved[tower])}
    files.write_head(job.head, keys, tensors | {"logit_scale": saved["logit_scale"]})
    files.write_modelfile(job.modelfile, job.model, job.head, "clm")


def _file(checkpoint: Checkpoint) -> Path | None:
    return next(iter(sorted(checkpoint.folder.glob("CLM*.pt"))), None)
