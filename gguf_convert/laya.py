"""laya and Julia-1: ModernBERT or mmBERT in encoder/, a marker head, and a tokenizer in tokenizer/."""

from __future__ import annotations

from typing import Any

from gguf_convert import files, marker
from gguf_convert.backbone import write_backbone
from gguf_convert.checkpoint import Checkpoint
from gguf_convert.job import Job
from gguf_convert.tokenizer import token_texts
from localdecide.families.laya import MAX_HEAD_TOKENS, template_text
from localdecide.families.mmbert import KEY, NAME_OF_PRE

_CONFIGS = ("julia_config.json", "rl_agent_config.json")


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("encoder/config.json") and any(checkpoint.has(name) for name in _CONFIGS)


def convert(job: Job) -> None:
    source = job.checkpoint
    config = source.json("encoder/config.json")
    decision = source.json(next(name for name in _CONFIGS if source.has(name)))
    tensors = source.tensors()
    keys: dict[str, Any] = {
        "type": "laya",
        "block_count": int(decision["head_layers"]),
        "max_head_tokens": int(decision.get("head_max_len", MAX_HEAD_TOKENS)),
    }
    if "max_len" in decision:
        keys["max_length"] = int(decision["max_len"])
    given = dict(zip(("choice", "score", "noul"), decision.get("temperature") or (), strict=False))
    by_options = decision.get("temperature_by_options") or {}
    kinds, buckets = ({name: _bounded(value) for name, value in table.items()} for table in (given, by_options))
    keys |= marker.temperatures(kinds, buckets)
    words = token_texts(source, "cls_token", "sep_token", "mask_token", folder="tokenizer")
    multilingual = _is_mmbert(source)
    write_backbone(
        job.model,
        source,
        config,
        tensors,
        name=job.name,
        decision=keys,
        template=template_text(*words, julia=decision.get("architecture") == "JuliaDecisionModel"),
        kind=job.kind,
        # The bindings do not know mmBERT's pre-tokenizer; the runner splits its words itself.
        pre="gemma4" if multilingual else None,
        tokenizer_folder="tokenizer",
        more={KEY: NAME_OF_PRE} if multilingual else None,
    )
    head = marker.marker_tensors(tensors, int(config["num_hidden_layers"]))
    files.write_head(job.head, {"family": "laya"}, head)
    files.write_modelfile(job.modelfile, job.model, job.head, "laya")


def _bounded(temperature: Any) -> float:
    """Within 0.5 and 5, and 1 for what is no number: laya's own runtime reads its settings so."""
    if isinstance(temperature, bool) or not isinstance(temperature, int | float):
        return 1.0
    return min(5.0, max(0.5, float(temperature)))


def _is_mmbert(source: Checkpoint) -> bool:
    """Whether the tokenizer spells spaces as U+2581 and falls back to bytes."""
    return bool(source.json("tokenizer/tokenizer.json")["model"].get("byte_fallback"))
