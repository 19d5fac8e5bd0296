"""SGLang's `/v1/systemone`: TypeSafe's answers, label masses beside them, any model name."""

from __future__ import annotations

from localdecide.core import confidence, errors
from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.errors import InvalidRequest, UnsupportedInput
from localdecide.core.questions import Question
from localdecide.dialects import errors_flat, schemas
from localdecide.dialects.base import STATUSES, Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.fields import check_text, find_any, model_name, template_arguments
from localdecide.dialects.images import read_images
from localdecide.dialects.systemone import (
    Rules,
    Style,
    legend_structured,
    of_distribution,
    parse_map,
    parse_state,
    render_answers,
    usage,
)

THINKING_REFUSED = "must be false: decisions are read with thinking turned off"


def error_body(fault: Fault) -> Body:
    """`detail` with the places of a schema fault, else the flat body."""
    if fault.status == 422:
        return {"detail": [{"type": fault.code, "loc": ["body", *fault.loc], "msg": fault.problem}]}
    return errors_flat.error_body(fault)


DIALECT = Dialect(
    "sglang", error_body, {**STATUSES, errors.InvalidRequest: 422, errors.MalformedBody: 422, errors.InvalidName: 400}
)
RULES = Rules(blank_ids=True)
DECISIONS_ONLY = ("temperature", "prompt_format_version", "return_prompt_token_ids")


def parse(incoming: Incoming) -> Asked:
    """A map of questions; the fields of `/v1/decisions` are refused, other unknown ones ignored."""
    body = incoming.object()
    for name in DECISIONS_ONLY:
        if body.get(name) is not None:
            raise InvalidRequest.at((name,), f"{name} is not part of this API, use /v1/decisions for it")
    state = parse_state(body, RULES)
    try:
        questions = parse_map(body.get("questions"), RULES)
    except UnsupportedInput as error:  # whatever is wrong with a question is a schema fault here
        raise InvalidRequest.at(error.loc, error.problem) from None
    check_text(incoming, state, body["questions"])
    options = Options(chat_template_kwargs=template_arguments(body, THINKING_REFUSED))
    return Asked(model_name(body), Decision(state, questions, read_images(body.get("images")), options), None, body)


def label_mass(question: Question, reading: Reading) -> Body:
    """`x_label_mass`, for models that are read by labels."""
    return {} if reading.label_mass is None else {"x_label_mass": reading.label_mass}


STYLE = Style(
    of_distribution(confidence.margin), of_distribution(confidence.dispersion), legend_structured, extras=label_mass
)


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}`, the model as it is served."""
    return {"model": result.model, "answers": render_answers(asked, result, STYLE), "usage": usage(result)}


SYSTEMONE = Operation(
    DIALECT, ask(parse, render, find=find_any), "System One as SGLang serves it", schemas.SGLANG_SYSTEMONE
)
