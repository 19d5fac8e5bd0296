"""TypeSafe's System One: its confidence, its 422s, its assets. Errors also carry Ollama's string."""

from __future__ import annotations

from localdecide.core import confidence, errors
from localdecide.core.decision import Decision, Result
from localdecide.dialects import schemas
from localdecide.dialects.assets import read_with_assets
from localdecide.dialects.base import STATUSES, Asked, Body, Dialect, Fault, Incoming, Operation, ask
from localdecide.dialects.fields import check_text, model_name
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

ERROR_TYPES = {
    400: "api_usage_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found",
    405: "method_not_allowed",
    413: "request_too_large",
    415: "unsupported_media_type",
    499: "cancelled",
    503: "overloaded",
}


def error_body(fault: Fault) -> Body:
    """`{error, detail, code}`: a list of places for a schema fault, else a type and a message."""
    detail: object
    if fault.status == 422 and fault.code != errors.PromptTooLong.code:
        detail = [{"loc": ["body", *fault.loc], "msg": fault.problem, "type": fault.code}]
    elif fault.code == errors.PromptTooLong.code:
        detail = {"error_type": "max_tokens_exceeded", "message": fault.message}
    else:
        detail = {"error_type": ERROR_TYPES.get(fault.status, "internal_error"), "message": fault.message}
    return {"error": fault.message, "detail": detail, "code": fault.code}


DIALECT = Dialect(
    "typesafe",
    error_body,
    {
        **STATUSES,
        errors.InvalidRequest: 422,
        errors.MalformedBody: 422,
        errors.PromptTooLong: 422,
        errors.UnsupportedInput: 422,
        errors.InvalidModelfile: 422,
        errors.InvalidName: 404,
        errors.NotSupported: 422,
    },
)
RULES = Rules(ignore_unknown=True)
STYLE = Style(of_distribution(confidence.margin), of_distribution(confidence.dispersion), legend_structured)


def parse(incoming: Incoming) -> Asked:
    """A JSON or multipart request. Unknown fields are ignored, unknown sides of a noul are not."""
    body, images = read_with_assets(incoming)
    state = parse_state(body, RULES)
    questions = parse_map(body.get("questions"), RULES)
    check_text(incoming, state, body.get("questions"))
    return Asked(model_name(body), Decision(state, questions, images), None, body)


def render(asked: Asked, result: Result) -> Body:
    """`{model, answers, usage}` and nothing else."""
    return {"model": result.model, "answers": render_answers(asked, result, STYLE), "usage": usage(result)}


SYSTEMONE = Operation(DIALECT, ask(parse, render), "System One as TypeSafe serves it", schemas.TYPESAFE, multipart=True)
