"""Which engine a spec asks for: llama.cpp, or the fake one that needs no weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from localdecide.core.model import ModelSpec
from localdecide.engine.base import Engine
from localdecide.families.registry import refuse_unreadable


def open_engine(spec: ModelSpec, options: Mapping[str, Any], progress: Callable[[float], None]) -> Engine:
    """The engine of a model. A path of `fake:` opens the deterministic fake (for contract tests).

    options: `describe`, for a model without weights that can only be described; `cache_bytes`; `parallel`,
    requests that may share decode calls; `derived`, a folder for faster copies of weights (none where it is
    absent); `measured`, a folder for what is known of this machine; `memory`, bytes that models may use.

    Raises BadModelFile, and NotSupported where the model's family says what this build lacks for it.
    """
    if spec.path.startswith("fake:"):
        refuse_unreadable(spec, "")
        from localdecide.engine.fake import FakeEngine

        return FakeEngine(spec.path.removeprefix("fake:"), spec.parameters)
    from localdecide.engine.fast_weights import choose_weights
    from localdecide.engine.llama import LlamaEngine
    from localdecide.engine.weights import check_file, start_backend
    from localdecide.engine.words import ARCHITECTURES, WordEngine, architecture

    start_backend()
    check_file(Path(spec.path))
    named = architecture(Path(spec.path))
    refuse_unreadable(spec, named)
    if named in ARCHITECTURES:
        return WordEngine(spec.path, spec.parameters)
    if options.get("describe"):
        from localdecide.engine.peek import PeekEngine

        return PeekEngine(spec.path, spec.parameters)
    folder = Path(options["derived"]) if options.get("derived") else None
    path, weights = choose_weights(spec.path, folder, int(options.get("memory", 0)), progress)
    cache = int(options.get("cache_bytes", 0))
    parallel = int(options.get("parallel", 1))
    measured = Path(options["measured"]) if options.get("measured") else None
    return LlamaEngine(
        path,
        spec.parameters,
        weights=weights,
        cache_bytes=cache,
        parallel=parallel,
        measured=measured,
        progress=progress,
    )
