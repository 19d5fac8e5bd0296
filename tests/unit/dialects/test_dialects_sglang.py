"""SGLang's three routes: pins, token ids, replays and refusals."""

from __future__ import annotations

import math

import pytest

DECISIONS = "/sglang/v1/decisions"
SCORE = "/sglang/v1/score"


def ask(**changes):
    return {"input": "s", "questions": [{"id": "a", "type": "yes_no", "question": "?"}], **changes}


def choice(*options):
    return {"questions": [{"id": "a", "type": "choice", "question": "?", "options": list(options)}]}


def test_a_plain_request_leaves_the_model_its_own_reading(post):
    """Nothing pinned: no prompt version, no temperature is asked of the model."""
    assert post(DECISIONS, ask()).status == 200
    options = post.decision.options
    assert (options.prompt, options.temperature, options.token_ids) == (None, None, False)


@pytest.mark.parametrize("pin", [{"prompt_format_version": 1}, {"return_prompt_token_ids": True}])
def test_a_pinned_request_gets_the_published_prompt(post, pin):
    """A version or token ids ask for SGLang's wording at temperature 1."""
    assert post(DECISIONS, ask(**pin)).status == 200
    assert (post.decision.options.prompt, post.decision.options.temperature) == ("sglang/1", 1.0)


def test_token_ids_come_back(post):
    """return_prompt_token_ids adds the prompt's and the labels' ids to each answer."""
    answer = post(DECISIONS, ask(return_prompt_token_ids=True)).body["answers"]["a"]
    assert answer["prompt_token_ids"] == list(range(100, 140))
    assert answer["label_token_ids"] == [0, 1]
    assert post.decision.options.exact is True


def test_temperature_and_template_arguments_reach_the_model(post):
    """Both are options of the decision; an off switch for thinking is no fault."""
    kwargs = {"enable_thinking": False, "tone": "dry"}
    assert post(DECISIONS, ask(temperature=2.5, chat_template_kwargs=kwargs)).status == 200
    assert post.decision.options.temperature == 2.5
    assert dict(post.decision.options.chat_template_kwargs) == kwargs


def test_described_sides(post):
    """yes and no descriptions are the sides of a noul."""
    question = {"id": "a", "type": "yes_no", "question": "?", "yes": {"k": 1}, "no": None}
    assert post(DECISIONS, ask(questions=[question])).status == 200
    (asked,) = post.decision.questions.values()
    assert asked.true == {"k": 1}
    assert asked.false.value == "absent"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"input": " "}, "input: must not be blank"),
        ({"input": None}, "input: is required"),
        ({"input": 5}, "input: must be"),
        ({"extra": 1}, "extra: is not a field"),
        ({"prompt_format_version": 2}, "prompt_format_version 2 is not served, this server uses version 1"),
        ({"prompt_format_version": True}, "prompt_format_version"),
        ({"temperature": 0}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"return_prompt_token_ids": "yes"}, "return_prompt_token_ids"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "thinking turned off"),
        ({"chat_template_kwargs": {"thinking": None}}, "thinking turned off"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"return_prompt_token_ids": True, "images": ["iVBORw0KGgo="]}, "cannot replay image inputs"),
        ({"questions": [{"id": " ", "type": "yes_no", "question": "?"}]}, "questions.0.id: must not be blank"),
        ({"questions": [{"id": "a", "type": "yes_no", "question": "?"}] * 2},
         "question id 'a' repeats another question"),
        ({"questions": [{"id": "a", "type": "yes_no", "question": " "}]}, "questions.0.question: must not be blank"),
        ({"questions": [{"id": "a", "type": "noul", "question": "?"}]}, "questions.0.type"),
        ({"questions": [{"id": "a", "type": "yes_no", "question": "?", "levels": []}]}, "questions.0.levels"),
        ({"questions": [{"id": "a", "type": "score", "question": "?", "levels": ["a", " "]}]}, "questions.0.levels.1"),
        (choice({"name": "A"}, {"name": "a "}),
         "repeats"),
        (choice({"name": "A"}, {"name": "b\u2028"}),
         "line-break"),
        (choice({"name": "A"}, {"name": "b", "x": 1}),
         "questions.0.options.1.x"),
        ({"questions": {}}, "questions: must be an array"),
        ({"questions": []}, "questions"),
    ],
)  # fmt: skip
def test_refusals_of_decisions(post, change, text):
    """A flat 400 that says which field and why."""
    reply = post(DECISIONS, ask(**change))
    assert (reply.status, reply.body["object"], reply.body["code"]) == (400, "error", 400)
    assert text in reply.body["message"]
    assert post.service.calls == []


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"extra": 1}, "Bad Request"),
        ({"input": " "}, "Bad Request"),
        ({"prompt_format_version": 2}, "BadRequestError"),
        ({"chat_template_kwargs": {"enable_thinking": True}}, "BadRequestError"),
        ({"return_prompt_token_ids": True, "images": ["iVBORw0KGgo="]}, "BadRequestError"),
    ],
)
def test_schema_faults_and_refusals_have_types_of_their_own(post, change, kind):
    """A body of the wrong form is a Bad Request; what a right form asks for in vain is a BadRequestError."""
    assert post(DECISIONS, ask(**change)).body["type"] == kind


