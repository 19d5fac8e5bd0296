"""Chat templates render as transformers renders them."""

from __future__ import annotations

import pathlib
from datetime import datetime
from typing import Any

import pytest

from localdecide.core.errors import BadModelFile, NotSupported
from localdecide.families.template import ChatTemplate

TEMPLATES = pathlib.Path(__file__).parent / "chat_templates"
NAMES = sorted(path.stem for path in TEMPLATES.glob("*.jinja"))

USER = {"role": "user", "content": 'Is <b> & "x" fine?\nAnswer with yes or no only.'}
SYSTEM = {"role": "system", "content": "Be brief."}
TALK = [{"role": "user", "content": "one "}, {"role": "assistant", "content": " two"}, {"role": "user", "content": "3"}]

TEXT = 'Is <b> & "x" fine?\nAnswer with yes or no only.'
EXPECTED = {
    "qwen3": f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "qwen35": f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n",
    "llama3": (
        "<BOS><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
        "Today Date: 05 Mar 2026\n\n<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
        f"{TEXT}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    ),
    "gemma3": f"<BOS><start_of_turn>user\n{TEXT}<end_of_turn>\n<start_of_turn>model\n",
    "phi": f"<|user|>\n{TEXT}<|end|>\n<|assistant|>\n",
    "mistral": f"<BOS>[INST]{TEXT}[/INST]",
    "lfm2": f"<BOS><|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n",
    "smollm2": (
        "<|im_start|>system\nYou are a test of templates<|im_end|>\n"
        f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n"
    ),
    "deepseek": f"<BOS><｜User｜>{TEXT}<｜Assistant｜></think>",
    "always_thinks": f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n<think>\n",
    "reasons_first": f"<|im_start|>user\n{TEXT}<|im_end|>\n<|im_start|>assistant\n",
}


def source(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8")


def chat(name: str) -> ChatTemplate:
    return ChatTemplate(source(name), "<BOS>", "<EOS>", now=lambda: datetime(2026, 3, 5))


@pytest.mark.parametrize("name", NAMES)
def test_a_question_renders_as_written_out_by_hand(name: str) -> None:
    """With thinking off, one user message gives the text that the model was trained with."""
    assert EXPECTED[name] == chat(name).render([USER], enable_thinking=False, thinking=False)


CONVERSATION = {
    "qwen3": (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none <|im_end|>\n"
        "<|im_start|>assistant\n two<|im_end|>\n<|im_start|>user\n3<|im_end|>\n"
    ),
    "gemma3": (
        "<BOS><start_of_turn>user\nBe brief.\n\none<end_of_turn>\n<start_of_turn>model\ntwo<end_of_turn>\n"
        "<start_of_turn>user\n3<end_of_turn>\n"
    ),
    "mistral": "<BOS>[INST]one [/INST]two<EOS>[INST]Be brief.\n\n3[/INST]",
    "phi": (
        "<|system|>\nBe brief.<|end|>\n<|user|>\none <|end|>\n<|assistant|>\n two<|end|>\n<|user|>\n3<|end|>\n<EOS>"
    ),
}


@pytest.mark.parametrize(("name", "expected"), CONVERSATION.items())
def test_a_conversation_renders_as_written_out_by_hand(name: str, expected: str) -> None:
    """System message, earlier replies and no generation prompt."""
    assert expected == chat(name).render([SYSTEM, *TALK], add_generation_prompt=False)


def test_tojson_escapes_nothing_for_html() -> None:
    """`tojson` writes < > & ' and letters beyond ASCII as they are."""
    template = ChatTemplate("{{ messages[0].content | tojson }}")
    assert "\"<a> & 'é'\"" == template.render([{"role": "user", "content": "<a> & 'é'"}])


def test_tojson_takes_the_arguments_of_transformers() -> None:
    """ensure_ascii, indent, separators and sort_keys reach the JSON writer."""
    template = ChatTemplate(
        "{{ x | tojson(sort_keys=true) }}|{{ x | tojson(true, none, [',', ':']) }}|{{ x | tojson(indent=1) }}"
    )
    rendered = template.render([], x={"b": "é", "a": [1]})
    assert '{"a": [1], "b": "é"}|{"b":"\\u00e9","a":[1]}|{\n "b": "é",\n "a": [\n  1\n ]\n}' == rendered


def test_blocks_are_trimmed_and_loops_controlled() -> None:
    """A block's line leaves no line behind; break and continue work; one trailing line break goes."""
    template = ChatTemplate("{% for i in range(9) %}\n  {% if i == 1 %}{% continue %}{% endif %}\n"
                            "{% if i > 3 %}{% break %}{% endif %}\n{{ i }}\n{% endfor %}\n")  # fmt: skip
    assert "0\n2\n3\n" == template.render([])


def test_generation_blocks_render_their_text() -> None:
    """`{% generation %}` shows its body and keeps what is set inside it inside."""
    template = ChatTemplate("{% set a = 1 %}{% generation %}{% set a = 2 %}[{{ a }}]{% endgeneration %}{{ a }}")
    assert "[2]1" == template.render([])


def test_raise_exception_becomes_a_sentence_that_names_the_template() -> None:
    """What a template refuses is NotSupported, in its own words."""
    template = ChatTemplate(source("gemma3"), name="the chat template of gemma")
    with pytest.raises(NotSupported) as caught:
        template.render([{"role": "assistant", "content": "x"}])
    expected = "the chat template of gemma refuses this conversation: roles must alternate, the user first"
    assert expected == caught.value.message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ nothing() }}", "undefined"),
        ("{% for i in range(10000000) %}{% endfor %}", "too big"),
        ("{{ 'x' * 1000000000000 }}", "repeats"),
        ("{{ [0] * 1000000000000 }}", "repeats"),
        ("{{ 9 ** 9999999999 }}", "power"),
        ("{% for i in range(70000) %}{{ 'x' * 1000 }}{% endfor %}", "output is over"),
    ],
)
def test_the_sandbox_holds(text: str, reason: str) -> None:
    """No way to Python's internals, to the caller's values, or to the machine's memory and time."""
    with pytest.raises(NotSupported, match=f"(?i){reason}"):
        ChatTemplate(text).render([USER])


