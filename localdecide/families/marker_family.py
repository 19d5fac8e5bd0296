"""What laya and d1-omni share: prompts with a mask token in front of each option, read by the marker head.

Their encoders see the whole prompt at once, so nothing is shared between questions and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile
from localdecide.core.plan import Hidden, Plan, Prompt, Rows
from localdecide.families.base import Evidence, Model
from localdecide.families.decision_file import architecture_key, prompt_source
from localdecide.families.heads.marker import MarkerHead
from localdecide.families.inputs import false_first_back
from localdecide.families.temperatures import KINDS, describe_temperatures, temperature


@dataclass(frozen=True, slots=True)
class Cut:
    """A prompt within its budgets. tokens: all of it; masks: positions; lost: tokens that were cut off."""

    tokens: list[int]
    masks: list[int]
    lost: int = 0


@dataclass(frozen=True, slots=True)
class MarkerPlan(Plan):
    """masks and truncated: of each question's prompt."""

    masks: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    truncated: Mapping[str, int] = field(default_factory=dict)


def plan_of(decision: Decision, cuts: Mapping[str, Cut]) -> MarkerPlan:
    """One prompt a question, every row read. Raises BadModelFile where the template lost or made up a mask."""
    for key, cut in cuts.items():
        wanted = len(decision.questions[key].keys)
        if len(cut.masks) != wanted:
            raise BadModelFile(f"the model's template marks {len(cut.masks)} options and the question has {wanted}")
    return MarkerPlan(
        prompts=tuple(
            Prompt(key, tuple(cut.tokens), (Hidden(tuple(range(len(cut.tokens)))),)) for key, cut in cuts.items()
        ),
        attention="bidirectional",
        masks={key: tuple(cut.masks) for key, cut in cuts.items()},
        truncated={key: cut.lost for key, cut in cuts.items()},
    )


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """The marker head over every prompt; temperatures by type and number of options."""
    assert isinstance(plan, MarkerPlan)
    evidence = {}
    for prompt, (hidden,) in zip(plan.prompts, rows.values, strict=True):
        key, question = prompt.question, decision.questions[prompt.question]
        logits = head_of(model).logits(hidden, question.kind, list(plan.masks[key]))
        evidence[key] = Evidence(
            variants=(false_first_back(question, logits),),
            readout="marker",
            temperature=temperature(model, question.kind, len(question.keys)),
            prompt_tokens=len(prompt.tokens),
            truncated=plan.truncated[key],
        )
    return evidence


def describe(model: Model, limits: dict[str, Any]) -> dict[str, Any]:
    head = head_of(model)
    return {
        "prompt": prompt_source(model),
        "readouts": {kind: {"readout": "marker", "source": "the family"} for kind in KINDS},
        "temperatures": describe_temperatures(model),
        "head": {"width": head.width, "blocks": len(head.blocks), "heads": head.blocks[0].attention.heads},
        "labels": "none: each option is read at the mask token in front of it",
        "limits": {"options": 255, **limits},
        "modalities": ["text"],
    }


def head_of(model: Model) -> MarkerHead:
    if "marker" not in model.cache:
        heads = architecture_key(model, "attention.head_count")
        if heads is None:
            raise BadModelFile("the model's file does not say how many attention heads it has")
        model.cache["marker"] = MarkerHead.load(
            model.head,
            heads=int(heads[-1] if isinstance(heads, list) else heads),
            eps=float(architecture_key(model, "attention.layer_norm_epsilon", 1e-5)),
        )
    head: MarkerHead = model.cache["marker"]
    return head


def special_id(model: Model, keys: tuple[str, ...], texts: tuple[str, ...]) -> int:
    """A special token's id from the file's `tokenizer.ggml.*` keys, else by its text. Raises BadModelFile."""
    for key in keys:
        value = model.metadata.get(f"tokenizer.ggml.{key}_token_id")
        if isinstance(value, int):
            return value
    for text in texts:
        if text in model.vocabulary.specials:
            return model.vocabulary.specials[text].id
    raise BadModelFile(f"the model's file names no {keys[0]} token")
