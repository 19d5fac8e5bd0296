"""`/v1/decisions` at the root: whose contract a body is, decided by its shape."""

from __future__ import annotations

import pytest

from localdecide.dialects import decisions
from localdecide.dialects.base import Incoming


def test_the_three_shapes(post, body, openai_body, sglang_body):
    """A map is TypeSafe's, a list with ids SGLang's, a list with instructions OpenAI's."""
    typesafe = post("/v1/decisions", body).body["answers"]
    assert typesafe["team"]["confidence"] == pytest.approx(0.8)
    assert post("/v1/decisions", sglang_body).body["object"] == "decisions"
    assert post("/v1/decisions", openai_body).body["answers"][0]["name"] == "team"


@pytest.mark.parametrize(
    ("change", "dialect"),
    [
        ({"questions": [{"type": "yes_no"}]}, "sglang"),
        ({"questions": [{"type": "score", "levels": ["a", "b"]}]}, "sglang"),
        ({"questions": [{"type": "score", "levels": [{"label": "a"}]}]}, "openai"),
        ({"questions": [{"type": "predicate"}], "temperature": 1}, "sglang"),
        ({"questions": [{"type": "predicate"}], "prompt_format_version": 1}, "sglang"),
        ({"questions": [{"type": "predicate"}], "return_prompt_token_ids": True}, "sglang"),
        ({"questions": [{"type": "predicate"}], "chat_template_kwargs": {}}, "sglang"),
        ({"questions": [{"id": 5}]}, "sglang"),
        ({"questions": [{}]}, "openai"),
        ({"questions": []}, "openai"),
        ({"questions": [], "temperature": 1}, "openai"),
        ({"questions": {}, "state": "s"}, "typesafe"),
    ],
)
def test_one_mark_decides(change, dialect):
    """The dialect follows from the shape alone, before anything is validated."""
    import json

    raw = json.dumps({"input": "s", **change} if "state" not in change else change).encode()
    assert decisions.pick(Incoming(raw, "application/json")).dialect.name == dialect


@pytest.mark.parametrize(
    "request_body",
    [
        {"input": "s", "questions": {"q": {"type": "noul"}}},
        {"input": "s", "state": "s", "questions": []},
        {"state": "s", "questions": []},
        {
            "input": "s",
            "questions": [{"id": "a", "type": "yes_no", "question": "?"}, {"type": "predicate", "name": "b"}],
        },
        {"input": "s", "questions": [{"id": "a", "instructions": "i", "type": "choice"}]},
        {"input": "s"},
        {},
    ],
)
def test_no_shape_and_two_shapes(post, request_body):
    """What fits none, or two at once, is a 400 in OpenAI's form that names the three."""
    reply = post("/v1/decisions", request_body)
    assert reply.status == 400
    for word in ("TypeSafe", "SGLang", "OpenAI"):
        assert word in reply.body["error"]["message"]


def test_a_fault_never_falls_into_another_reading(post, body, openai_body, sglang_body):
    """An invalid body is refused by the contract that its shape chose, in its words."""
    assert post("/v1/decisions", {**body, "questions": {}}).status == 422
    wrong = {**sglang_body, "input": " "}
    assert post("/v1/decisions", wrong).body["object"] == "error"
    assert post("/v1/decisions", {**openai_body, "stream": True}).body["error"]["param"] == "stream"
    assert post.service.calls == []