@pytest.mark.parametrize("text", ["{% if %}", "{{ 'open", "{% nonsense %}", "{{ x | nofilter }}"])
def test_text_that_is_no_template_is_a_bad_model_file(text: str) -> None:
    """The model is at fault, not the caller."""
    with pytest.raises(BadModelFile, match="is not a template"):
        ChatTemplate(text)


def test_variables_are_the_names_that_a_template_reads() -> None:
    """They tell which toggles a template knows."""
    assert {"messages", "add_generation_prompt", "enable_thinking"} <= chat("qwen3").variables
    assert "thinking" not in chat("qwen3").variables


CONVERSATIONS: list[list[dict[str, Any]]] = [[USER], [SYSTEM, USER], TALK, [SYSTEM, *TALK], TALK[:2]]


@pytest.mark.reference
@pytest.mark.parametrize("name", NAMES)
def test_templates_render_as_in_transformers(name: str) -> None:
    """The very same text, or a refusal in both, for conversations with and without thinking."""
    utils = pytest.importorskip("transformers.utils.chat_template_utils")
    fixed = {"bos_token": "<BOS>", "eos_token": "<EOS>", "date_string": "05 Mar 2026"}
    for conversation in CONVERSATIONS:
        for extra in ({}, {"enable_thinking": False, "thinking": False}, {"enable_thinking": True}):
            for generate in (True, False):
                try:
                    expected = utils.render_jinja_template(
                        [conversation], chat_template=source(name), add_generation_prompt=generate, **fixed, **extra
                    )[0][0]
                except Exception:
                    with pytest.raises(NotSupported):
                        chat(name).render(conversation, generate, **extra)
                else:
                    assert expected == chat(name).render(conversation, generate, **extra)
