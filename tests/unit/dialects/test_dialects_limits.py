"""Limits of every contract, at the limit and one over, and what each does with what it does not know."""

from __future__ import annotations

from typing import Any

import pytest

SYSTEM_ONE = {
    "/v1/systemone": {"questions": (1, 256), "options": (1, 255), "levels": (1, 10), "status": 400},
    "/typesafe/v1/systemone": {"questions": (1, 256), "options": (1, 255), "levels": (1, 10), "status": 422},
    "/ollama/v1/systemone": {"questions": (1, 64), "options": (2, 26), "levels": (2, 10), "status": 400},
    "/sglang/v1/systemone": {"questions": (1, 256), "options": (1, 255), "levels": (1, 10), "status": 422},
    "/vllm/v1/systemone": {"questions": (1, 64), "options": (1, 26), "levels": (2, 10), "status": 400},
    "/localai/v1/systemone": {"questions": (1, 64), "options": (2, 255), "levels": (2, 10), "status": 400},
    "/requesty/v1/systemone": {"questions": (1, 256), "options": (1, 255), "levels": (1, 10), "status": 400},
    "/api/alpha/decisions": {"questions": (1, 256), "options": (1, 255), "levels": (1, 10), "status": 400},
}
LISTS = {
    "/openai/v1/decisions": {"questions": (1, 256), "options": (2, 255), "levels": (2, 10), "status": 400},
    "/vllm/v1/decisions": {"questions": (1, 64), "options": (2, 26), "levels": (2, 10), "status": 400},
}
SGLANG = {"questions": (1, 256), "options": (2, 26), "levels": (2, 10), "status": 400}


def choice(count: int) -> dict[str, Any]:
    return {"type": "choice", "instructions": "i", "criteria": {f"o{index}": None for index in range(count)}}


def score(count: int) -> dict[str, Any]:
    return {"type": "score", "instructions": "i", "criteria": [f"l{index}" for index in range(count)]}


def noul() -> dict[str, Any]:
    return {"type": "noul", "instructions": "i"}


def map_of(what: str, count: int) -> dict[str, Any]:
    """A System One request at a count."""
    if what == "questions":
        questions = {f"q{index}": noul() for index in range(count)}
    else:
        questions = {"q": choice(count) if what == "options" else score(count)}
    return {"model": "m", "state": "s", "questions": questions}


def list_of(what: str, count: int) -> dict[str, Any]:
    """An OpenAI request at a count."""
    one: dict[str, Any] = {"type": "predicate", "instructions": "i"}
    if what == "options":
        one = {"type": "choice", "instructions": "i", "choices": [{"value": f"o{index}"} for index in range(count)]}
    if what == "levels":
        one = {"type": "score", "instructions": "i", "levels": [{"label": f"l{index}"} for index in range(count)]}
    return {"model": "m", "input": "s", "questions": [one] * (count if what == "questions" else 1)}


def sglang_of(what: str, count: int) -> dict[str, Any]:
    """An SGLang request at a count."""
    if what == "questions":
        return {"input": "s", "questions": [{"id": f"q{i}", "type": "yes_no", "question": "?"} for i in range(count)]}
    one: dict[str, Any] = {"id": "q", "type": "choice", "question": "?"}
    if what == "options":
        one["options"] = [{"name": f"o{index}"} for index in range(count)]
    else:
        one |= {"type": "score", "levels": [f"l{index}" for index in range(count)]}
    return {"input": "s", "questions": [one]}


CASES = [
    (path, make, what, limits[what], limits["status"])
    for table, make in ((SYSTEM_ONE, map_of), (LISTS, list_of), ({"/sglang/v1/decisions": SGLANG}, sglang_of))
    for path, limits in table.items()
    for what in ("questions", "options", "levels")
]


@pytest.mark.parametrize(("path", "make", "what", "pair", "status"), CASES, ids=lambda value: str(value)[:30])
def test_at_the_limit_and_one_over(post, path, make, what, pair, status):
    """The least and the most are answered; one less and one more are refused with nothing asked."""
    least, most = pair
    for count in (least, most):
        assert post(path, make(what, count)).status == 200
    asked = len(post.service.calls)
    for count in (least - 1, most + 1):
        assert post(path, make(what, count)).status == status
    assert len(post.service.calls) == asked


def test_a_count_that_the_contract_allows_and_the_server_does_not(post):
    """Both numbers stand in the sentence."""
    reply = post("/openai/v1/decisions", list_of("questions", 300))
    assert reply.status == 400
    assert "allows 400" in reply.body["error"]["message"]
    assert "at most 256" in reply.body["error"]["message"]
    ollama = post("/ollama/v1/systemone", map_of("levels", 12))
    assert "allows 26" in ollama.body["error"]


@pytest.mark.parametrize(
    ("path", "top", "question", "side"),
    [
        ("/v1/systemone", 200, 400, 400),
        ("/typesafe/v1/systemone", 200, 200, 422),
        ("/ollama/v1/systemone", 200, 200, 400),
        ("/sglang/v1/systemone", 200, 422, 422),
        ("/vllm/v1/systemone", 400, 400, 400),
        ("/localai/v1/systemone", 200, 200, 400),
        ("/requesty/v1/systemone", 200, 200, 400),
        ("/api/v1/systemone", 200, 200, 400),
    ],
)
def test_unknown_fields(post, body, path, top, question, side):
    """Each contract ignores or refuses a field it does not know, at the top, in a question, in a noul's sides."""
    assert post(path, {**body, "seed": 7}).status == top
    assert post(path, {**body, "questions": {"q": {**noul(), "extra": 1}}}).status == question
    assert post(path, {**body, "questions": {"q": {**noul(), "criteria": {"ture": "x"}}}}).status == side


