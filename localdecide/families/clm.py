"""CLM: a bi-encoder. State and candidates are read apart, each at its last token, and compared by their angle.

The state's prompt is the state, a blank line and the instructions; each option is a prompt of its own.
Nothing is listed, so the order of options cannot matter. Long texts lose their end, as in training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, InvalidRequest
from localdecide.core.plan import Hidden, Plan, Prompt, Rows
from localdecide.families import options, render
from localdecide.families.base import Evidence, Model
from localdecide.families.beginning import shared
from localdecide.families.decision_file import decision_keys
from localdecide.families.heads.bi_encoder import BiEncoderHead
from localdecide.families.inputs import false_first_back, refuse_images, user_values
from localdecide.families.temperatures import KINDS, describe_temperatures, temperature
from localdecide.families.text import Guard

NAME = "clm"
JOINT = False
TAKES = ("HEAD",)
READOUT = "bi-encoder"
ATTENTION = "causal"

MAX_TOKENS = 2048


@dataclass(frozen=True, slots=True)
class PairPlan(Plan):
    """For each question the state's prompt, then one for each option. truncated: tokens cut off, by question."""

    truncated: dict[str, int] = field(default_factory=dict)


def plan(decision: Decision, model: Model) -> PairPlan:
    """Raises UnsupportedInput for images, InvalidRequest where state and instructions are both empty."""
    refuse_images(decision)
    guard = Guard(model.vocabulary, *user_values(decision))
    limit = min(int(decision_keys(model).get("max_length", MAX_TOKENS)), model.limits.context)
    bos = [] if model.vocabulary.bos is None else [model.vocabulary.bos]

    def encode(text: str) -> list[int]:
        return bos + guard.encode(str(guard.wrap(text)))

    state = render.clm(decision.state).strip()
    prefix = encode(f"{state}\n\n") if state else []
    prompts: list[Prompt] = []
    truncated = {}
    for key, question in decision.questions.items():
        asked = "\n\n".join(part for part in (state, render.clm(question.instructions).strip()) if part)
        if not asked:
            raise InvalidRequest.at(("state",), "must say something, or the instructions must, for this model")
        texts = [encode(text) for text in (asked, *(option.text for option in options.clm(question)))]
        for index, tokens in enumerate(texts):
            cut = tuple(tokens[:limit])
            kept = shared(prefix, list(cut)) if index == 0 else 0
            prompts.append(Prompt(key, cut, (Hidden((len(cut) - 1,)),), kept))
        truncated[key] = sum(max(0, len(tokens) - limit) for tokens in texts)
    return PairPlan(tuple(prompts), truncated=truncated)


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """The bi-encoder head on the last rows of the state's and the options' prompts."""
    assert isinstance(plan, PairPlan)
    evidence = {}
    start = 0
    for key, question in decision.questions.items():
        end = start + 1 + len(question.keys)
        state, *candidates = (values[0] for values in rows.values[start:end])
        logits = _head(model).logits(state, np.concatenate(candidates))
        evidence[key] = Evidence(
            variants=(false_first_back(question, logits),),
            readout=READOUT,
            temperature=temperature(model, question.kind, len(question.keys)),
            prompt_tokens=sum(len(prompt.tokens) for prompt in plan.prompts[start:end]),
            truncated=plan.truncated[key],
        )
        start = end
    return evidence


def describe(model: Model) -> dict[str, Any]:
    head = _head(model)
    return {
        "prompt": "the family's own",
        "readouts": {kind: {"readout": READOUT, "source": "the family"} for kind in KINDS},
        "temperatures": describe_temperatures(model),
        "head": {"width": head.width, "size": len(head.state.out.weight), "scale": head.scale},
        "labels": "none: each option is a text of its own, compared with the state's",
        "limits": {"options": 255, "tokens": int(decision_keys(model).get("max_length", MAX_TOKENS))},
        "modalities": ["text"],
    }


def _head(model: Model) -> BiEncoderHead:
    if "bi_encoder" not in model.cache:
        keys = decision_keys(model)
        activation = keys.get("activation", "gelu")
        if activation != "gelu":
            raise BadModelFile(f"the head's activation is {activation!r}; only gelu is known")
        model.cache["bi_encoder"] = BiEncoderHead.load(
            model.head,
            residual=bool(keys.get("residual", False)),
            eps=float(keys.get("layer_norm_epsilon", 1e-5)),
        )
    head: BiEncoderHead = model.cache["bi_encoder"]
    return head
