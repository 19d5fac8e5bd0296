"""clef and clef-flash (Qwen3.5) and clef-omni (Qwen3-Omni's thinker), with a joint-schema head of their own file."""

from __future__ import annotations

from gguf_convert import files
from gguf_convert.backbone import text_config, write_backbone
from gguf_convert.checkpoint import Checkpoint, safetensors
from gguf_convert.job import Job
from localdecide.families.clef import MAX_TOKENS, TEMPLATE
from localdecide.families.heads.joint_names import upstream_names

# clef-omni was trained with longer prompts than its sisters.
OMNI_TOKENS = 64000


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("joint_head_config.json", "joint_head.safetensors", "config.json")


def convert(job: Job) -> None:
    sizes = job.checkpoint.json("joint_head_config.json")
    decision = {
        "type": "clef",
        "routing_block_count": int(sizes["routing_layers"]),
        "block_count": int(sizes["layers"]),
        "head_count": int(sizes["heads"]),
    }
    config = job.checkpoint.json("config.json")
    longest = OMNI_TOKENS if "thinker_config" in config else MAX_TOKENS
    decision["max_length"] = longest
    write_backbone(
        job.model,
        job.checkpoint,
        text_config(config),
        job.checkpoint.tensors(),
        name=job.name,
        decision=decision,
        template=TEMPLATE,
        kind=job.kind,
    )
    head = {name: read() for name, read in safetensors(job.checkpoint.folder / "joint_head.safetensors").items()}
    files.write_head(job.head, {"family": "clef"}, upstream_names(head))
    files.write_modelfile(job.modelfile, job.model, job.head, "clef", f"PARAMETER num_ctx {longest}")