@pytest.mark.parametrize(
    ("path", "blank", "null", "number"),
    [
        ("/v1/systemone", 200, 400, 400),
        ("/typesafe/v1/systemone", 200, 422, 422),
        ("/ollama/v1/systemone", 400, 400, 400),
        ("/sglang/v1/systemone", 200, 422, 422),
        ("/vllm/v1/systemone", 200, 200, 200),
        ("/localai/v1/systemone", 400, 400, 400),
        ("/requesty/v1/systemone", 400, 400, 400),
        ("/api/v1/systemone", 200, 400, 400),
    ],
)
def test_states(post, body, path, blank, null, number):
    """Empty, null and number states, each by its contract; a missing one never."""
    for state in ("", {}, []):
        assert post(path, {**body, "state": state}).status == blank
    assert post(path, {**body, "state": None}).status == null
    assert post(path, {**body, "state": 5}).status == number
    missing = {name: value for name, value in body.items() if name != "state"}
    assert post(path, missing).status in (400, 422)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/systemone", 200),
        ("/typesafe/v1/systemone", 200),
        ("/ollama/v1/systemone", 400),
        ("/sglang/v1/systemone", 200),
        ("/vllm/v1/systemone", 200),
        ("/localai/v1/systemone", 200),
        ("/requesty/v1/systemone", 200),
        ("/api/v1/systemone", 200),
    ],
)
def test_six_ways_to_describe_a_noul(post, body, path, status):
    """Absent, null, one side, both, and null sides are answered wherever a noul may be described in part."""
    sides = [None, {"true": "x"}, {"false": "x"}, {"true": "x", "false": "y"}, {"true": None, "false": None}]
    replies = [post(path, {**body, "questions": {"q": {**noul(), "criteria": side}}}).status for side in sides]
    assert replies[1:4] == [200, 200, 200]
    assert (replies[0], replies[4]) == (status, status)
    assert post(path, {**body, "questions": {"q": noul()}}).status == 200
    bare = post(path, {**body, "questions": {"q": {"type": "noul"}}})
    assert bare.status in (400, 422)


@pytest.mark.parametrize(
    "question",
    [
        {"type": "boolean", "instructions": "i"},
        {"instructions": "i"},
        {"type": "box", "instructions": "i"},
        {"type": "choice", "instructions": "i", "criteria": {}},
        {"type": "choice", "instructions": "i", "criteria": ["a", "b"]},
        {"type": "choice", "instructions": "i", "criteria": {"a": 1, "b": 2}},
        {"type": "choice", "instructions": "i", "criteria": {" ": None, "b": None}},
        {"type": "choice", "instructions": "i", "criteria": {"A": None, "a ": None}},
        {"type": "choice", "instructions": "i", "criteria": {"a\n": None, "b": None}},
        {"type": "score", "instructions": "i", "criteria": {"0": "a", "1": "b"}},
        {"type": "score", "instructions": "i", "criteria": ["a", None]},
        {"type": "score", "instructions": "i", "criteria": ["a", " "]},
        {"type": "noul", "instructions": 5},
        [],
        None,
    ],
)
@pytest.mark.parametrize("path", list(SYSTEM_ONE))
def test_bad_questions_are_refused_by_every_contract(post, body, path, question):
    """None of them is answered, none reaches the service, none is a 5xx."""
    reply = post(path, {**body, "questions": {"q": question}})
    assert reply.status == SYSTEM_ONE[path]["status"]
    assert post.service.calls == []


@pytest.mark.parametrize("path", [*SYSTEM_ONE, *LISTS, "/sglang/v1/decisions", "/v1/decisions", "/v1/score"])
@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b'{"a":1,"a":2}', b'{"a":NaN}', b"\xff"])
def test_bodies_that_cannot_be_read(post, path, raw):
    """Broken or ambiguous JSON is a schema fault everywhere."""
    assert post(path, raw).status in (400, 422)


@pytest.mark.parametrize("path", [path for path in SYSTEM_ONE if path not in ("/ollama/v1/systemone",)])
def test_text_over_the_servers_limit(post, body, path):
    """State and questions over LOCALDECIDE_MAX_TEXT are a 413 in every contract."""
    body["state"] = "x" * 3000
    assert post(path, body, max_text=2000).status == 413
    assert post(path, body, max_text=4000).status == 200


def test_ollamas_and_localais_own_text_limits(post, body):
    """64 KiB, whatever the server's limit is; images do not count for Ollama."""
    for path in ("/ollama/v1/systemone", "/localai/v1/systemone"):
        assert post(path, {**body, "state": "x" * 65_000}).status == 200
        assert post(path, {**body, "state": "x" * 66_000}).status == 413


@pytest.mark.parametrize("path", ["/typesafe/v1/systemone", "/sglang/v1/systemone", "/v1/systemone"])
def test_structured_words_are_kept(post, body, path):
    """Objects and arrays as instructions, descriptions and levels reach the service as they were sent."""
    body["questions"] = {
        "q": {"type": "choice", "instructions": {"ask": ["x"]}, "criteria": {"A": {"owns": ["a"]}, "B": ["b"]}},
        "s": {"type": "score", "criteria": [{"level": "ü"}, ["high"]]},
    }
    found = post(path, body).body["answers"]["s"]["legend"]
    asked = post.decision.questions["q"]
    assert asked.instructions == {"ask": ["x"]}
    assert [option.description for option in asked.options] == [{"owns": ["a"]}, ["b"]]
    text = {"0": '{"level":"ü"}', "1": '["high"]'}
    assert found == (text if path == "/v1/systemone" else {"0": {"level": "ü"}, "1": ["high"]})
