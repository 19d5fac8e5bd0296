"""One fixed result in every dialect: P(team) = .9/.1, P(urgent) = .8, P(anger) = .3/.7, mass .95, 120 tokens."""

from __future__ import annotations

import json

import pytest

from localdecide.core.questions import question_to_json
from localdecide.dialects import table
from localdecide.dialects.base import Choose

close = pytest.approx
SYSTEM_ONE_USAGE = {"input_tokens": 120, "output_tokens": 0}
SIX = {
    "input_tokens": 120,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}


def answers(of_choice: float, of_score: float, **more: dict[str, object]) -> dict[str, object]:
    """The three answers in System One form with two confidences, and fields added by question."""
    return {
        "team": {
            "type": "choice",
            "choice": "billing",
            "probabilities": {"billing": 0.9, "sales": 0.1},
            "confidence": close(of_choice, abs=1e-6),
            **more.get("team", {}),
        },
        "urgent": {"type": "noul", "noul": 0.8, **more.get("urgent", {})},
        "anger": {
            "type": "score",
            "score": close(0.7, abs=1e-12),
            "legend": {"0": "calm", "1": "angry"},
            "probabilities": {"0": 0.3, "1": 0.7},
            "confidence": close(of_score, abs=1e-6),
            **more.get("anger", {}),
        },
    }


def without(found: dict[str, object], *names: str) -> dict[str, object]:
    """`found` less what changes from call to call, which must be there."""
    for name in names:
        del found[name]
    return found


def test_typesafe(post, body):
    """Margin and dispersion."""
    found = post("/typesafe/v1/systemone", {**body, "model": "jev-latest"}).body
    assert found == {"model": "m", "answers": answers(0.8, 0.4), "usage": SYSTEM_ONE_USAGE}


def test_a_threshold_keeps_its_meaning(post, body):
    """The same probabilities, each contract's own number: TypeSafe's is the published .978."""
    post.service.readings = {"Which team?": (0.9856, 0.0066, 0.0078)}
    question = {"type": "choice", "instructions": "Which team?", "criteria": {"a": None, "b": None, "c": None}}
    found = {
        path: post(path, {**body, "questions": {"q": question}}).body["answers"]["q"]["confidence"]
        for path in ("/typesafe/v1/systemone", "/v1/systemone", "/vllm/v1/systemone", "/requesty/v1/systemone")
    }
    assert found == {
        "/typesafe/v1/systemone": close(0.978, abs=5e-4),
        "/v1/systemone": close(0.9225, abs=5e-4),
        "/vllm/v1/systemone": close(0.9856 * 0.95),
        "/requesty/v1/systemone": close(0.9856),
    }


def test_ollama(post, body):
    """Entropy; the model as it was sent."""
    found = post("/ollama/v1/systemone", body).body
    assert found == {"model": "m", "answers": answers(0.531004, 0.118709), "usage": SYSTEM_ONE_USAGE}


def test_vllm_systemone(post, body):
    """Top probability times mass, on a yes or no too; one output token a read; diagnostics."""
    found = post("/vllm/v1/systemone", body).body
    assert found["id"].startswith("decision-")
    assert isinstance(found["created"], int)
    noul = {"probabilities": {"yes": 0.8, "no": 0.2}, "confidence": close(0.76)}
    assert without(found, "id", "created") == {
        "object": "structured_decision",
        "model": "m",
        "answers": answers(0.855, 0.665, urgent=noul),
        "usage": {"input_tokens": 120, "output_tokens": 3},
        "diagnostics": {key: {"label_mass": 0.95, "argmax_is_label": True} for key in ("team", "urgent", "anger")},
    }


def test_vllm_systemone_of_a_head(post, body):
    """Without labels the mass is 1 and no token is generated."""
    post.service.label_mass = None
    found = post("/vllm/v1/systemone", body).body
    assert found["usage"]["output_tokens"] == 0
    assert found["diagnostics"]["team"] == {"label_mass": 1.0, "argmax_is_label": True}
    assert found["answers"]["team"]["confidence"] == 0.9


def test_sglang_systemone(post, body):
    """TypeSafe's confidence with label masses beside it; any model name is answered by the served one."""
    mass = {"x_label_mass": 0.95}
    found = post("/sglang/v1/systemone", {**body, "model": "anything"}).body
    expected = answers(0.8, 0.4, team=mass, urgent=mass, anger=mass)
    assert found == {"model": "m", "answers": expected, "usage": SYSTEM_ONE_USAGE}


