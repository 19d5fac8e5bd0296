"""kev: a LoRA adapter (or a full model) on Qwen3.5, and a pointer head in head.pt."""

from __future__ import annotations

import numpy as np

from gguf_convert import files
from gguf_convert.backbone import text_config, write_backbone
from gguf_convert.checkpoint import Checkpoint, ConversionError, torch_file
from gguf_convert.job import Job
from gguf_convert.lora import merged
from localdecide.families.kev import TEMPLATE


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("head.pt", "training_config.json")


def convert(job: Job) -> None:
    saved = torch_file(job.checkpoint.folder / "head.pt")
    if saved.get("special_embeddings") or saved.get("option_isolation"):
        raise ConversionError("kev heads with special embeddings or isolated options are not supported")
    if job.checkpoint.has("adapter_config.json"):
        base = job.need_base()
        tensors = merged(base.tensors(), job.checkpoint)
    else:
        base = job.checkpoint
        tensors = base.tensors()
    head = saved["head"]
    temperature = float(saved.get("temperature", 1.0))
    decision = {"type": "kev"} | {f"temperature.{kind}": temperature for kind in ("choice", "noul", "score")}
    write_backbone(
        job.model,
        base,
        text_config(base.json("config.json")),
        tensors,
        name=job.name,
        decision=decision,
        template=TEMPLATE,
        kind=job.kind,
    )
    both = {part: np.concatenate([head[f"q.{part}"], head[f"k.{part}"]]) for part in ("weight", "bias")}
    files.write_head(job.head, {"family": "kev"}, {f"cls.output.{part}": array for part, array in both.items()})
    files.write_modelfile(job.modelfile, job.model, job.head, "kev")
