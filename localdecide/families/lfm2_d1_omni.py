"""d1-omni (text): a bidirectional LFM2, a mask token in front of every option, the marker head.

`<|startoftext|>`, the state, the question and the options in pieces that are tokenised apart; each has a
budget of tokens by the number of options, and the state takes what remains. The answer says what was lost.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import InvalidRequest
from localdecide.core.jsontext import Json
from localdecide.families import marker_family
from localdecide.families.base import Model
from localdecide.families.decision_file import decision_keys, template
from localdecide.families.inputs import refuse_images, template_inputs, user_values
from localdecide.families.marker_family import Cut, MarkerPlan, plan_of, special_id
from localdecide.families.options import false_first
from localdecide.families.spans import Marks, Piece, join
from localdecide.families.text import Guard

NAME = "lfm2-d1-omni"
JOINT = False
TAKES = ("PROMPT", "HEAD")
READOUT = "marker"
ATTENTION = "bidirectional"

read = marker_family.read

MAX_TOKENS = 16384
MARKS = ("state", "question", "option")

TEMPLATE = (
    "{{ sep }}<|startoftext|><|reserved_7|>"
    "{{ sep }}{{ mark_state }}{% if state is not none %}{{ state if state is string else state | tojson }}{% endif %}"
    "{{ sep }}{{ mark_question }}<|reserved_8|>{{ instructions if instructions is string else instructions | tojson }}"
    "{% for option in options %}"
    "{% set text = option.description if option.description is string else option.description | tojson %}"
    "{% set given = option.description is not none and option.description != '' %}"
    "{{ sep }}<|reserved_9|><|mask|>{{ sep }}{{ mark_option }} "
    "{% if type == 'choice' %}{{ option.key }}{% if given %}: {{ text }}{% endif %}"
    "{% elif type == 'score' %}level {{ option.key }}: {{ text }}"
    "{% elif given %}{{ option.key }}: {{ text }}"
    "{% elif option.key == 'true' %}true: yes, the statement holds"
    "{% else %}false: no, the statement does not hold{% endif %}"
    "{{ sep }}<|reserved_10|>"
    "{% endfor %}"
    "{{ sep }}<|reserved_11|>"
)


def plan(decision: Decision, model: Model) -> MarkerPlan:
    """Raises UnsupportedInput for images, InvalidRequest where the options do not fit."""
    refuse_images(decision)
    mask = special_id(model, ("mask",), ("<|mask|>",))
    guard = Guard(model.vocabulary, *user_values(decision))

    def text(value: Json) -> Any:
        return guard.wrap(value)

    marks = Marks(guard, NAME, MARKS)
    fixed = {"state": text(decision.state), "images": [], "audio": [], **marks.inputs()}
    cuts = {}
    for key, question in decision.questions.items():
        inputs = {**template_inputs(key, question, false_first(question), text), **fixed}
        pieces = marks.cut(template(model, TEMPLATE).render(inputs))
        cuts[key] = _cut(pieces, len(question.keys), mask, key, model)
    return plan_of(decision, cuts)


def describe(model: Model) -> dict[str, Any]:
    return marker_family.describe(model, {"tokens": f"{_limit(model)}; the state's end is cut to fit"})


def budgets(options: int, limit: int) -> tuple[int, int]:
    """Tokens that the question's piece, and each option's text, may have."""
    room = max(96, min(24 * options + 32, limit // 2))
    return max(16, room), max(2, (room - 3 * options) // options)


def _cut(pieces: list[Piece], options: int, mask: int, key: str, model: Model) -> Cut:
    limit = int(decision_keys(model).get("max_length", MAX_TOKENS))
    question, option = budgets(options, limit)
    before = sum(len(piece.tokens) for piece in pieces)
    rooms = {"question": question, "option": option}
    pieces = [Piece(piece.kind, piece.tokens[: rooms.get(piece.kind, len(piece.tokens))]) for piece in pieces]
    fixed = sum(len(piece.tokens) for piece in pieces if piece.kind != "state")
    room = max(0, _limit(model) - fixed)
    pieces = [Piece("state", piece.tokens[:room]) if piece.kind == "state" else piece for piece in pieces]
    tokens, _ = join(pieces)
    masks = [index for index, token in enumerate(tokens) if token == mask]
    if masks and masks[-1] >= _limit(model):
        raise InvalidRequest.at(("questions", key, "criteria"), "the options do not fit in the context")
    tokens = tokens[: _limit(model)]
    return Cut(tokens, masks, before - len(tokens))


def _limit(model: Model) -> int:
    """Tokens of one prompt: as trained, or what the engine was given room for."""
    return min(int(decision_keys(model).get("max_length", MAX_TOKENS)), model.limits.context)