def test_systemone_refuses_thinking_as_it_refuses_anything_but_a_fault_of_form(post, body):
    """The flat 400, not the 422 of a schema fault."""
    reply = post("/sglang/v1/systemone", {**body, "chat_template_kwargs": {"enable_thinking": True}})
    assert (reply.status, reply.body["object"], reply.body["type"]) == (400, "error", "BadRequestError")


def test_only_json_is_read(post):
    """A body that is not announced as JSON is refused, as a form post from a web page would be."""
    reply = post(DECISIONS, ask(), content_type="text/plain")
    assert reply.status == 400
    assert "application/json" in reply.body["message"]


@pytest.mark.parametrize("name", ["temperature", "prompt_format_version", "return_prompt_token_ids"])
def test_systemone_refuses_the_fields_of_decisions(post, body, name):
    """A value other than null is a 422 that points to the other route."""
    reply = post("/sglang/v1/systemone", {**body, name: 1})
    assert reply.status == 422
    assert reply.body["detail"][0]["msg"] == f"{name} is not part of this API, use /v1/decisions for it"
    assert post("/sglang/v1/systemone", {**body, name: None}).status == 200


def test_systemone_takes_blank_ids(post, body):
    """An empty id is an id there."""
    body["questions"] = {"": {"type": "noul", "instructions": "i"}, " ": {"type": "noul", "instructions": "i"}}
    assert list(post("/sglang/v1/systemone", body).body["answers"]) == ["", " "]


@pytest.mark.parametrize("path", [SCORE, "/v1/score"])
def test_score(post, path):
    """Probabilities of the labels: over the vocabulary, or by softmax at a temperature."""
    request = {"query": [], "items": [[5, 6, 7]], "label_token_ids": [[1, 2]], "return_token_logprobs": True}
    found = post(path, request).body
    assert found == {
        "scores": [[pytest.approx(math.exp(-1)), pytest.approx(math.exp(-2))]],
        "pooled_hidden_states": None,
        "token_logprobs": [[-1.0, -2.0]],
        "model": "m",
        "usage": {"prompt_tokens": 3, "total_tokens": 3, "completion_tokens": 0},
        "object": "scoring",
    }
    soft = post(path, {**request, "apply_softmax": True, "temperature": 2, "return_token_logprobs": False}).body
    assert soft["scores"][0] == [pytest.approx(1 / (1 + math.exp(-0.5))), pytest.approx(1 / (1 + math.exp(0.5)))]
    assert soft["token_logprobs"] is None


def test_score_puts_query_and_item_together(post):
    """In either order, as text or as ids; flat labels serve every item."""
    seen = []
    score = post.service.score

    async def watch(model, request):
        seen.append(request)
        return await score(model, request)

    post.service.score = watch
    post(SCORE, {"query": "q", "items": ["a", "b"], "label_token_ids": [1]})
    post(SCORE, {"query": [1], "items": [[2]], "label_token_ids": [[3]], "item_first": True})
    post(SCORE, {"query": "q", "items": "a", "label_token_ids": [1], "item_first": True})
    assert [request["prompts"] for request in seen] == [["qa", "qb"], [[2, 1]], ["aq"]]
    assert [request["labels"] for request in seen] == [[[1], [1]], [[3]], [[1]]]


@pytest.mark.parametrize(
    "change",
    [
        {"query": 5},
        {"query": "q", "items": [[1]]},
        {"items": []},
        {"items": [[]]},
        {"items": [["x"]]},
        {"items": [[-1]]},
        {"items": [[True]]},
        {"label_token_ids": []},
        {"label_token_ids": [[1], [2]]},
        {"label_token_ids": [[]]},
        {"label_token_ids": 5},
        {"temperature": 2},
        {"temperature": 0, "apply_softmax": True},
        {"apply_softmax": "yes"},
    ],
)
def test_refusals_of_score(post, change):
    """A flat 400 for what cannot be scored."""
    reply = post(SCORE, {"query": [], "items": [[1]], "label_token_ids": [[2]], **change})
    assert (reply.status, reply.body["object"]) == (400, "error")
