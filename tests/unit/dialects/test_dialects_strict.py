"""What is peculiar to single contracts: Ollama's sentences, LocalAI's routes, Requesty's formats, vLLM's fields."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
BASE64 = base64.b64encode(PNG).decode()
NOUL = {"type": "noul", "instructions": "i"}
OLLAMA = "/ollama/v1/systemone"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"model": ""}, "model is required"),
        ({"model": None}, "model is required"),
        ({"model": "x:cloud"}, "System One requires a local decision model"),
        ({"videos": ["x"]}, "video inputs are not supported"),
        ({"questions": {}}, "questions must contain 1–64 fields"),
        ({"state": 5}, "state: must be a string, object, or array"),
        ({"state": " "}, "state must not be empty"),
        ({"images": [""]}, "image 1 must not be empty"),
        ({"keep_alive": "-1"}, 'time: missing unit in duration "-1"'),
        ({"keep_alive": "3600"}, 'time: missing unit in duration "3600"'),
        ({"questions": {" ": NOUL}}, 'question " ": field name must not be empty'),
        ({"questions": {"q": {"type": "noul"}}},
         'question "q": instructions must be a nonempty string, object, or array'),
        ({"questions": {"q": {**NOUL, "criteria": None}}},
         'question "q": noul criteria must be an object of true/false descriptions'),
        ({"questions": {"q": {**NOUL, "criteria": {"true": None}}}}, 'question "q": noul descriptions must be strings'),
        ({"questions": {"q": {**NOUL, "criteria": {"yes": "x"}}}}, 'question "q": unknown noul criterion "yes"'),
        ({"questions": {"q": {"type": "choice", "instructions": "i", "criteria": []}}},
         'question "q": choice criteria must map option keys to descriptions or null'),
        ({"questions": {"q": {"type": "choice", "instructions": "i", "criteria": {" ": "x", "b": "y"}}}},
         'question "q": choice keys must not be empty'),
        ({"questions": {"q": {"type": "choice", "instructions": "i", "criteria": {"a": "x"}}}},
         'question "q": criteria must contain 2–26 candidates'),
        ({"questions": {"q": {"type": "score", "instructions": "i", "criteria": {}}}},
         'question "q": score criteria must be an array of descriptions'),
        ({"questions": {"q": {"type": "score", "instructions": "i", "criteria": ["a", None]}}},
         'question "q": score descriptions must be strings'),
        ({"questions": {"q": {"type": "x", "instructions": "i"}}}, 'question "q": type must be choice, noul, or score'),
        ({"questions": {"a\nb": {"type": "choice", "instructions": "i", "criteria": {"x\n": "x", "b": "y"}}}},
         "question \"a\nb\": criteria: option name 'x\\n' has a control or line-break character"),
    ],
)  # fmt: skip
def test_ollamas_sentences(post, body, change, text):
    """The texts that Ollama's users know, with its status."""
    reply = post(OLLAMA, {**body, **change})
    assert (reply.status, reply.body) == (400, {"error": text})
    assert post.service.calls == []


@pytest.mark.parametrize(
    ("value", "seconds"), [(0, 0), ("0", 0), (90.5, 90.5), ("5m", 300), (-1, float("inf")), ("-1s", float("inf"))]
)
def test_ollamas_keep_alive(post, body, value, seconds):
    """Numbers are seconds, strings are Go durations."""
    assert post(OLLAMA, {**body, "keep_alive": value}).status == 200
    assert post.service.calls[0][2].seconds == seconds


def test_ollama_images_are_base64_alone(post, body):
    """Base64 is read; a data URL is not."""
    assert post(OLLAMA, {**body, "images": [BASE64]}).status == 200
    assert post.decision.images == (PNG,)
    assert post(OLLAMA, {**body, "images": [f"data:image/png;base64,{BASE64}"]}).status == 400


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"questions": {"x": {**NOUL, "foo": 1}}}, "question 'x': unknown field(s) ['foo']"),
        ({"seed": 1}, "seed: is not a field of this request"),
        ({"joint": True}, "joint"),
        ({"joint": "yes"}, "joint"),
        ({"priority": "high"}, "priority"),
        ({"cache_salt": 5}, "cache_salt"),
        ({"audio": ["x"]}, "audio: is not supported"),
        ({"videos": ["x"]}, "videos: is not supported"),
        ({"images": ["https://example.com/a.png"]}, "images.0"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "thinking must be off"),
        ({"instructions": ["x"]}, "instructions: must be a string"),
    ],
)
def test_vllm_refusals(post, body, change, text):
    """vLLM's own 400s."""
    reply = post("/vllm/v1/systemone", {**body, **change})
    assert reply.status == 400
    assert text in reply.body["error"]["message"]


