"""GLiNER2.5-Decide: DeBERTa-v3. The tokenizer and word embeddings are the model's file, all layers the head's."""

from __future__ import annotations

from typing import Any

from gguf_convert import files
from gguf_convert.backbone import bare, write_backbone
from gguf_convert.checkpoint import Checkpoint
from gguf_convert.job import Job

_WORDS = "embeddings.word_embeddings.weight"


def known(checkpoint: Checkpoint) -> bool:
    return checkpoint.has("config.json", "model.safetensors") and _encoder(checkpoint).get("model_type") == "deberta-v2"


def convert(job: Job) -> None:
    config = _encoder(job.checkpoint)
    tensors = job.checkpoint.tensors()
    write_backbone(job.model, job.checkpoint, config, tensors, name=job.name, decision={}, kind=job.kind)
    reach = int(config.get("max_relative_positions", -1))
    keys: dict[str, Any] = {
        "family": "gliner-decide",
        "head_count": int(config["num_attention_heads"]),
        "position_buckets": int(config["position_buckets"]),
        "max_relative_positions": int(config["max_position_embeddings"]) if reach < 1 else reach,
        "layer_norm_epsilon": float(config.get("layer_norm_eps", 1e-7)),
    }
    head = {}
    for name, read in tensors.items():
        target = _target(name)
        if target is not None:
            head[target] = read()
    files.write_head(job.head, keys, head)
    files.write_modelfile(job.modelfile, job.model, job.head, "gliner-decide")


def _encoder(checkpoint: Checkpoint) -> dict[str, Any]:
    """The encoder's config: a file of its own, a part of config.json, or all of it."""
    if checkpoint.has("encoder_config/config.json"):
        return checkpoint.json("encoder_config/config.json")
    config = checkpoint.json("config.json")
    own = config.get("encoder_config")
    return dict(own) if isinstance(own, dict) else config


def _target(name: str) -> str | None:
    """The head's name of a tensor; None for word embeddings and for parts that decide nothing."""
    if name.startswith("classifier."):
        return name
    plain = (
        name.removeprefix("encoder.") if name.startswith(("encoder.encoder.", "encoder.embeddings.")) else bare(name)
    )
    return plain if plain.startswith(("encoder.", "embeddings.LayerNorm")) and plain != _WORDS else None
