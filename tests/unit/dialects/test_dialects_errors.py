"""Every dialect answers every error of the tree, in its own shape."""

from __future__ import annotations

import pytest

from localdecide.core import errors
from localdecide.dialects import table
from localdecide.dialects.base import STATUSES, Choose, Dialect

DIALECTS = {id(found.dialect): found.dialect for found in table.OPERATIONS.values()}
DIALECTS |= {id(dialect): dialect for dialect in table.PREFIXES.values()}
ALL = sorted(DIALECTS.values(), key=lambda dialect: dialect.name)


def test_the_table_covers_the_tree():
    """Every class of the error tree has a row of its own; a new one fails here until it has."""
    assert set(STATUSES) == set(errors.tree())


@pytest.mark.parametrize("dialect", ALL, ids=lambda dialect: dialect.name)
@pytest.mark.parametrize("kind", list(errors.tree()), ids=lambda kind: kind.__name__)
def test_every_error_has_a_reply(dialect: Dialect, kind: type[errors.LocaldecideError]):
    """A status that is an error, a JSON object that holds the sentence, Retry-After where waiting helps."""
    reply = dialect.refuse(kind("the sentence", {"retry_after": 7, "loc": ["questions", 0]}), "req_1")
    assert 400 <= reply.status < 600
    assert isinstance(reply.body, dict)
    unauthorized = {"error": "Unauthorized"}
    assert "the sentence" in str(reply.body) or reply.body == unauthorized
    assert reply.headers.get("retry-after") == ("7" if kind is errors.Busy else None)
    assert ("www-authenticate" in reply.headers) == (kind is errors.Unauthorized)
    if kind not in (errors.Busy, errors.NotSupported):
        assert (reply.status >= 500) == (STATUSES[kind] >= 500)


SENTENCE = "the sentence"