def test_sglang_decisions(post, sglang_body):
    """Probabilities and label masses by id, no confidence."""
    assert post("/sglang/v1/decisions", sglang_body).body == {
        "object": "decisions",
        "model": "default",
        "prompt_format_version": 1,
        "answers": {
            "team": {
                "type": "choice",
                "probabilities": {"billing": 0.9, "sales": 0.1},
                "label_mass": 0.95,
                "choice": "billing",
            },
            "urgent": {"type": "yes_no", "probabilities": {"yes": 0.8, "no": 0.2}, "label_mass": 0.95},
            "anger": {"type": "score", "probabilities": {"0": 0.3, "1": 0.7}, "label_mass": 0.95, "score": close(0.7)},
        },
        "usage": {"prompt_tokens": 120, "total_tokens": 120, "completion_tokens": 0, "reasoning_tokens": 0},
    }


def openai_answers(team: float, anger: float) -> list[dict[str, object]]:
    """The three answers as a list."""
    return [
        {
            "type": "choice",
            "name": "team",
            "choice": "billing",
            "confidence": close(team),
            "probabilities": [{"value": "billing", "probability": 0.9}, {"value": "sales", "probability": 0.1}],
        },
        {"type": "predicate", "name": "urgent", "probability": 0.8},
        {
            "type": "score",
            "name": "anger",
            "score": close(0.7),
            "confidence": close(anger),
            "probabilities": [
                {"value": 0, "label": "calm", "probability": 0.3},
                {"value": 1, "label": "angry", "probability": 0.7},
            ],
        },
    ]


def test_openai(post, openai_body):
    """The top probability, and six integers of usage."""
    found = post("/openai/v1/decisions", openai_body).body
    assert found == {"model": "m", "answers": openai_answers(0.9, 0.7), "usage": SIX}


def test_vllm_decisions(post, openai_body):
    """OpenAI's body with vLLM's confidence and output tokens."""
    found = post("/vllm/v1/decisions", openai_body).body
    usage = {**SIX, "output_tokens": 3, "total_tokens": 123}
    assert found == {"model": "m", "answers": openai_answers(0.855, 0.665), "usage": usage}


def test_localai(post, body):
    """Range dispersion for a score, and the latency."""
    found = post("/localai/v1/systemone", body).body
    assert found["latency_ms"] > 0
    expected = {"model": "m", "answers": answers(0.8, 0.7), "usage": SYSTEM_ONE_USAGE}
    assert without(found, "latency_ms") == expected


def test_localai_separate(post, body):
    """One pass a question: the same answers, the tokens of three passes."""
    found = post("/localai/v1/systemone/separate", body).body
    assert found["answers"] == answers(0.8, 0.7)
    assert found["usage"] == {"input_tokens": 360, "output_tokens": 0}
    assert [list(call[1].questions) for call in post.service.calls] == [["team"], ["urgent"], ["anger"]]


def test_localai_permute(post, body):
    """The given order first, then shuffles; the spread is the widest move of each option."""
    del post.service.readings["Which team?"]
    seen = iter([(0.9, 0.1), (0.14, 0.86)])
    post.service.probabilities = lambda state, question: next(seen)
    request = {"request": body, "question": "team", "n_perm": 2, "seed": 1}
    found = post("/localai/v1/systemone/permute", request).body
    second = found["runs"][1]["order"]
    moved = {"billing": 0.14, "sales": 0.86} if second == ["billing", "sales"] else {"sales": 0.14, "billing": 0.86}
    assert [without(run, "latency_ms") for run in found["runs"]] == [
        {"order": ["billing", "sales"], "probabilities": {"billing": 0.9, "sales": 0.1}, "choice": "billing"},
        {"order": second, "probabilities": moved, "choice": max(moved, key=moved.__getitem__)},
    ]
    assert found["argmax_stable"] == (moved["billing"] > 0.5)
    assert found["spread"] == {name: close(abs(moved[name] - p)) for name, p in (("billing", 0.9), ("sales", 0.1))}


def test_requesty_systemone(post, body):
    """The provider is cut off; confidence is the top probability, a score the chosen index."""
    found = post("/requesty/v1/systemone", {**body, "model": "local/m"}).body
    assert found["id"].startswith("rqsty-dcsn-")
    assert without(found, "id") == {
        "answers": answers(0.9, 0.7, anger={"score": 1}),
        "model": "m",
        "provider": "local",
        "usage": SYSTEM_ONE_USAGE,
    }


