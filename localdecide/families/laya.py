"""laya and Julia-1: a bidirectional encoder, a mask token in front of every option, the marker head.

`[CLS]` type question: instructions `[SEP]` (`[MASK]` option)* `[SEP]` state `[SEP]`, one prompt a question.
Options, then the question, are cut to the token budget of training, and the answer says how many
tokens were lost. The state is cut only where the file gives a limit for the whole prompt.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, PromptTooLong
from localdecide.core.jsontext import Json
from localdecide.families import marker_family
from localdecide.families.base import Model
from localdecide.families.decision_file import decision_keys, template
from localdecide.families.inputs import refuse_images, template_inputs, user_values
from localdecide.families.marker_family import Cut, MarkerPlan, plan_of, special_id
from localdecide.families.mmbert import vocabulary_of
from localdecide.families.options import false_first
from localdecide.families.text import Guard

NAME = "laya"
JOINT = False
TAKES = ("PROMPT", "HEAD")
READOUT = "marker"
ATTENTION = "bidirectional"

read = marker_family.read

# Tokens of one option without its mask; the least that is left to the question and to each option.
OPTION_TOKENS = 48
QUESTION_ROOM, QUESTION_LEAST, OPTION_LEAST = 16, 8, 4
MAX_HEAD_TOKENS = 256

_TEMPLATE = (
    "CLS{{ type }} question: {{ instructions if instructions is string else instructions | tojson }}SEP"
    "{% for option in options %}MASK "
    "OPTION"
    "{% endfor %}SEP{{ state if state is string else state | tojson }}SEP"
)
_LAYA_OPTION = (
    "{% set text = option.description if option.description is string else option.description | tojson %}"
    "{% if type == 'choice' %}{{ option.key }}"
    "{% if option.description is not none and option.description != '' %}: {{ text }}{% endif %}"
    "{% elif type == 'score' %}level {{ option.key }}: {{ text }}"
    "{% elif option.description %}{{ option.key }}: {{ text }}"
    "{% elif option.key == 'true' %}true: yes, the statement holds"
    "{% else %}false: no, the statement does not hold{% endif %}"
)
_JULIA_OPTION = (
    "{% if not option.description %}{{ option.key }}"
    "{% else %}{{ option.description if option.description is string else option.description | tojson }}{% endif %}"
)


def template_text(cls: str, sep: str, mask: str, *, julia: bool = False) -> str:
    """The decision template for a tokenizer's own special tokens, in laya's or Julia-1's wording."""
    option = _JULIA_OPTION if julia else _LAYA_OPTION
    return _TEMPLATE.replace("OPTION", option).replace("CLS", cls).replace("SEP", sep).replace("MASK", mask)


def plan(decision: Decision, model: Model) -> MarkerPlan:
    """Raises UnsupportedInput for images, PromptTooLong where no cut helps."""
    refuse_images(decision)
    cls, sep, mask = (special_id(model, *names) for names in _SPECIALS)
    vocabulary = vocabulary_of(model)
    shown = [vocabulary.piece(token) for token in (cls, sep, mask)]
    source = template(model, template_text(*shown))
    guard = Guard(vocabulary, *user_values(decision))

    def text(value: Json) -> Any:
        return guard.wrap(_without(value, shown[2]))

    state = text(decision.state)
    cuts = {}
    for key, question in decision.questions.items():
        inputs = {**template_inputs(key, question, false_first(question), text), "state": state, "images": []}
        cuts[key] = _cut(guard.encode(source.render(inputs)), sep, mask, key, model)
    return plan_of(decision, cuts)


def describe(model: Model) -> dict[str, Any]:
    keys = decision_keys(model)
    limits = {"head_tokens": _head_tokens(model), "option_tokens": OPTION_TOKENS}
    return marker_family.describe(model, limits | ({"tokens": keys["max_length"]} if "max_length" in keys else {}))


def _cut(tokens: list[int], sep: int, mask: int, key: str, model: Model) -> Cut:
    """The token budgets of training on a rendered prompt."""
    masks = [index for index, token in enumerate(tokens) if token == mask]
    if not masks or sep not in tokens[: masks[0]] or sep not in tokens[masks[-1] :]:
        raise BadModelFile("the model's template does not put masks between two separators")
    question_end = tokens.index(sep)
    options_end = tokens.index(sep, masks[-1])
    bounds = [*masks, options_end]
    options = [tokens[start:end] for start, end in pairwise(bounds)]
    question, state = tokens[1:question_end], tokens[options_end + 1 : -1]

    head = _head_tokens(model)
    options = [option[: OPTION_TOKENS + 1] for option in options]
    if sum(map(len, options)) + QUESTION_ROOM > head:
        room = max(OPTION_LEAST, (head - QUESTION_ROOM) // len(options))
        options = [option[:room] for option in options]
    question = question[: max(QUESTION_LEAST, head - sum(map(len, options)))]

    short = [tokens[0], *question, *tokens[question_end : masks[0]]]
    places = []
    for option in options:
        places.append(len(short))
        short += option
    short.append(sep)
    state = _cut_state(state, len(short) + 1, key, model)
    short += [*state, tokens[-1]]
    return Cut(short, places, len(tokens) - len(short))


def _cut_state(state: list[int], fixed: int, key: str, model: Model) -> list[int]:
    """The start of the state that fits the whole prompt's limit, where the file gives one."""
    limit = decision_keys(model).get("max_length")
    if limit is None:
        return state
    if fixed > int(limit):
        raise PromptTooLong(
            f'the options of question "{key}" need {fixed} tokens; this model was trained with {limit}',
            {"question": key, "tokens": fixed, "limit": int(limit)},
        )
    return state[: int(limit) - fixed]


def _head_tokens(model: Model) -> int:
    return int(decision_keys(model).get("max_head_tokens", MAX_HEAD_TOKENS))


def _without(value: Json, mask: str) -> Json:
    """`value` with a space wherever a text in it spells the mask token, as the model was trained."""
    match value:
        case str():
            return value.replace(mask, " ")
        case list():
            return [_without(item, mask) for item in value]
        case dict():
            return {key.replace(mask, " "): _without(item, mask) for key, item in value.items()}
    return value


# Each with the file's keys for it (upstream spells one "seperator") and the texts it has in known tokenizers.
_SPECIALS = (
    (("cls", "bos"), ("[CLS]", "<bos>")),
    (("seperator", "sep", "eos"), ("[SEP]", "<eos>")),
    (("mask",), ("[MASK]", "<mask>")),
)
