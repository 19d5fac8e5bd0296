"""Every path that answers decisions, and whose contract it speaks."""

from __future__ import annotations

from collections.abc import Mapping

from localdecide.dialects import (
    decisions,
    localai,
    ollama,
    openai,
    openrouter,
    questions_format,
    requesty,
    root,
    sglang,
    sglang_decisions,
    sglang_score,
    typesafe,
    vllm,
)
from localdecide.dialects.base import Choose, Dialect, Operation

_ROOT_FORMATS = questions_format.operations("requesty", requesty.STYLE_MEAN)
_REQUESTY_FORMATS = questions_format.operations("requesty", requesty.STYLE_INDEX)
_OPENAI_FORMATS = questions_format.operations("openai", requesty.STYLE_MEAN)

OPERATIONS: Mapping[str, Operation | Choose] = {
    "/v1/systemone": root.SYSTEMONE,
    "/v1/systemone/permute": root.PERMUTE,
    "/v1/systemone/separate": root.SEPARATE,
    "/v1/decisions": decisions.CHOICE,
    "/v1/score": sglang_score.SCORE,
    **{f"/v1/{end}": operation for end, operation in _ROOT_FORMATS.items()},
    "/typesafe/v1/systemone": typesafe.SYSTEMONE,
    "/ollama/v1/systemone": ollama.SYSTEMONE,
    "/openai/v1/decisions": openai.DECISIONS,
    "/openai/v1/chat/completions": _OPENAI_FORMATS["chat/completions"],
    "/openai/v1/responses": _OPENAI_FORMATS["responses"],
    "/sglang/v1/decisions": sglang_decisions.DECISIONS,
    "/sglang/v1/systemone": sglang.SYSTEMONE,
    "/sglang/v1/score": sglang_score.SCORE,
    "/vllm/v1/systemone": vllm.SYSTEMONE,
    "/vllm/v1/decisions": vllm.DECISIONS,
    "/localai/v1/systemone": localai.SYSTEMONE,
    "/localai/v1/systemone/permute": localai.PERMUTE,
    "/localai/v1/systemone/separate": localai.SEPARATE,
    "/requesty/v1/systemone": requesty.SYSTEMONE,
    **{f"/requesty/v1/{end}": operation for end, operation in _REQUESTY_FORMATS.items()},
    "/api/alpha/decisions": openrouter.DECISIONS,
    "/api/v1/systemone": openrouter.DECISIONS,
}

# Whose error body the other paths under a prefix give: its model list, and what it does not serve.
PREFIXES: Mapping[str, Dialect] = {
    "typesafe": typesafe.DIALECT,
    "ollama": ollama.DIALECT,
    "openai": openai.DIALECT,
    "sglang": sglang_decisions.DIALECT,
    "vllm": vllm.DIALECT,
    "localai": localai.DIALECT,
    "requesty": requesty.DIALECT,
}


def dialect_of(path: str) -> Dialect:
    """Whose error body a request to `path` gets, before anything else is known of it."""
    if (found := OPERATIONS.get(path)) is not None:
        return found.dialect
    return PREFIXES.get(path.split("/")[1] if path.startswith("/") else "", root.DIALECT)


def forced(path: str, name: str) -> str | None:
    """The path that serves root `path` in the dialect `name`; None where that dialect has none."""
    if name == dialect_of(path).name:
        return path
    route = f"/{name}{path}"
    return route if route in OPERATIONS else None