def formats(body: dict[str, object]) -> dict[str, dict[str, object]]:
    """The request in the three chat APIs."""
    wanted = {"type": "questions", "questions": body["questions"]}
    messages = [{"role": "user", "content": "Charged twice"}]
    return {
        "chat/completions": {"model": "m", "messages": messages, "response_format": wanted},
        "messages": {"model": "m", "max_tokens": 64, "messages": messages, "output_config": {"format": wanted}},
        "responses": {"model": "m", "input": "Charged twice", "text": {"format": wanted}},
    }


def test_requesty_chat(post, body):
    """A chat completion whose content is the answers' JSON."""
    found = post("/requesty/v1/chat/completions", formats(body)["chat/completions"]).body
    content = json.loads(found["choices"][0]["message"].pop("content"))
    assert content == answers(0.9, 0.7, anger={"score": 1})
    assert found["id"].startswith("req_")
    assert without(found, "id", "created") == {
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant"}}],
        "usage": {"prompt_tokens": 120, "completion_tokens": 0, "total_tokens": 120},
    }


def test_requesty_messages(post, body):
    """A message whose text is the answers' JSON."""
    found = post("/requesty/v1/messages", formats(body)["messages"]).body
    assert json.loads(found["content"][0].pop("text")) == answers(0.9, 0.7, anger={"score": 1})
    assert without(found, "id") == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": SYSTEM_ONE_USAGE,
    }


def test_requesty_responses(post, body):
    """A response whose output text is the answers' JSON."""
    found = post("/requesty/v1/responses", formats(body)["responses"]).body
    part = found["output"][0]["content"][0]
    assert json.loads(part.pop("text")) == answers(0.9, 0.7, anger={"score": 1})
    assert part == {"type": "output_text", "annotations": []}
    assert (found["object"], found["status"], found["output"][0]["role"]) == ("response", "completed", "assistant")
    assert (found["parallel_tool_calls"], found["tool_choice"], found["tools"]) == (False, "auto", [])
    assert found["usage"] == {**SIX, "input_tokens_details": {"cached_tokens": 0}}


@pytest.mark.parametrize("end", ["chat/completions", "messages", "responses"])
def test_the_formats_at_the_root_give_the_mean(post, body, end):
    """Off the strict prefix a score is the expected level, as on every other route."""
    text = json.dumps(post(f"/v1/{end}", formats(body)[end]).body)
    assert r"\"score\":0.7" in text


@pytest.mark.parametrize("path", ["/api/alpha/decisions", "/api/v1/systemone"])
def test_openrouter(post, body, path):
    """TypeSafe's answers in OpenRouter's envelope."""
    found = post(path, {**body, "model": "local/m"}).body
    assert found["id"].startswith("gen-dec-")
    assert without(found, "id") == {
        "model": "local/m",
        "provider": "local",
        "answers": answers(0.8, 0.4),
        "usage": {**SYSTEM_ONE_USAGE, "cost": 0},
    }


def test_the_same_decision_reaches_the_service_from_every_dialect(post, body, openai_body, sglang_body):
    """Whatever the contract, state and questions are equal, so the probabilities are, to the last bit."""
    requests = {path: body for path in table.OPERATIONS if path.endswith("systemone")}
    requests["/api/alpha/decisions"] = body
    requests |= dict.fromkeys(("/openai/v1/decisions", "/vllm/v1/decisions", "/v1/decisions"), openai_body)
    requests["/sglang/v1/decisions"] = sglang_body
    requests |= {path: formats(body)[end] for path in table.OPERATIONS for end in formats(body) if path.endswith(end)}
    asked = {}
    for path, request in requests.items():
        assert post(path, request).status == 200
        decision = post.decision
        asked[path] = (
            decision.state,
            [question_to_json(question) for question in decision.questions.values()],
            decision.options,
            decision.images,
        )
    assert all(found == asked["/v1/systemone"] for found in asked.values())
    covered = set(requests) | {"/v1/score", "/sglang/v1/score"}
    assert {path for path in table.OPERATIONS if not path.endswith(("permute", "separate"))} == covered
    assert isinstance(table.OPERATIONS["/v1/decisions"], Choose)