def test_vllm_fields_that_work(post, body):
    """Instructions become the system message; an id is the id; a salt and a priority change nothing."""
    extra = {"instructions": "Be strict.", "request_id": "r1", "cache_salt": "s", "priority": 3, "joint": False}
    found = post("/vllm/v1/systemone", {**body, **extra, "state": {"a": 1}}).body
    assert found["id"] == "decision-r1"
    assert post.decision.options.system == "Be strict."
    assert post.decision.state == {"a": 1}


@pytest.mark.parametrize("prefix", ["", "/localai"])
def test_permute_is_repeatable_and_seeded(post, body, prefix):
    """The same seed gives the same orders, the first is the given one, only the one question is asked."""
    body["questions"]["team"]["criteria"] = {f"o{index}": None for index in range(5)}
    body["questions"]["team"]["instructions"] = "computed"
    path = f"{prefix}/v1/systemone/permute"

    def orders(**more):
        return [run["order"] for run in post(path, {"request": body, "question": "team", **more}).body["runs"]]

    assert orders()[0] == [f"o{index}" for index in range(5)]
    assert len(orders()) == 6
    assert orders(seed=3) == orders(seed=3)
    assert orders(seed=3) != orders(seed=4)
    assert all(sorted(order) == sorted(orders()[0]) for order in orders(n_perm=10))
    assert {tuple(call[1].questions) for call in post.service.calls} == {("team",)}
    found = post(path, {"request": body, "question": "team"}).body
    assert found["argmax_stable"] is True
    assert set(found["spread"].values()) == {0.0}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"request": None}, "request"),
        ({"question": None}, "question is required"),
        ({"question": "urgent"}, "question must be a choice question"),
        ({"question": "nope"}, "question must be a choice question"),
        ({"n_perm": 0}, "n_perm"),
        ({"n_perm": 65}, "n_perm"),
        ({"n_perm": "6"}, "n_perm"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_permute_refusals(post, body, change, text):
    """LocalAI's texts in its error object, and the same text as the root's string."""
    request = {"request": body, "question": "team", **change}
    assert text in post("/localai/v1/systemone/permute", request).body["error"]["message"]
    reply = post("/v1/systemone/permute", request)
    assert reply.status == 400
    assert text in reply.body["error"]


def test_separate_at_the_root(post, body):
    """The root's answers, one pass a question."""
    together, apart = post("/v1/systemone", body).body, post("/v1/systemone/separate", body).body
    assert apart["answers"] == together["answers"]
    assert apart["usage"]["input_tokens"] == 3 * together["usage"]["input_tokens"]
    assert len(post.service.calls) == 4


def test_localai_peculiarities(post, body):
    """`instr` is instructions; threshold and keep_alive are taken; structured words are not; model is needed."""
    extra = {"threshold": 0.5, "max_width": 3, "keep_alive": "garbage", "x": 1}
    reply = post("/localai/v1/systemone", {**body, **extra, "questions": {"q": {"type": "noul", "instr": "i"}}})
    assert reply.status == 200
    assert post.decision.questions["q"].instructions == "i"
    structured = {"q": {"type": "noul", "instructions": {"a": 1}}}
    assert post("/localai/v1/systemone", {**body, "questions": structured}).status == 400
    reply = post("/localai/v1/systemone", {**body, "model": ""})
    assert reply.body == {"error": {"message": "model is required", "type": "invalid_request"}}


@pytest.mark.parametrize("prefix", ["", "/requesty"])
def test_formats_join_user_messages(post, prefix):
    """Several user messages and text parts are one state, joined by blank lines; an image part is an image."""
    wanted = {"type": "questions", "questions": {"q": NOUL}}
    url = f"data:image/png;base64,{BASE64}"
    chat = {
        "model": "m",
        "temperature": 0,
        "messages": [
            {"role": "user", "content": "a"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "b"}, {"type": "image_url", "image_url": {"url": url}}],
            },
        ],
        "response_format": wanted,
    }
    assert post(f"{prefix}/v1/chat/completions", chat).status == 200
    assert (post.decision.state, post.decision.images) == ("a\n\nb", (PNG,))
    source = {"type": "base64", "media_type": "image/png", "data": BASE64}
    blocks = [{"type": "text", "text": "a"}, {"type": "image", "source": source}]
    messages = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": blocks}],
        "output_config": {"format": wanted},
    }
    assert post(f"{prefix}/v1/messages", messages).status == 200
    assert (post.decision.state, post.decision.images) == ("a", (PNG,))
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": url}]
    responses = {"model": "m", "input": [{"role": "user", "content": parts}], "text": {"format": wanted}}
    assert post(f"{prefix}/v1/responses", responses).status == 200
    assert (post.decision.state, post.decision.images) == ("a", (PNG,))


