"""kev: a pointer head on a causal backbone. The decide token points at the end of one option.

One prompt a question, the state first: `<|fim_prefix|>` state `<|fim_middle|>` instructions, then
`<|box_start|>` option `<|box_end|>` for each, then `<|fim_suffix|>`. Values are flattened to text, and
`<|name|>` in them is written with broken bars, as the model was trained.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile
from localdecide.core.jsontext import Json
from localdecide.core.plan import Hidden, Plan, Prompt, Rows
from localdecide.families import render
from localdecide.families.base import Evidence, Model
from localdecide.families.decision_file import prompt_source, template
from localdecide.families.heads.pointer import PointerHead
from localdecide.families.inputs import false_first_back, refuse_images, template_inputs, user_values
from localdecide.families.options import false_first
from localdecide.families.temperatures import KINDS, describe_temperatures, temperature
from localdecide.families.text import Guard

NAME = "kev"
JOINT = False
TAKES = ("PROMPT", "HEAD")
READOUT = "pointer"
ATTENTION = "causal"

STATE_END = "<|fim_middle|>"
OPTION_END = "<|box_end|>"

# Without the constants' names: a template is data that travels in files, whole and readable.
TEMPLATE = (
    "<|fim_prefix|>{{ state }}<|fim_middle|>{{ instructions }}"
    "{% for option in options %}<|box_start|>"
    "{% if type == 'score' %}{{ option.description }}"
    "{% else %}"
    "{% if type == 'noul' %}{{ 'yes' if option.key == 'true' else 'no' }}{% else %}{{ option.key }}{% endif %}"
    "{% if option.description %}: {{ option.description }}{% endif %}"
    "{% endif %}<|box_end|>{% endfor %}<|fim_suffix|>"
)


def plan(decision: Decision, model: Model) -> Plan:
    """One prompt a question; all of them share the state. Raises UnsupportedInput, BadModelFile."""
    refuse_images(decision)
    guard = Guard(model.vocabulary, *user_values(decision))

    def text(value: Json) -> Any:
        return guard.wrap(render.kev_escape(render.kev(value)))

    state_end, option_end = (_special(model, name) for name in (STATE_END, OPTION_END))
    state = text(decision.state)
    prompts = []
    for key, question in decision.questions.items():
        options = false_first(question)
        inputs = {**template_inputs(key, question, options, text), "state": state, "images": []}
        tokens = guard.encode(template(model, TEMPLATE).render(inputs))
        ends = tuple(index for index, token in enumerate(tokens) if token == option_end)
        if len(ends) != len(options):
            raise BadModelFile(f"the model's template marks {len(ends)} options and the question has {len(options)}")
        shared = tokens.index(state_end) + 1 if state_end in tokens else 0
        prompts.append(Prompt(key, tuple(tokens), (Hidden((*ends, len(tokens) - 1)),), shared))
    return Plan(tuple(prompts))


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """The pointer head on each option's end and the decide token."""
    evidence = {}
    for prompt, (hidden,) in zip(plan.prompts, rows.values, strict=True):
        question = decision.questions[prompt.question]
        count = len(question.keys)
        evidence[prompt.question] = Evidence(
            variants=(false_first_back(question, _head(model).logits(hidden, count)),),
            readout=READOUT,
            temperature=temperature(model, question.kind, count),
            prompt_tokens=len(prompt.tokens),
        )
    return evidence


def describe(model: Model) -> dict[str, Any]:
    head = _head(model)
    return {
        "prompt": prompt_source(model),
        "readouts": {kind: {"readout": READOUT, "source": "the family"} for kind in KINDS},
        "temperatures": describe_temperatures(model),
        "head": {"width": head.width, "size": len(head.query.weight)},
        "labels": f"none: the last token points at the {OPTION_END} of an option",
        "limits": {"options": 255, "levels": 10, "context": model.limits.context},
        "modalities": ["text"],
    }


def _head(model: Model) -> PointerHead:
    if "pointer" not in model.cache:
        model.cache["pointer"] = PointerHead.load(model.head)
    head: PointerHead = model.cache["pointer"]
    return head


def _special(model: Model, text: str) -> int:
    special = model.vocabulary.specials.get(text)
    if special is None:
        raise BadModelFile(f"the model's vocabulary has no token {text}, which kev reads")
    return special.id
