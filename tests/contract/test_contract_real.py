"""The default model behind every contract: the same numbers to the last bit, and a replay by token ids."""

from __future__ import annotations

import json
import math
import urllib.request
from typing import Any

import pytest

pytestmark = pytest.mark.contract

STATE = "I was charged twice. Refund me today."
MAP = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "payments", "technical": "bugs"}},
    "urgent": {"type": "noul", "instructions": "The customer needs an answer today."},
    "tone": {"type": "score", "instructions": "How upset is the customer?", "criteria": ["calm", "annoyed", "furious"]},
}
OPENAI = [
    {
        "type": "choice",
        "name": "team",
        "instructions": "Which team?",
        "choices": [{"value": "billing", "description": "payments"}, {"value": "technical", "description": "bugs"}],
    },
    {"type": "predicate", "name": "urgent", "instructions": "The customer needs an answer today."},
    {
        "type": "score",
        "name": "tone",
        "instructions": "How upset is the customer?",
        "levels": [{"label": "calm"}, {"label": "annoyed"}, {"label": "furious"}],
    },
]
SGLANG = [
    {
        "id": "team",
        "type": "choice",
        "question": "Which team?",
        "options": [{"name": "billing", "description": "payments"}, {"name": "technical", "description": "bugs"}],
    },
    {"id": "urgent", "type": "yes_no", "question": "The customer needs an answer today."},
    {"id": "tone", "type": "score", "question": "How upset is the customer?", "levels": ["calm", "annoyed", "furious"]},
]
SYSTEM_ONE = [
    "/v1/systemone",
    "/v1/decisions",
    "/typesafe/v1/systemone",
    "/ollama/v1/systemone",
    "/sglang/v1/systemone",
    "/vllm/v1/systemone",
    "/localai/v1/systemone",
    "/requesty/v1/systemone",
    "/api/alpha/decisions",
    "/api/v1/systemone",
]


def post(url: str, body: dict[str, Any]) -> dict[str, Any]:
    """The JSON reply of a POST that succeeds."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as reply:
        found: dict[str, Any] = json.load(reply)
        return found


def of_map(answers: dict[str, Any]) -> list[list[float]]:
    """Probabilities in a fixed order from answers by id."""
    return [
        list(answers["team"]["probabilities"].values()),
        [answers["urgent"]["noul"]],
        list(answers["tone"]["probabilities"].values()),
    ]


def of_list(answers: list[dict[str, Any]]) -> list[list[float]]:
    """The same from OpenAI's answers."""
    team, urgent, tone = answers
    return [
        [item["probability"] for item in team["probabilities"]],
        [urgent["probability"]],
        [item["probability"] for item in tone["probabilities"]],
    ]


def test_every_contract_gives_the_same_probabilities(open_daemon):
    """Ten System One paths, three lists and three chat APIs: one set of numbers, bit for bit."""
    found = {path: of_map(post(open_daemon + path, {"model": "smollm2", "state": STATE, "questions": MAP})["answers"])
             for path in SYSTEM_ONE}  # fmt: skip
    for path in ("/openai/v1/decisions", "/vllm/v1/decisions"):
        body = {"model": "smollm2", "input": STATE, "questions": OPENAI}
        found[path] = of_list(post(open_daemon + path, body)["answers"])
    sglang = post(f"{open_daemon}/sglang/v1/decisions", {"input": STATE, "questions": SGLANG})["answers"]
    sglang["urgent"]["noul"] = sglang["urgent"]["probabilities"]["yes"]
    found["/sglang/v1/decisions"] = of_map(sglang)
    wanted = {"type": "questions", "questions": MAP}
    user = [{"role": "user", "content": STATE}]
    chat = post(f"{open_daemon}/v1/chat/completions", {"model": "smollm2", "messages": user, "response_format": wanted})
    found["chat"] = of_map(json.loads(chat["choices"][0]["message"]["content"]))
    body = {"model": "smollm2", "max_tokens": 9, "messages": user, "output_config": {"format": wanted}}
    found["messages"] = of_map(json.loads(post(f"{open_daemon}/v1/messages", body)["content"][0]["text"]))
    body = {"model": "smollm2", "input": STATE, "text": {"format": wanted}}
    found["responses"] = of_map(
        json.loads(post(f"{open_daemon}/v1/responses", body)["output"][0]["content"][0]["text"])
    )
    first = found["/v1/systemone"]
    assert {path: numbers for path, numbers in found.items() if numbers != first} == {}


@pytest.mark.parametrize("prefix", ["", "/localai"])
def test_permute_and_separate_of_a_plain_model(open_daemon, prefix):
    """A question in a pass of its own, and a choice in its given order, have its numbers alone."""
    base, body = f"{open_daemon}{prefix}/v1/systemone", {"model": "smollm2", "state": STATE}
    alone = {key: post(base, {**body, "questions": {key: MAP[key]}})["answers"][key] for key in MAP}
    apart = post(f"{base}/separate", {**body, "questions": MAP})["answers"]
    asked = {"request": {**body, "questions": MAP}, "question": "team", "n_perm": 3, "seed": 1}
    runs = post(f"{base}/permute", asked)["runs"]
    assert of_map(apart) == of_map(alone)
    assert runs[0]["probabilities"] == alone["team"]["probabilities"]
    assert [sorted(run["order"]) for run in runs] == [sorted(MAP["team"]["criteria"])] * 3


@pytest.mark.parametrize("temperature", [None, 2.5])
def test_a_decision_replays_through_score(open_daemon, temperature):
    """The ids of a pinned decision, scored at the same temperature, give the same probabilities."""
    body: dict[str, Any] = {
        "input": STATE,
        "questions": SGLANG,
        "prompt_format_version": 1,
        "return_prompt_token_ids": True,
    }
    if temperature is not None:
        body["temperature"] = temperature
    answers = post(f"{open_daemon}/sglang/v1/decisions", body)["answers"]
    replay: dict[str, Any] = {
        "query": [],
        "items": [answer["prompt_token_ids"] for answer in answers.values()],
        "label_token_ids": [answer["label_token_ids"] for answer in answers.values()],
        "apply_softmax": True,
        "temperature": temperature or 1,
        "return_token_logprobs": True,
    }
    found = post(f"{open_daemon}/v1/score", replay)
    for answer, scores, logprobs in zip(answers.values(), found["scores"], found["token_logprobs"], strict=True):
        assert scores == pytest.approx(list(answer["probabilities"].values()), abs=1e-12)
        assert math.fsum(map(math.exp, logprobs)) == pytest.approx(answer["label_mass"], abs=1e-6)
