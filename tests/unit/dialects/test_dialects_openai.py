"""OpenAI's decisions: values, names, inputs, and everything that is not part of it."""

from __future__ import annotations

import base64

import pytest

PATH = "/openai/v1/decisions"
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)
URL = "data:image/png;base64," + base64.b64encode(PNG).decode()


def ask(**changes):
    return {"model": "m", "input": "s", "questions": [{"type": "predicate", "instructions": "i"}], **changes}


def choice(*values, **fields):
    return {"type": "choice", "instructions": "i", "choices": [{"value": value} for value in values], **fields}


def test_boolean_values_keep_their_type(post):
    """true and "true" are two values, told apart in the question and returned as they were."""
    answer = post(PATH, ask(questions=[choice(True, False, "true")])).body["answers"][0]
    assert [item["value"] for item in answer["probabilities"]] == [True, False, "true"]
    assert [type(item["value"]) for item in answer["probabilities"]] == [bool, bool, str]
    (question,) = post.decision.questions.values()
    assert question.keys == ("true (boolean)", "false", "true")


def test_unnamed_and_repeated_names(post):
    """Names are echoed, null for none; names that repeat still have an answer each, in order."""
    one = {"type": "predicate", "instructions": "i"}
    named = [one, {**one, "name": "a"}, {**one, "name": "a"}, {**one, "name": None}, {**one, "name": "question_1"}]
    answers = post(PATH, ask(questions=named)).body["answers"]
    assert [answer["name"] for answer in answers] == [None, "a", "a", None, "question_1"]
    assert list(post.decision.questions) == ["question_1_", "question_2", "question_3", "question_4", "question_1"]


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("s", "s"),
        ([{"role": "user", "content": "s"}], "s"),
        ([{"role": "user", "content": [{"type": "input_text", "text": "a"}] * 2}], "a\n\na"),
        ([{"role": "user", "content": [{"type": "input_json", "data": {"k": [1]}}]}], {"k": [1]}),
        ([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "a"},
          {"type": "input_json", "data": [{"k": 1}]}]}], 'a\n\n[{"k":1}]'),
        ([{"role": "developer", "content": "d"}, {"role": "user", "content": "u"},
          {"role": "assistant", "content": [{"type": "output_text", "text": "o"}], "phase": "final"}],
         [{"role": "developer", "content": "d"}, {"role": "user", "content": "u"},
          {"role": "assistant", "content": "o"}]),
        ([{"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
          {"type": "function_call_output", "call_id": "c", "output": "done"}],
         [{"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"},
          {"type": "function_call_output", "call_id": "c", "output": "done"}]),
    ],
)  # fmt: skip
def test_inputs(post, raw, state):
    """A single user message is its content; a conversation is an array of what was said and called."""
    assert post(PATH, ask(input=raw)).status == 200
    assert post.decision.state == state


def test_images_in_parts(post):
    """An image part is an image of the decision."""
    parts = [{"type": "input_text", "text": "t"}, {"type": "input_image", "image_url": URL, "detail": "low"}]
    assert post(PATH, ask(input=[{"role": "user", "content": parts}])).status == 200
    assert post.decision.images == (PNG,)
    assert post.decision.state == "t"


def test_instructions_in_parts(post):
    """Text and JSON parts are instructions too."""
    parts = [{"type": "input_text", "text": "a"}, {"type": "input_json", "data": {"k": 1}}]
    assert post(PATH, ask(questions=[{"type": "predicate", "instructions": parts}])).status == 200
    (question,) = post.decision.questions.values()
    assert question.instructions == 'a\n\n{"k":1}'


