"""What crosses the service seam: one Decision in, one Result out. Plain, frozen and picklable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.jsontext import Json
from localdecide.core.questions import Question


@dataclass(frozen=True, slots=True)
class Options:
    """How to read, for the contracts that let a caller say so.

    exact: decode each question alone, so that no companion can move its answer.
    temperature: divides the label logits; None keeps the model's own.
    prompt: name of a prompt version ("sglang/1", "vllm/1"); None keeps the model's own.
    system: text put ahead of every question as the system message (vLLM's `instructions`).
    chat_template_kwargs: extra variables for the chat template.
    token_ids: also return the prompt's and the labels' token ids.
    """

    exact: bool = False
    temperature: float | None = None
    prompt: str | None = None
    system: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    token_ids: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """One request: the state that is judged and typed questions about it.

    state: text, any JSON value, or null where the contract allows it.
    images: encoded PNG or JPEG bytes, in order.
    """

    state: Json
    questions: Mapping[str, Question]
    images: tuple[bytes, ...] = ()
    options: Options = Options()


@dataclass(frozen=True, slots=True)
class Reading:
    """What the model says about one question.

    probabilities: one per key of the question, in `Question.keys` order, summing to 1.
    label_mass: full-vocabulary probability of all labels at the answer position at temperature 1,
        or None where no labels are read.
    argmax_is_label: whether the vocabulary's most likely token is one of the labels.
    readout: how the numbers came out of the model ("letters", "text", "yesno", "pointer", ...).
    temperature: the divisor that was applied.
    prompt_tokens: tokens of all this question's prompts, shared text counted in each.
    truncated: tokens cut from the input by a rule the model was trained with; 0 where nothing was.
    """

    probabilities: tuple[float, ...]
    readout: str
    temperature: float
    prompt_tokens: int
    label_mass: float | None = None
    argmax_is_label: bool | None = None
    truncated: int = 0
    prompt_token_ids: tuple[int, ...] | None = None
    label_token_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The readings of one Decision, by question id in the order asked.

    model: the served model's name.
    input_tokens: sum over all prompts; a joint prompt counts once.
    decoded_tokens, cached_tokens: tokens this request decoded, and took from the state cache.
    joint: whether one question's answer depends on the others.
    load_seconds, compute_seconds: waiting for the model, and time in it.
    """

    model: str
    readings: Mapping[str, Reading]
    input_tokens: int
    decoded_tokens: int = 0
    cached_tokens: int = 0
    joint: bool = False
    exact: bool = False
    load_seconds: float = 0.0
    compute_seconds: float = 0.0
