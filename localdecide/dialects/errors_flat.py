"""SGLang's flat error body."""

from __future__ import annotations

from localdecide.core import errors
from localdecide.dialects.base import Body, Fault

SCHEMA_FAULTS = (errors.InvalidRequest.code, errors.MalformedBody.code)


def error_body(fault: Fault) -> Body:
    """`{object, message, type, param, code}`; a missing key has a body of its own."""
    if fault.status == 401:
        return {"error": "Unauthorized"}
    kind = "Bad Request" if fault.code in SCHEMA_FAULTS else "BadRequestError"
    if fault.status == 404:
        kind = "NotFoundError"
    if fault.status >= 500:
        kind = "InternalServerError"
    return {"object": "error", "message": fault.message, "type": kind, "param": None, "code": fault.status}
