"""d1-omni (text): a bidirectional LFM2 under encoder.*, a marker head under head.*."""

from __future__ import annotations

from gguf_convert import files, marker
from gguf_convert.backbone import text_config, write_backbone
from gguf_convert.checkpoint import Checkpoint
from gguf_convert.job import Job
from localdecide.families.lfm2_d1_omni import MAX_TOKENS, TEMPLATE


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("config.json") and checkpoint.json("config.json").get("model_type") == "d1_omni"


def convert(job: Job) -> None:
    whole = job.checkpoint.json("config.json")
    config = text_config(whole) | {"model_type": "lfm2"}
    tensors = job.checkpoint.tensors()
    decision = {
        "type": "lfm2-d1-omni",
        "block_count": int(whole["head_layers"]),
        "max_length": int(whole.get("max_length", MAX_TOKENS)),
    } | marker.temperatures({}, whole.get("temperatures") or {})
    write_backbone(
        job.model,
        job.checkpoint,
        config,
        tensors,
        name=job.name,
        decision=decision,
        template=TEMPLATE,
        kind=job.kind,
        more={"lfm2.attention.causal": False, "lfm2.attention.layer_norm_epsilon": 1e-5},
    )
    head = marker.marker_tensors(tensors, int(config["num_hidden_layers"]), "head.")
    files.write_head(job.head, {"family": "lfm2-d1-omni"}, head)
    files.write_modelfile(job.modelfile, job.model, job.head, "lfm2-d1-omni")
