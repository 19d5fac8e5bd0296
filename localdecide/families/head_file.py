"""What a head's file says beside its tensors: a GGUF of its own, next to the backbone's.

    general.architecture            "localdecide-head"
    localdecide.head.family         the family that reads it
    localdecide.head.temperature    f32: one divisor for all types, or
    localdecide.head.temperature.T  f32: by type or type and bucket, as in decision files
    localdecide.head.attention      "causal" or "bidirectional": how the backbone is run
    localdecide.head.codes          the answer codes, one for each row of `readout.weight`
    localdecide.head.max_length     u32: tokens of the longest prompt the model was trained with

The runner puts these keys into `Model.head` under the empty name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.families.base import Model

PREFIX = "localdecide.head."
READOUT = "readout.weight"


def keys(model: Model) -> Mapping[str, Any]:
    """The keys of the model's head file, without their prefix; empty where it has none."""
    found: Mapping[str, Any] = model.head.get("", {})
    return {key.removeprefix(PREFIX): value for key, value in found.items() if key.startswith(PREFIX)}


def has_readout(model: Model) -> bool:
    return READOUT in model.head


def longest(model: Model) -> int | None:
    """Tokens of the longest prompt, where the head's file says so."""
    said = keys(model).get("max_length")
    return None if said is None else int(said)
