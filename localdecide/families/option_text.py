"""Option text: options judged by their own words, for models too small to follow letters.

The options are not listed. Prompt: state, blank line, `Question: {instructions}`, line break, `Answer:`.
The logit of an option is the log-probability of ` name` after it, minus the same with the state `N/A`,
plus the same difference for ` description` where there is one. No chat template.
"""

from __future__ import annotations

import math
from typing import Any

from localdecide.core.jsontext import is_blank
from localdecide.core.plan import Labels, Prompt
from localdecide.core.questions import Choice, Question, Score
from localdecide.families.base import Evidence, Model
from localdecide.families.beginning import shared
from localdecide.families.render import compact
from localdecide.families.text import Guard

EMPTY_STATE = "N/A"


def plan_text(key: str, question: Question, guard: Guard, state: str, model: Model) -> list[Prompt]:
    """Prompts in the order: every continuation on the state, then every continuation on the empty state."""
    asked = _shown(guard, question.instructions)
    lines = f"Question: {asked}\nAnswer:" if asked.strip() else "Answer:"
    bos = [] if model.vocabulary.bos is None else [model.vocabulary.bos]
    words = [_tokens(guard, model, text) for text in _continuations(question)]
    prompts = []
    for text, whole in ((state, False), (EMPTY_STATE, True)):
        context = bos + guard.encode(f"{text}\n\n{lines}")
        prefix = bos + guard.encode(f"{text}\n\n")
        # The empty state's half is the same whatever the state: all but its last token is shared,
        # so the state cache keeps it for the next request with this question.
        kept = len(context) - 1 if whole else shared(prefix, context)
        for own in words:
            reads = tuple(Labels(len(context) - 1 + index, (token,)) for index, token in enumerate(own))
            # The last token of a continuation is read, never decoded.
            prompts.append(Prompt(key, tuple(context + own[:-1]), reads, kept))
    return prompts


def read_text(question: Question, parts: list[tuple[Prompt, Any]], temperature: float) -> Evidence:
    """Sums of log-probabilities, each against the empty state."""
    scores = [math.fsum(row.logprobs[0] for row in rows) for _, rows in parts]
    half = len(scores) // 2
    gains = [scores[index] - scores[half + index] for index in range(half)]
    logits = []
    position = 0
    for _, description in _pairs(question):
        logits.append(gains[position] + (gains[position + 1] if description else 0.0))
        position += 2 if description else 1
    return Evidence(
        variants=(tuple(logits),),
        readout="text",
        temperature=temperature,
        prompt_tokens=_asked_tokens(parts[:half]),
    )


def _asked_tokens(parts: list[tuple[Prompt, Any]]) -> int:
    """Tokens of the question's prompt once, and of every option's words."""
    context = parts[0][0].reads[0]
    assert isinstance(context, Labels)
    return context.position + 1 + sum(len(prompt.reads) for prompt, _ in parts)


def _pairs(question: Question) -> list[tuple[str, str]]:
    match question:
        case Choice():
            return [(option.name, _plain(option.description)) for option in question.options]
        case Score():
            return [(_plain(level), "") for level in question.levels]
        case _:
            raise TypeError(f"a {question.kind} question has no option text")


def _continuations(question: Question) -> list[str]:
    return [text for pair in _pairs(question) for text in pair if text]


def _plain(value: Any) -> str:
    return "" if is_blank(value) else value if isinstance(value, str) else compact(value)


def _shown(guard: Guard, value: Any) -> str:
    wrapped = guard.wrap(value)
    return "" if wrapped is None else wrapped if isinstance(wrapped, str) else compact(wrapped)


def _tokens(guard: Guard, model: Model, text: str) -> list[int]:
    space = "" if model.vocabulary.prefixes_space else " "
    return guard.encode(space + guard.wrap(text.strip()))
