"""SGLang's `/v1/decisions`: a list of questions with ids, probabilities and label masses by id.

A model is read in its own way, as on every route. A request that pins `prompt_format_version` or asks
for token ids gets SGLang's wording and labels at temperature 1, so that it can be replayed by `/v1/score`.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.answers import ChoiceAnswer, NoulAnswer, ScoreAnswer, answer
from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.jsontext import Json, is_blank
from localdecide.core.questions import ABSENT, MAX_QUESTIONS, Choice, Noul, Option, Question, Score, check_option_name
from localdecide.dialects import errors_flat, schemas
from localdecide.dialects.base import Asked, Body, Dialect, Incoming, Operation, ask
from localdecide.dialects.fields import (
    check_text,
    find_any,
    flag,
    items,
    members,
    refuse_unknown,
    temperature,
    template_arguments,
    text,
)
from localdecide.dialects.images import read_images
from localdecide.dialects.sglang import THINKING_REFUSED
from localdecide.dialects.systemone import check_count, reading_of

Loc = tuple[str | int, ...]

DIALECT = Dialect("sglang", errors_flat.error_body)
FORMAT_VERSION = 1
PROMPT = "sglang/1"
FIELDS = frozenset(
    [
        "model",
        "input",
        "images",
        "questions",
        "temperature",
        "chat_template_kwargs",
        "prompt_format_version",
        "return_prompt_token_ids",
    ]
)
QUESTION_FIELDS = {
    "choice": frozenset({"type", "id", "question", "options"}),
    "score": frozenset({"type", "id", "question", "levels"}),
    "yes_no": frozenset({"type", "id", "question", "yes", "no"}),
}


def parse(incoming: Incoming) -> Asked:
    """A request with nothing in it that the API does not know."""
    if incoming.content_type.partition(";")[0].strip().lower() != "application/json":
        raise InvalidRequest("Unsupported Media Type: Only 'application/json' is allowed")
    body = incoming.object()
    refuse_unknown(body, FIELDS)
    state = _words(body.get("input"), ("input",))
    questions = _questions(body.get("questions"))
    images = read_images(body.get("images"))
    version = body.get("prompt_format_version")
    if version is not None and (version != FORMAT_VERSION or isinstance(version, bool | float)):
        raise UnsupportedInput(
            f"prompt_format_version {version} is not served, this server uses version {FORMAT_VERSION}",
            {"loc": ["prompt_format_version"]},
        )
    ids = flag(body, "return_prompt_token_ids")
    if ids and images:
        raise UnsupportedInput("return_prompt_token_ids cannot replay image inputs through /v1/score")
    check_text(incoming, state, body["questions"])
    pinned = ids or version is not None
    options = Options(
        # Token ids are asked for to be replayed, and a replay decodes each prompt alone.
        exact=ids,
        temperature=temperature(body) or (1.0 if pinned else None),
        prompt=PROMPT if pinned else None,
        chat_template_kwargs=template_arguments(body, THINKING_REFUSED),
        token_ids=ids,
    )
    return Asked(text(body, "model") or None, Decision(state, questions, images, options), None, body)


def _questions(raw: Any) -> dict[str, Question]:
    if raw is None:
        raise InvalidRequest.at(("questions",), "is required")
    listed = items(raw, ("questions",))
    check_count(len(listed), (1, MAX_QUESTIONS), MAX_QUESTIONS, "questions", ("questions",))
    parsed: dict[str, Question] = {}
    for index, item in enumerate(listed):
        loc: Loc = ("questions", index)
        key = members(item, loc).get("id")
        if not isinstance(key, str) or not key.strip():
            raise InvalidRequest.at((*loc, "id"), "must not be blank")
        if key in parsed:
            raise InvalidRequest(f"question id {key!r} repeats another question", {"loc": [*loc, "id"]})
        parsed[key] = _question(item, loc)
    return parsed


def _question(raw: dict[str, Any], loc: Loc) -> Question:
    kind = raw.get("type")
    if kind not in QUESTION_FIELDS:
        raise InvalidRequest.at((*loc, "type"), "must be choice, score or yes_no")
    refuse_unknown(raw, QUESTION_FIELDS[kind], loc)
    instructions = _words(raw.get("question"), (*loc, "question"))
    match kind:
        case "choice":
            listed = items(raw.get("options"), (*loc, "options"))
            check_count(len(listed), (2, 26), 255, "options", (*loc, "options"))
            seen: dict[str, str] = {}
            return Choice(
                tuple(_option(item, seen, (*loc, "options", i)) for i, item in enumerate(listed)), instructions
            )
        case "score":
            listed = items(raw.get("levels"), (*loc, "levels"))
            check_count(len(listed), (2, 10), 10, "levels", (*loc, "levels"))
            return Score(tuple(_words(item, (*loc, "levels", i)) for i, item in enumerate(listed)), instructions)
        case _:
            yes, no = (_side(raw.get(name), (*loc, name)) for name in ("yes", "no"))
            return Noul(instructions, ABSENT if yes is None else yes, ABSENT if no is None else no)


def _option(raw: Any, seen: dict[str, str], loc: Loc) -> Option:
    item = members(raw, loc)
    refuse_unknown(item, frozenset({"name", "description"}), loc)
    name = item.get("name")
    if not isinstance(name, str):
        raise InvalidRequest.at((*loc, "name"), "must be a string")
    check_option_name(name, seen, loc)
    return Option(name, _side(item.get("description"), (*loc, "description")))


def _side(value: Any, loc: Loc) -> Json:
    if value is not None and not isinstance(value, str | dict | list):
        raise InvalidRequest.at(loc, "must be a string, object or array")
    described: Json = value
    return described


def _words(value: Any, loc: Loc) -> Json:
    if value is None:
        raise InvalidRequest.at(loc, "is required")
    if is_blank(_side(value, loc)):
        raise InvalidRequest.at(loc, "must not be blank")
    return _side(value, loc)


def render(asked: Asked, result: Result) -> Body:
    """Answers by id; the model is echoed as it was sent."""
    return {
        "object": "decisions",
        "model": asked.sent.get("model") or "default",
        "prompt_format_version": FORMAT_VERSION,
        "answers": {key: _answer(item, reading_of(result, key)) for key, item in asked.decision.questions.items()},
        "usage": {
            "prompt_tokens": result.input_tokens,
            "total_tokens": result.input_tokens,
            "completion_tokens": 0,
            "reasoning_tokens": 0,
        },
    }


def _answer(question: Question, reading: Reading) -> Body:
    body: Body = {"type": question.kind}
    if reading.label_mass is not None:
        body["label_mass"] = reading.label_mass
    match answer(question, reading.probabilities):
        case ChoiceAnswer(choice, probabilities):
            body |= {"probabilities": probabilities, "choice": choice}
        case ScoreAnswer(score, probabilities):
            body |= {"probabilities": probabilities, "score": score}
        case NoulAnswer():
            yes, no = reading.probabilities
            body |= {"type": "yes_no", "probabilities": {"yes": yes, "no": no}}
    if reading.prompt_token_ids is not None:
        body["prompt_token_ids"] = list(reading.prompt_token_ids)
    if reading.label_token_ids is not None:
        body["label_token_ids"] = list(reading.label_token_ids)
    return body


DECISIONS = Operation(
    DIALECT, ask(parse, render, find=find_any), "Decisions as SGLang serves them", schemas.SGLANG_DECISIONS
)
