"""Each client of the field, as it comes from its registry, reads localdecide's answers and errors."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.contract
close = pytest.approx
TEAM = {"billing": 0.9, "sales": 0.1}
LEGEND = {"0": "calm", "1": "angry"}


def three(team: float, anger: float, **urgent: object) -> dict[str, object]:
    """The three answers in System One form with two confidences."""
    return {
        "team": {"type": "choice", "choice": "billing", "probabilities": TEAM, "confidence": close(team, abs=1e-6)},
        "urgent": {"type": "noul", "noul": 0.8, **urgent},
        "anger": {
            "type": "score",
            "score": close(0.7),
            "legend": LEGEND,
            "probabilities": {"0": 0.3, "1": 0.7},
            "confidence": close(anger, abs=1e-6),
        },
    }


def listed() -> list[dict[str, object]]:
    """The three answers as OpenAI's list."""
    return [
        {
            "type": "choice",
            "name": "team",
            "choice": "billing",
            "confidence": close(0.9),
            "probabilities": [{"value": "billing", "probability": 0.9}, {"value": "sales", "probability": 0.1}],
        },
        {"type": "predicate", "name": "urgent", "probability": 0.8},
        {
            "type": "score",
            "name": "anger",
            "score": close(0.7),
            "confidence": close(0.7),
            "probabilities": [
                {"value": 0, "label": "calm", "probability": 0.3},
                {"value": 1, "label": "angry", "probability": 0.7},
            ],
        },
    ]


