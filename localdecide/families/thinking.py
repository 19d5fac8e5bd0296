"""Answers are read where the model would begin to answer, so reasoning has to be off there.

The rules are SGLang's for its decisions route: the template's own toggle is always passed False; a
generation prompt that leaves a reasoning block open is refused, and so is a template that puts a
reasoning block before every answer. Pure functions over `ChatTemplate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.core.errors import InvalidRequest, NotSupported
from localdecide.families.template import ChatTemplate

# The variable that turns reasoning on and off: the first in Qwen, GLM, SmolLM3 and Gemma 4 templates,
# the second in DeepSeek's and Kimi's.
TOGGLES = ("enable_thinking", "thinking")

# What opens and closes a reasoning block, by the templates that are known to write it.
MARKERS = (
    ("<think>", "</think>"),  # Qwen, DeepSeek, GLM, SmolLM3, LFM2.5, ...
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<|channel|>", "<|message|>"),  # gpt-oss: every answer names its channel, reasoning first
    ("[THINK]", "[/THINK]"),  # Mistral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
)

SENTINEL = "DECISION_ANSWER"
_PROBE = "DECISION_QUESTION"


def toggles(template: ChatTemplate) -> tuple[str, ...]:
    """The thinking toggles that the template reads, possibly none."""
    return tuple(name for name in TOGGLES if name in template.variables)


def template_kwargs(
    template: ChatTemplate, requested: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Variables for the template: thinking off, then the model's `defaults`, then what the request asked for.

    Nothing turns thinking back on: a default is overruled, a request is refused with InvalidRequest.
    """
    off = dict.fromkeys(toggles(template), False)
    for name in off:
        if (requested or {}).get(name, False) is not False:
            raise InvalidRequest.at(
                ("chat_template_kwargs", name), "must be false: answers are read with thinking turned off"
            )
    return {**(defaults or {}), **(requested or {}), **off}


def generation_prompt(template: ChatTemplate, rendered: str, content: str) -> str:
    """What the template writes after the user's message: `rendered` after the last line of `content`.

    Raises NotSupported when the template does not show the message.
    """
    lines = content.strip().splitlines()
    line = lines[-1].strip() if lines else ""
    found = rendered.rfind(line)
    if found < 0:
        raise NotSupported(f"{template.name} does not show the user's message")
    return rendered[found + len(line) :]


def refuse_open_block(template: ChatTemplate, prompt: str) -> None:
    """Raises NotSupported when `prompt`, a generation prompt, leaves a reasoning block open."""
    for start, end in MARKERS:
        if prompt.rfind(start) > prompt.rfind(end):
            always = "" if toggles(template) else " and has no variable to turn thinking off"
            raise NotSupported(
                f"{template.name} leaves a reasoning block ({start}) open before the answer{always}; "
                "such a model cannot be read for decisions"
            )


def refuse_reasoned_answers(template: ChatTemplate, prompt: str, kwargs: Mapping[str, Any]) -> None:
    """Raises NotSupported when finished answers carry a reasoning block that `prompt` does not hold.

    Renders a finished conversation whose reply is a sentinel and counts the opening markers before it.
    A template that shows no reply proves nothing and passes.
    """
    messages = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": SENTINEL}]
    finished = template.render(messages, add_generation_prompt=False, **kwargs)
    if SENTINEL not in finished:
        return
    before = generation_prompt(template, finished[: finished.rfind(SENTINEL)], _PROBE)
    for start, _ in MARKERS:
        if before.count(start) > prompt.count(start):
            raise NotSupported(
                f"{template.name} starts every answer with a reasoning block ({start}); "
                "such a model cannot be read for decisions"
            )


def check(template: ChatTemplate, kwargs: Mapping[str, Any]) -> str:
    """Both refusals on a probe message; the generation prompt of `template` with `kwargs`.

    A family calls this once for a model and set of kwargs, and `refuse_open_block` for every prompt.
    """
    rendered = template.render([{"role": "user", "content": _PROBE}], **kwargs)
    prompt = generation_prompt(template, rendered, _PROBE)
    refuse_open_block(template, prompt)
    refuse_reasoned_answers(template, prompt, kwargs)
    return prompt
