"""OpenAI's error object, which half of the field speaks."""

from __future__ import annotations

from localdecide.core import errors
from localdecide.dialects.base import Body, Fault

TYPES = {403: "permission_error", 429: "rate_limit_error", 503: "overloaded_error"}
CODES = {
    errors.ModelNotFound.code: "model_not_found",
    errors.Unauthorized.code: "invalid_api_key",
    errors.PromptTooLong.code: "context_length_exceeded",
    errors.Busy.code: "rate_limit_exceeded",
}


def error_body(fault: Fault) -> Body:
    """`{"error": {message, type, param, code}}`."""
    kind = TYPES.get(fault.status, "invalid_request_error" if fault.status < 500 else "server_error")
    return {
        "error": {
            "message": fault.message,
            "type": kind,
            "param": parameter(fault.loc) if fault.loc else None,
            "code": CODES.get(fault.code),
        }
    }


def parameter(loc: tuple[str | int, ...]) -> str:
    """A path as OpenAI writes it: `questions[0].choices`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text