@pytest.mark.parametrize(
    ("path", "kind", "status", "body"),
    [
        ("/v1/systemone", errors.InvalidRequest, 400, {"error": SENTENCE}),
        ("/v1/systemone", errors.ModelNotFound, 404, {"error": SENTENCE}),
        ("/v1/systemone", errors.Cancelled, 499, {"error": SENTENCE}),
        ("/ollama/v1/systemone", errors.InputTooLarge, 413, {"error": SENTENCE}),
        ("/ollama/v1/systemone", errors.Busy, 503, {"error": SENTENCE}),
        ("/typesafe/v1/systemone", errors.InvalidRequest, 422,
         {"error": SENTENCE, "code": "invalid_request",
          "detail": [{"loc": ["body", "questions", "q"], "msg": SENTENCE, "type": "invalid_request"}]}),
        ("/typesafe/v1/systemone", errors.PromptTooLong, 422,
         {"error": SENTENCE, "code": "prompt_too_long",
          "detail": {"error_type": "max_tokens_exceeded", "message": SENTENCE}}),
        ("/typesafe/v1/systemone", errors.Unauthorized, 401,
         {"error": SENTENCE, "code": "unauthorized",
          "detail": {"error_type": "authentication_error", "message": SENTENCE}}),
        ("/typesafe/v1/systemone", errors.ModelNotFound, 404,
         {"error": SENTENCE, "code": "model_not_found", "detail": {"error_type": "not_found", "message": SENTENCE}}),
        ("/typesafe/v1/systemone", errors.UnsupportedEncoding, 415,
         {"error": SENTENCE, "code": "unsupported_encoding",
          "detail": {"error_type": "unsupported_media_type", "message": SENTENCE}}),
        ("/openai/v1/decisions", errors.InvalidRequest, 400,
         {"error": {"message": SENTENCE, "type": "invalid_request_error", "param": "questions.q", "code": None}}),
        ("/openai/v1/decisions", errors.ModelNotFound, 404,
         {"error": {"message": SENTENCE, "type": "invalid_request_error", "param": None, "code": "model_not_found"}}),
        ("/openai/v1/decisions", errors.Unauthorized, 401,
         {"error": {"message": SENTENCE, "type": "invalid_request_error", "param": None, "code": "invalid_api_key"}}),
        ("/openai/v1/decisions", errors.RunnerDied, 500,
         {"error": {"message": SENTENCE, "type": "server_error", "param": None, "code": None}}),
        ("/sglang/v1/decisions", errors.InvalidRequest, 400,
         {"object": "error", "message": SENTENCE, "type": "Bad Request", "param": None, "code": 400}),
        ("/sglang/v1/decisions", errors.UnsupportedInput, 400,
         {"object": "error", "message": SENTENCE, "type": "BadRequestError", "param": None, "code": 400}),
        ("/sglang/v1/decisions", errors.Unauthorized, 401, {"error": "Unauthorized"}),
        ("/sglang/v1/systemone", errors.InvalidRequest, 422,
         {"detail": [{"type": "invalid_request", "loc": ["body", "questions", "q"], "msg": SENTENCE}]}),
        ("/sglang/v1/systemone", errors.PromptTooLong, 400,
         {"object": "error", "message": SENTENCE, "type": "BadRequestError", "param": None, "code": 400}),
        ("/vllm/v1/systemone", errors.InvalidRequest, 400,
         {"error": {"message": SENTENCE, "type": "BadRequestError", "param": "questions.q", "code": 400}}),
        ("/vllm/v1/systemone", errors.ModelNotFound, 404,
         {"error": {"message": SENTENCE, "type": "NotFoundError", "param": None, "code": 404}}),
        ("/vllm/v1/decisions", errors.NotSupported, 501,
         {"error": {"message": SENTENCE, "type": "NotImplementedError", "param": None, "code": 501}}),
        ("/localai/v1/systemone", errors.InvalidRequest, 400,
         {"error": {"message": SENTENCE, "type": "invalid_request"}}),
        ("/requesty/v1/systemone", errors.Busy, 429,
         {"error": {"message": SENTENCE, "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}}),
        ("/requesty/v1/messages", errors.InvalidRequest, 400,
         {"type": "error", "error": {"type": "invalid_request_error", "message": SENTENCE}, "request_id": "req_1"}),
        ("/v1/messages", errors.ModelNotFound, 404,
         {"type": "error", "error": {"type": "not_found_error", "message": SENTENCE}, "request_id": "req_1"}),
        ("/v1/chat/completions", errors.ModelNotFound, 404,
         {"error": {"message": SENTENCE, "type": "invalid_request_error", "param": None, "code": "model_not_found"}}),
        ("/api/alpha/decisions", errors.InvalidRequest, 400, {"error": {"code": 400, "message": SENTENCE}}),
    ],
)  # fmt: skip
def test_error_bodies(path, kind, status, body):
    """Status and body of each contract, field by field."""
    details = {"loc": ["questions", "q"]} if kind is errors.InvalidRequest else {}
    reply = table.dialect_of(path).refuse(kind(SENTENCE, details), "req_1")
    assert (reply.status, reply.body) == (status, body)


@pytest.mark.parametrize("path", list(table.OPERATIONS))
@pytest.mark.parametrize(
    "error",
    [errors.RunnerDied("gone"), errors.Busy("full"), errors.PromptTooLong("long"), errors.NotSupported("no")],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_service_pass_through_every_operation(post, body, openai_body, sglang_body, path, error):
    """What a model or the queue raises comes back in the operation's own dialect."""
    from test_dialects_golden import formats

    post.service.error = error
    if path.endswith("score"):
        request = {"query": [], "items": [[1]], "label_token_ids": [[2]]}
    elif path.endswith("permute"):
        request = {"request": body, "question": "team"}
    elif path == "/sglang/v1/decisions":
        request = sglang_body
    elif path.endswith("v1/decisions"):
        request = openai_body
    else:
        request = next((found for end, found in formats(body).items() if path.endswith(end)), body)
    found = table.OPERATIONS[path]
    dialect = table.OPERATIONS["/openai/v1/decisions"].dialect if isinstance(found, Choose) else found.dialect
    reply, expected = post(path, request), dialect.refuse(error, "req_1")
    assert (reply.status, reply.body, reply.headers) == (expected.status, expected.body, expected.headers)


def test_paths_below_a_prefix_have_its_errors():
    """What a prefix does not serve is refused in the shape that its clients read."""
    assert table.dialect_of("/vllm/v1/models").name == "vllm"
    assert table.dialect_of("/openai/nothing").name == "openai"
    assert table.dialect_of("/v1/nothing").name == "localdecide"
    assert table.dialect_of("/").name == "localdecide"


@pytest.mark.parametrize(
    ("path", "name", "route"),
    [
        ("/v1/systemone", "typesafe", "/typesafe/v1/systemone"),
        ("/v1/decisions", "sglang", "/sglang/v1/decisions"),
        ("/v1/systemone", "localdecide", "/v1/systemone"),
        ("/vllm/v1/systemone", "vllm", "/vllm/v1/systemone"),
        ("/v1/messages", "vllm", None),
        ("/v1/systemone", "klingon", None),
        ("/vllm/v1/systemone", "typesafe", None),
    ],
)
def test_a_dialect_can_be_forced_on_root_paths(path, name, route):
    """The header picks a strict contract where it has the path, and is never ignored."""
    assert table.forced(path, name) == route
