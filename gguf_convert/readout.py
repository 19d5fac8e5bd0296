"""pplx-decider and Decision 3.0: Qwen3.5 without an output matrix, and one readout row for each answer code."""

from __future__ import annotations

from typing import Any

from gguf_convert import files
from gguf_convert.backbone import text_config, write_backbone
from gguf_convert.checkpoint import Checkpoint, ConversionError, safetensors
from gguf_convert.job import Job

# Its own runtime takes no more; d3's packages say their limit.
PPLX_TOKENS = 8192


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("decision_config.json", "readout.safetensors", "config.json")


def convert(job: Job) -> None:
    decision = job.checkpoint.json("decision_config.json")
    family = "d3" if decision.get("prompt") == "d3" else "pplx-decider"
    write_backbone(
        job.model,
        job.checkpoint,
        text_config(job.checkpoint.json("config.json")),
        job.checkpoint.tensors(),
        name=job.name,
        decision={},
        kind=job.kind,
        # d3's own runtime cuts text as Qwen2Tokenizer does, whatever the package's tokenizer.json says.
        pre="qwen2" if family == "d3" else None,
    )
    weight = safetensors(job.checkpoint.folder / "readout.safetensors")["weight"]()
    codes = [str(code) for code in decision["codes"]]
    if len(codes) != len(weight):
        raise ConversionError(f"{len(codes)} codes and a readout of {len(weight)} rows")
    causal = decision.get("attention_mode", "causal") == "causal"
    keys: dict[str, Any] = {
        "family": family,
        "temperature": float(decision.get("temperature", 1.0)),
        "attention": "causal" if causal else "bidirectional",
        "codes": codes,
    }
    if family == "pplx-decider" or "max_length" in decision:
        keys["max_length"] = int(decision.get("max_length", PPLX_TOKENS))
    files.write_head(job.head, keys, {"readout.weight": weight})
    files.write_modelfile(job.modelfile, job.model, job.head, family)
