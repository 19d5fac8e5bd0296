"""An installed model as the scheduler sees it: what to load, how much that takes, how long it stays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localdecide.core.duration import KeepAlive, parse_keep_alive
from localdecide.core.model import ModelSpec
from localdecide.scheduler import memory
from localdecide.store.catalog import StoredModel
from localdecide.store.derived import weights_bytes


@dataclass(frozen=True, slots=True)
class Wanted:
    """estimate: of the model alone. cache: bytes of a runner's state cache.

    version: changes with anything of the model. keep: seconds it stays where no request says otherwise.
    """

    model: StoredModel
    spec: ModelSpec
    estimate: memory.Estimate
    cache: int
    keep: float

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def version(self) -> str:
        return self.model.digest

    @property
    def need(self) -> int:
        """Bytes to keep free for it: a cache that is empty now will be full."""
        return self.estimate.total + self.cache


def wanted(model: StoredModel, default: KeepAlive, cache: int, root: Path, parallel: int = 1) -> Wanted:
    """Reads the GGUF's header. default: the server's keep_alive. cache: bytes of a runner's state cache.

    root: the store's folder. parallel: requests that may share decode calls.

    Raises BadModelFile, StoreFailed.
    """
    facts, spec = model.facts, model.spec
    causal = facts.attention_causal and spec.attention != "bidirectional"
    shape = memory.Shape(
        weights=weights_bytes(root, Path(spec.path)) + memory.file_bytes(spec.head, spec.projector),
        kv_heads=facts.kv_heads,
        key_length=facts.key_length,
        value_length=facts.value_length,
        recurrent_bytes=facts.recurrent_bytes,
        embedding_length=facts.embedding_length,
        feed_forward_length=facts.feed_forward_length,
        heads=facts.heads,
        vocabulary=facts.vocabulary,
        context_train=facts.context_train,
        causal=causal,
    )
    estimate = memory.estimate(shape, spec.parameters, parallel)
    # A PARAMETER was checked when the model was made; absent or null means the server's own.
    keep = parse_keep_alive(spec.parameters.get("keep_alive")) or default
    return Wanted(model, spec, estimate, cache, keep.seconds)
