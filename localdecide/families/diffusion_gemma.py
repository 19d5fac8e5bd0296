"""DiffusionGemma: refused, with what is missing. It would be read at slot 0 of a canvas of 16 tokens.

The canvas read needs a prompt, an empty closed thought, a random token, `<turn|>` and padding, one
denoising step, and the logits of slot 0. llama.cpp as bound here has diffusion graphs for Dream, LLaDA and
RND1, and none for this model: it refuses the file's architecture, so `MISSING` is said before the file is
opened. `tests/unit/families/test_diffusion_gemma.py` measures that, and fails on the day when a new build
can load it.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import NotSupported
from localdecide.core.plan import Plan, Rows
from localdecide.families.base import Evidence, Model

NAME = "diffusion-gemma"
JOINT = False

MISSING = (
    "DiffusionGemma cannot be read: llama.cpp in this build has no graph for its architecture "
    "(a block canvas of 16 tokens over a causal prompt), so slot 0 of the canvas has no logits"
)


def plan(decision: Decision, model: Model) -> Plan:
    """Raises NotSupported with what is missing."""
    raise NotSupported(MISSING)


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """Raises NotSupported with what is missing."""
    raise NotSupported(MISSING)


def describe(model: Model) -> dict[str, Any]:
    return {"prompt": "none", "readouts": {}, "missing": MISSING}