def less_ours(answers: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Answers without the root's own fields."""
    return {
        key: {name: value for name, value in answer.items() if not name.startswith("x_")}
        for key, answer in answers.items()
    }


def test_typesafe_sdk(client, fake):
    """typesafe-sdk, Python: every type, zstd, multipart images, models, request ids, errors."""
    found = client("typesafe", "typesafe_client.py", f"{fake}/typesafe")
    assert found["team"] == ["billing", close(0.8), TEAM]
    assert found["urgent"] == 0.8
    assert found["anger"] == [close(0.7), close(0.4), LEGEND]
    assert (found["usage"], found["model"], found["request_id"]) == ([120, 0], "m", True)
    assert (found["large"], found["compressed"]) == ("billing", "zstd")
    assert (found["assets"], found["assets_team"]) == ("multipart/form-data", "billing")
    assert (found["extra_body"], found["models"]) == ("m", ["m", "n"])
    assert found["not_found"][0] == "TypeSafeNotFoundError"
    assert "model 'nope' not found" in found["not_found"][1]
    assert found["invalid"][0] == "TypeSafeUnprocessableEntityError"
    assert "questions" in found["invalid"][1]
    assert found["box"][0] == "TypeSafeUnprocessableEntityError"


def test_openai_sdk(client, fake):
    """openai, Python: decisions with boolean values, the tool runner, errors, chat and responses."""
    found = client("openai3", "openai_client.py", fake)
    assert found["team"] == ["team", True, close(0.9), [True, "sales"]]
    assert found["urgent"] == [None, 0.8]
    assert found["anger"] == [close(0.7), close(0.7), ["calm", "angry"]]
    assert (found["usage"], found["request_id"]) == ([120, 0, 0, 0, 0, 120], True)
    assert found["runner"] == ["unverified", 1]
    assert found["bad"][:3] == ["BadRequestError", None, "questions"]
    assert found["missing"][:2] == ["NotFoundError", "model_not_found"]
    assert found["stream"][:3] == ["BadRequestError", None, "stream"]
    assert found["chat"] == found["responses"] == three(0.9, 0.7)
    assert "typed questions" in found["plain_chat"]
    assert (found["models"], found["model"]) == (["m", "n"], "n")


def test_anthropic_sdk(client, fake):
    """anthropic, Python: the questions format through messages, and its errors."""
    found = client("openai3", "anthropic_client.py", fake)
    assert found["answers"] == three(0.9, 0.7)
    assert (found["stop"], found["usage"], found["request_id"]) == ("end_turn", [120, 0], True)
    assert found["system"] == ["BadRequestError", "invalid_request_error"]
    assert found["missing"] == ["NotFoundError", "not_found_error"]


@pytest.mark.parametrize(
    ("prefix", "empty"),
    [("", "questions: must hold 1 to 256 questions, not 0"), ("/ollama", "questions must contain 1–64 fields")],
)
def test_ollama_sdk(client, fake, prefix, empty):
    """ollama, Python, at the root and at its prefix: answers, lists, and errors as clean text."""
    found = client("openai3", "ollama_client.py", fake + prefix)
    assert found["team"] == ["billing", close(0.531004, abs=1e-6), TEAM]
    assert found["urgent"] == 0.8
    assert found["anger"] == [close(0.7), close(0.118709, abs=1e-6), LEGEND]
    assert (found["usage"], found["models"], found["ps"]) == ([120, 0], ["m", "n"], ["m"])
    assert found["capabilities"] == ["decision"]
    assert found["missing"] == [404, "model 'nope' not found"]
    assert found["empty"] == [400, empty]


def test_pydantic_ai(client, fake):
    """pydantic-ai: an output type becomes questions over three of its providers."""
    found = client("pydantic_ai", "pydantic_ai_agent.py", fake)
    assert set(found) == {"system_one", "typesafe", "openai"}
    for answer in found.values():
        assert answer["team"] in ("billing", "sales")
        assert isinstance(answer["urgent"], bool)
        assert 0 <= answer["likely"] <= 1
        assert answer["anger"] in (0, 1)


def test_semantic_router(client, fake):
    """semantic-router: one state, many states, and its TypeSafe model."""
    found = client("semantic_router", "semantic_router_model.py", fake)
    assert less_ours(found["one"]) == three(0.5310044064107189, 0.1187091007693073)
    assert found["many"] == ["billing"] * 8
    assert found["typesafe"] == three(0.8, 0.4)


def test_litellm(client, fake):
    """litellm: five providers, each with the confidence of its own contract."""
    found = client("litellm", "litellm_calls.py", fake)
    assert found["typesafe"] == found["openrouter"] == three(0.8, 0.4)
    assert found["ollama"] == three(0.5310044064107189, 0.1187091007693073)
    mass = {"probabilities": {"yes": 0.8, "no": 0.2}, "confidence": close(0.76)}
    assert found["vllm"] == three(0.855, 0.665, **mass)
    assert found["openai"] == listed()


def test_langchain(client, fake):
    """langchain-typesafe and langchain-openai."""
    found = client("langchain", "langchain_client.py", fake)
    assert found["typesafe"] == ["billing", close(0.8), 0.8, close(0.7)]
    assert found["openai"] == ["billing", close(0.9), 0.8, close(0.7)]


def test_haystack(client, fake):
    """typesafe-haystack's router sends the text down the chosen branch."""
    assert client("haystack", "haystack_client.py", fake) == {"billing": "Charged twice"}


@pytest.mark.parametrize("prefix", ["", "/ollama"])
def test_ollama_npm(client, fake, prefix):
    """ollama, JavaScript, at the root and at its prefix."""
    found = client("node", "ollama_client.mjs", fake + prefix)
    assert less_ours(found["answers"]) == three(0.5310044064107189, 0.1187091007693073)
    assert (found["models"], found["missing"]) == (["m", "n"], [404, "model 'nope' not found"])


@pytest.mark.parametrize(("prefix", "confidences"), [("/typesafe", (0.8, 0.4)), ("", (0.5310044, 0.1187091))])
def test_typesafe_npm(client, fake, prefix, confidences):
    """@typesafe-ai/sdk, at its prefix and at the root."""
    found = client("node", "typesafe_client.mjs", fake + prefix)
    assert less_ours(found["answers"]) == three(*confidences)
    assert found["models"] == ["m", "n"]
    assert found["usage"] == {"input_tokens": 120, "output_tokens": 0}
    assert found["missing"][0] == "NotFoundError"
    assert "model 'nope' not found" in found["missing"][1]


def test_openai_npm(client, fake):
    """openai, JavaScript: raw decisions and the questions format."""
    found = client("node", "openai_client.mjs", fake)
    assert found["decision"] == listed()
    assert (found["chat"], found["bad"]) == ("billing", [400, "questions"])