def test_accepted_and_without_effect(post):
    """Cache hints and a safety identifier are taken."""
    extra = {
        "prompt_cache_key": "k",
        "prompt_cache_options": {"mode": "auto", "ttl": 60},
        "safety_identifier": "x" * 128,
    }
    assert post(PATH, ask(**extra)).status == 200


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"stream": True}, "stream"),
        ({"store": False}, "store"),
        ({"tools": []}, "tools"),
        ({"temperature": 1}, "temperature"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "input[0].content[0].type"),
        ({"input": [{"role": "user", "content": [{"type": "input_json", "data": 5}]}]}, "input[0].content[0].data"),
        ({"input": [{"type": "function_call", "name": "f"}]}, "input[0].arguments"),
        ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
        ({"questions": []}, "questions"),
        ({"questions": {}}, "questions"),
        ({"questions": [{"type": "noul", "instructions": "i"}]}, "questions[0].type"),
        ({"questions": [{"type": "predicate"}]}, "questions[0].instructions"),
        ({"questions": [{"type": "predicate", "instructions": " "}]}, "questions[0].instructions"),
        ({"questions": [{"type": "predicate", "instructions": "i", "choices": []}]}, "questions[0].choices"),
        ({"questions": [{"type": "predicate", "instructions": "i", "name": 5}]}, "questions[0].name"),
        ({"questions": [choice("a")]}, "questions[0].choices"),
        ({"questions": [choice("a", "a")]}, "questions[0].choices[1].value"),
        ({"questions": [choice(True, True)]}, "questions[0].choices[1].value"),
        ({"questions": [choice("a", 1)]}, "questions[0].choices[1].value"),
        ({"questions": [choice("a", None)]}, "questions[0].choices[1].value"),
        ({"questions": [{"type": "score", "instructions": "i", "levels": ["a", "b"]}]}, "questions[0].levels[0]"),
        ({"questions": [{"type": "score", "instructions": "i", "levels": [{"label": "a"}, {}]}]},
         "questions[0].levels[1].label"),
        ({"questions": [{"type": "predicate", "instructions": [{"type": "input_image", "image_url": URL}]}]},
         "questions[0].instructions[0]"),
        ({"safety_identifier": "x" * 129}, "safety_identifier"),
        ({"prompt_cache_key": 5}, "prompt_cache_key"),
    ],
)  # fmt: skip
def test_refusals_name_their_parameter(post, change, param):
    """A 400 with OpenAI's error object, whose param is the field."""
    reply = post(PATH, ask(**change))
    assert (reply.status, reply.body["error"]["param"]) == (400, param)
    assert post.service.calls == []


def test_json_parts_have_bounds(post):
    """Depth 32, 10,000 values and 256 KiB are the most that an input_json part may hold."""

    def part(data):
        return ask(input=[{"role": "user", "content": [{"type": "input_json", "data": data}]}])

    deep = {"k": 1}
    for _ in range(30):
        deep = {"k": deep}
    assert post(PATH, part(deep)).status == 200
    assert post(PATH, part({"k": deep})).status == 400
    assert post(PATH, part({"k": [1] * 9_998})).status == 200
    assert post(PATH, part({"k": [1] * 9_999})).status == 400
    assert post(PATH, part({"k": "x" * 262_000})).status == 200
    assert post(PATH, part({"k": "x" * 263_000})).status == 400


def test_a_question_without_an_answer_is_a_refusal(post):
    """What the model left unanswered has a refusal in its place."""
    decide = post.service.decide

    async def silent(*args):
        from dataclasses import replace

        return replace(await decide(*args), readings={})

    post.service.decide = silent
    asked = ask(questions=[{"type": "predicate", "instructions": "i", "name": "a"}])
    assert post(PATH, asked).body["answers"] == [{"type": "refusal", "name": "a"}]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"input": [{"role": "assistant", "content": "x"}]}, "user messages"),
        ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": URL}]}]},
         "images are not supported"),
        ({"questions": [{"type": "predicate", "instructions": "i", "name": None}]}, "must be a string when provided"),
        ({"questions": [{"type": "predicate", "instructions": [{"type": "input_text", "text": "i"}]}]}, "string"),
        ({"prompt_cache_key": "k"}, "prompt_cache_key"),
        ({"joint": True}, "joint"),
        ({"cache_salt": ""}, "cache_salt"),
    ],
)  # fmt: skip
def test_vllm_is_narrower(post, change, text):
    """vLLM's route of the same shape reads text from users only."""
    reply = post("/vllm/v1/decisions", ask(**change))
    assert reply.status == 400
    assert text in reply.body["error"]["message"]
