"""Thinking is off where answers are read, or the model is refused."""

from __future__ import annotations

import pathlib

import pytest

from localdecide.core.errors import InvalidRequest, NotSupported
from localdecide.families import thinking
from localdecide.families.template import ChatTemplate

TEMPLATES = pathlib.Path(__file__).parent / "chat_templates"


def chat(name: str) -> ChatTemplate:
    return ChatTemplate((TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"))


def test_toggles_are_read_from_the_template() -> None:
    """Qwen names its toggle one way, DeepSeek another, Llama has none."""
    assert [("enable_thinking",), ("thinking",), ()] == [
        thinking.toggles(chat(name)) for name in ("qwen3", "deepseek", "llama3")
    ]


def test_a_toggle_that_the_template_sets_itself_is_still_a_toggle() -> None:
    """`set thinking` as a default inside an `if` does not hide the variable."""
    assert ("thinking",) == thinking.toggles(chat("deepseek"))


def test_kwargs_turn_thinking_off_whatever_the_defaults_say() -> None:
    """The toggle is False; other defaults pass; the request's own come last."""
    kwargs = thinking.template_kwargs(chat("qwen3"), {"b": 2}, {"enable_thinking": True, "a": 1, "b": 1})
    assert {"enable_thinking": False, "a": 1, "b": 2} == kwargs


@pytest.mark.parametrize("value", [True, None, 0, "false"])
def test_a_request_cannot_turn_thinking_on(value: object) -> None:
    """Anything but false is refused, with the field's name."""
    with pytest.raises(InvalidRequest, match=r"chat_template_kwargs\.enable_thinking: must be false"):
        thinking.template_kwargs(chat("qwen3"), {"enable_thinking": value})


def test_false_is_accepted_from_a_request_and_foreign_toggles_pass() -> None:
    """A name that this template does not read is an ordinary variable."""
    assert {"enable_thinking": False, "thinking": True} == thinking.template_kwargs(
        chat("qwen3"), {"enable_thinking": False, "thinking": True}
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("qwen3", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("qwen35", "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ("deepseek", "<｜Assistant｜></think>"),
        ("phi", "<|end|>\n<|assistant|>\n"),
        ("mistral", "[/INST]"),
        ("smollm2", "<|im_end|>\n<|im_start|>assistant\n"),
    ],
)
def test_templates_that_can_answer_at_once_pass(name: str, expected: str) -> None:
    """`check` gives the generation prompt, where no block is open."""
    template = chat(name)
    assert expected == thinking.check(template, thinking.template_kwargs(template))


def test_a_template_that_always_thinks_is_refused() -> None:
    """An open block and no toggle."""
    with pytest.raises(NotSupported, match=r"reasoning block \(<think>\) open .* no variable to turn thinking off"):
        thinking.check(chat("always_thinks"), {})


def test_an_open_block_is_refused_where_the_toggle_was_not_passed() -> None:
    """The same rule for a template that could close it."""
    with pytest.raises(NotSupported, match="open before the answer; such a model"):
        thinking.check(chat("qwen35"), {})


def test_a_template_whose_finished_answers_carry_reasoning_is_refused() -> None:
    """The sentinel shows a block that the generation prompt does not hold."""
    with pytest.raises(NotSupported, match="starts every answer with a reasoning block"):
        thinking.check(chat("reasons_first"), {})


@pytest.mark.parametrize(
    ("prompt", "open_"),
    [
        ("<|im_start|>assistant\n", False),
        ("a<think>\n\n</think>\n\n", False),
        ("a</think>", False),
        ("a<think>", True),
        ("<think></think><think>", True),
        ("<|turn>model\n<|channel>thought\n<channel|>", False),
        ("<|turn>model\n<|channel>thought\n", True),
        ("[THINK]", True),
        ("<seed:think>\n", True),
        ("<|START_THINKING|><|END_THINKING|>", False),
    ],
)
def test_open_blocks_are_told_from_closed_ones(prompt: str, open_: bool) -> None:
    """The last opening marker decides, for every family of markers."""
    if open_:
        with pytest.raises(NotSupported, match="leaves a reasoning block"):
            thinking.refuse_open_block(chat("llama3"), prompt)
    else:
        thinking.refuse_open_block(chat("llama3"), prompt)


def test_the_generation_prompt_follows_the_last_line_of_the_message() -> None:
    """Even where the template trims the message or the line occurs twice."""
    template = chat("gemma3")
    content = "yes\n\n no \nyes  \n"
    rendered = template.render([{"role": "user", "content": content}])
    assert "<end_of_turn>\n<start_of_turn>model\n" == thinking.generation_prompt(template, rendered, content)


def test_a_template_that_drops_the_message_is_refused() -> None:
    """Otherwise the question would silently not be asked."""
    template = ChatTemplate("{{ 'nothing' }}")
    with pytest.raises(NotSupported, match="does not show the user's message"):
        thinking.check(template, {})
