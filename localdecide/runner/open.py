"""Which engine a spec asks for: llama.cpp, or the fake one that needs no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from localdecide.core.model import ModelSpec
from localdecide.engine.base import Engine


def open_engine(spec: ModelSpec, options: Mapping[str, Any], progress: Callable[[float], None]) -> Engine:
    """The engine of a model. A path of `fake:` opens the deterministic fake (for contract tests)."""
    if spec.path.startswith("fake:"):
        from localdecide.engine.fake import FakeEngine

        return FakeEngine(spec.path.removeprefix("fake:"), spec.parameters)
    from localdecide.engine.llama import LlamaEngine
    from localdecide.engine.weights import start_backend

    start_backend()
    return LlamaEngine(
        spec.path, spec.parameters, cache_bytes=int(options.get("cache_bytes", 0)), progress=progress
    )
