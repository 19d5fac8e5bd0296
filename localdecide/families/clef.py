"""clef, clef-flash, clef-omni (text): all questions in one prompt, decided together by the joint-schema head.

The prompt is cut into pieces that are tokenised apart; the head reads every token, and averages over the
span of each question's instructions and of each option's JSON. Answers depend on the companions: JOINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, ModelFailed, PromptTooLong
from localdecide.core.jsontext import Json
from localdecide.core.plan import Hidden, Plan, Prompt, Rows
from localdecide.core.questions import Question
from localdecide.families import options as shown
from localdecide.families.asked import sort_keys
from localdecide.families.base import Evidence, Model
from localdecide.families.decision_file import architecture_key, decision_keys, prompt_source, template
from localdecide.families.heads.joint import Field, JointHead
from localdecide.families.heads.joint_names import block_counts
from localdecide.families.heads.segments import span_means
from localdecide.families.inputs import refuse_images, template_inputs, user_values
from localdecide.families.spans import Marks, Piece, join
from localdecide.families.temperatures import KINDS, describe_temperatures, temperature
from localdecide.families.text import Guard

NAME = "clef"
JOINT = True
TAKES = ("PROMPT", "HEAD")
READOUT = "joint-schema"
ATTENTION = "causal"

# What clef and clef-flash were trained with; clef-omni's file says more.
MAX_TOKENS = 16384

# A line break that follows a block is written as text: engines drop it otherwise.
TEMPLATE = (
    "<|im_start|>system\nRead the complete state and schema. Decide every field jointly. "
    "Each answer must be exactly one of that field's allowed options.<|im_end|>\n<|im_start|>user\nSTATE:\n"
    "{{ sep }}{{ state if state is string else state | tojson(separators=(',', ':')) }}"
    "{{ sep }}\n\nSCHEMA FIELDS:\n{{ sep }}"
    "{% for question in questions %}"
    "{{ '\\n' }}FIELD {{ loop.index }}\nID: {{ question.id }}\nTYPE: {{ question.type }}\n"
    "INSTRUCTION: {{ sep }}{{ mark_question }}"
    "{{ question.instructions if question.instructions is string"
    " else question.instructions | tojson(separators=(',', ':')) }}"
    "{{ sep }}\nALLOWED OPTIONS:\n"
    "{% for option in question.options %}"
    "{% set text = option.description %}"
    "{% if question.type == 'noul' and text is none %}"
    "{% set text = 'The proposition is true or the answer is yes.' if option.key == 'true'"
    " else 'The proposition is false or the answer is no.' %}"
    "{% endif %}"
    "{{ sep }}OPTION {{ loop.index }}: {{ sep }}{{ mark_option }}"
    "{% if text is none %}{{ {'option_id': option.key} | tojson(separators=(',', ':')) }}"
    "{% else %}{{ {'description': text, 'option_id': option.key} | tojson(separators=(',', ':')) }}"
    "{% endif %}{{ sep }}\n"
    "{% endfor %}"
    "{{ sep }}END FIELD\n{{ sep }}"
    "{% endfor %}"
    "{{ '\\n' }}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:"
)


@dataclass(frozen=True, slots=True)
class JointPlan(Plan):
    """One prompt and the pieces it was joined from. truncated: tokens of the state that were cut off."""

    pieces: tuple[Piece, ...] = ()
    truncated: int = 0


def plan(decision: Decision, model: Model) -> JointPlan:
    """One prompt, every row of it read. The end of a state that does not fit is cut, as in training.

    Raises UnsupportedInput for images, PromptTooLong when the questions alone do not fit.
    """
    refuse_images(decision)
    pieces, cut = _pieces(decision, model)
    tokens, _ = join(pieces)
    first = next(iter(decision.questions))
    prompt = Prompt(first, tuple(tokens), (Hidden(tuple(range(len(tokens)))),))
    return JointPlan((prompt,), pieces=tuple(pieces), truncated=cut)


def read(decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
    """All questions through the joint head at once."""
    assert isinstance(plan, JointPlan)
    fields, lexical = _fields(decision, list(plan.pieces), model)
    logits = _head(model).logits(rows.values[0][0], fields, lexical)
    evidence: dict[str, Evidence] = {}
    for (key, question), values in zip(decision.questions.items(), logits, strict=True):
        evidence[key] = Evidence(
            variants=(shown.reorder(question, shown.clef(question), values),),
            readout=READOUT,
            temperature=temperature(model, question.kind, len(question.keys)),
            # A joint prompt is counted once, with its first question.
            prompt_tokens=0 if evidence else len(plan.prompts[0].tokens),
            truncated=plan.truncated,
        )
    return evidence


def describe(model: Model) -> dict[str, Any]:
    head = _head(model)
    return {
        "prompt": prompt_source(model),
        "readouts": {kind: {"readout": READOUT, "source": "the family"} for kind in KINDS},
        "temperatures": describe_temperatures(model),
        "head": {
            "width": head.width,
            "size": head.types.shape[1],
            "routing_blocks": len(head.routing),
            "joint_blocks": len(head.joint),
        },
        "labels": "none: the tokens of each option are compared with the field's",
        "limits": {"options": 255, "tokens": f"{_limit(model)}; the state's end is cut to fit"},
        "modalities": ["text"],
    }


def _pieces(decision: Decision, model: Model) -> tuple[list[Piece], int]:
    """The prompt's pieces, and how many of the state's tokens were cut off."""
    guard = Guard(model.vocabulary, *user_values(decision))
    marks = Marks(guard, NAME, ("question", "option"))
    questions = [_inputs(key, question, guard) for key, question in decision.questions.items()]
    inputs = {"state": guard.wrap(sort_keys(decision.state)), "questions": questions, "images": []}
    pieces = marks.cut(template(model, TEMPLATE).render(inputs | marks.inputs()))
    asked, total = sum(piece.kind == "question" for piece in pieces), sum(len(piece.tokens) for piece in pieces)
    listed = sum(piece.kind == "option" for piece in pieces)
    if asked != len(questions) or listed != sum(len(question["options"]) for question in questions) or len(pieces) < 2:
        raise BadModelFile("the model's template does not mark one span for every question and option")
    # The piece behind the first cut is the state: the only one that may be cut, and then at its end.
    state = pieces[1].tokens if decision.state not in ("", None) else []
    limit = _limit(model)
    cut = max(0, total - limit)
    if cut > len(state):
        raise PromptTooLong(
            f"the questions need {total - len(state)} tokens before the state; this model's limit is {limit}",
            {"tokens": total - len(state), "limit": limit},
        )
    if cut:
        pieces[1] = Piece("", state[: len(state) - cut])
    return pieces, cut


def _inputs(key: str, question: Question, guard: Guard) -> dict[str, Any]:
    def text(value: Json) -> Any:
        return guard.wrap(sort_keys(value))

    # A side without a description is the template's to describe.
    texts = dict(shown.described(question))
    options = [(option.key, texts[option.key]) for option in shown.clef(question)]
    inputs = template_inputs(key, question, options, text)
    # The span of a question must hold tokens: a question that says nothing is represented by its id.
    if inputs["instructions"] == "":
        inputs["instructions"] = inputs["id"]
    return inputs


def _fields(decision: Decision, pieces: list[Piece], model: Model) -> tuple[list[Field], Any]:
    """Spans of every question, and the mean output-embedding row of every option's tokens."""
    _, places = join(pieces)
    questions = [place for piece, place in zip(pieces, places, strict=True) if piece.kind == "question"]
    spans = [(piece, place) for piece, place in zip(pieces, places, strict=True) if piece.kind == "option"]
    fields = []
    start = 0
    for question, place in zip(decision.questions.values(), questions, strict=True):
        end = start + len(question.keys)
        fields.append(Field(question.kind, place, tuple(place for _, place in spans[start:end])))
        start = end
    tokens, own = join([piece for piece, _ in spans])
    if model.output_rows is None:
        raise ModelFailed("the model gives no output rows, which the joint head reads")
    unique, back = np.unique(np.asarray(tokens, dtype=np.intp), return_inverse=True)
    table = np.asarray(model.output_rows(unique.tolist()), dtype=np.float32)
    return fields, span_means(table[back], own)


def _limit(model: Model) -> int:
    trained = int(decision_keys(model).get("max_length", MAX_TOKENS))
    return min(trained, model.limits.context)


def _head(model: Model) -> JointHead:
    if "joint" not in model.cache:
        keys = decision_keys(model)
        routing, joint = block_counts(model.head)
        if "head_count" not in keys and "heads" not in keys:
            raise BadModelFile("the model's file does not say how many attention heads its joint head has")
        model.cache["joint"] = JointHead.load(
            model.head,
            heads=int(keys.get("head_count", keys.get("heads", 0))),
            routing=int(keys.get("routing_block_count", routing)),
            joint=int(keys.get("block_count", joint)),
            eps=float(architecture_key(model, "attention.layer_norm_epsilon", 1e-5)),
        )
    head: JointHead = model.cache["joint"]
    return head