WANTED = {"type": "questions", "questions": {"q": NOUL}}
USER = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    "change",
    [
        {"stream": True},
        {"tools": [{"type": "function"}]},
        {"messages": []},
        {"messages": None},
        {"messages": [{"role": "system", "content": "s"}, *USER]},
        {"messages": [*USER, {"role": "assistant", "content": "x"}]},
        {"messages": [{"role": "tool", "content": "x"}]},
        {"messages": [{"role": "user", "content": " "}]},
        {"messages": [{"role": "user", "content": [{"type": "file"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://e.com/a"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": BASE64}}] * 5}]},
        {"response_format": None},
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "questions"}},
        {"response_format": {"type": "questions", "questions": {}}},
        {"model": None},
    ],
)
def test_formats_refusals(post, change):
    """What a decision model cannot do through a chat API is a 400 in OpenAI's form."""
    reply = post("/requesty/v1/chat/completions", {"model": "m", "messages": USER, "response_format": WANTED, **change})
    assert reply.status == 400
    assert reply.body["error"]["type"] == "invalid_request_error"
    assert post.service.calls == []


def test_formats_refusals_of_the_other_apis(post):
    """A system prompt and previous responses have no place either; each API has its own error."""
    messages = {"model": "m", "messages": USER, "system": "s", "output_config": {"format": WANTED}}
    assert post("/v1/messages", messages).body["type"] == "error"
    responses = {"model": "m", "input": "s", "text": {"format": WANTED}, "instructions": "i"}
    assert post("/v1/responses", responses).body["error"]["param"] == "instructions"
    plain = {"model": "m", "input": "s", "text": {"format": {"type": "text"}}}
    assert "typed questions" in post("/v1/responses", plain).body["error"]["message"]
    assert post("/v1/messages", {"model": "m", "messages": USER}).status == 400


def test_requesty_refusal_answers(post, body):
    """A question without a reading is a refusal here and an error where the contract has no word for it."""
    decide = post.service.decide

    async def partial(*args):
        result = await decide(*args)
        return replace(result, readings={key: found for key, found in result.readings.items() if key != "team"})

    post.service.decide = partial
    answers = post("/requesty/v1/systemone", body).body["answers"]
    assert answers["team"] == {"type": "refusal"}
    assert answers["urgent"]["noul"] == 0.8
    assert post("/v1/systemone", body).status == 500


@pytest.mark.parametrize(
    ("sent", "served", "provider"),
    [
        ("m", "m", "local"),
        ("typesafe/m", "m", "typesafe"),
        ("typesafe/jev-latest", "m", "typesafe"),
        ("a/b", "a/b", "a"),
    ],
)
def test_requesty_providers(post, body, sent, served, provider):
    """A provider is cut off unless the whole name is a model's; the default is named jev-latest."""
    post.service.names = ["m", "a/b"]
    found = post("/requesty/v1/systemone", {**body, "model": sent}).body
    assert (found["model"], found["provider"]) == (served, provider)


def test_requesty_unknown_model(post, body):
    """The 404 names the model as it was sent."""
    reply = post("/requesty/v1/systemone", {**body, "model": "x/nope"})
    assert reply.status == 404
    assert "x/nope" in reply.body["error"]["message"]
