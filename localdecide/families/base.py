"""What a family is: a plan from questions, and evidence from rows. Read one file to know one family."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from localdecide.core.decision import Decision, Options, Reading
from localdecide.core.errors import UnsupportedInput
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits, Plan, Rows, Vocabulary
from localdecide.core.probability import mean, softmax


@dataclass(frozen=True)
class Model:
    """Everything a family may know about the loaded model.

    metadata: the GGUF header's keys (strings, numbers, lists).
    head: arrays of the head file by tensor name, float32; empty where there is none.
    output_rows: rows of the LM head for token ids, float32 [n, n_embd].
    cache: a dictionary that lives as long as the model, for what a family computes once.
    """

    spec: ModelSpec
    vocabulary: Vocabulary
    limits: Limits
    metadata: Mapping[str, Any] = field(default_factory=dict)
    head: Mapping[str, Any] = field(default_factory=dict)
    output_rows: Callable[[list[int]], Any] | None = None
    cache: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read for one question.

    variants: logits (or log-probabilities), one row per time the question was put, each in the order
        of `Question.keys`. Their probabilities are averaged.
    """

    variants: tuple[tuple[float, ...], ...]
    readout: str
    temperature: float = 1.0
    label_mass: float | None = None
    argmax_is_label: bool | None = None
    prompt_tokens: int = 0
    truncated: int = 0
    prompt_token_ids: tuple[int, ...] | None = None
    label_token_ids: tuple[int, ...] | None = None


class Family(Protocol):
    """A module of `localdecide.families` with these names.

    NAME: what FAMILY in a Modelfile and `decision.type` in a file say.
    JOINT: whether one question's answer depends on the others.
    """

    NAME: str
    JOINT: bool

    def plan(self, decision: Decision, model: Model) -> Plan:
        """The prompts of a decision. Raises InvalidRequest, PromptTooLong, UnsupportedInput."""
        ...

    def read(self, decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
        """Evidence for every question, by id. Raises NumericalError."""
        ...

    def describe(self, model: Model) -> dict[str, Any]:
        """What `show` says: readouts, temperatures, limits, label alphabet, and where each came from."""
        ...


def check_options(family: Family, options: Options) -> None:
    """Refuses what has no place in the one prompt that a model was trained with.

    A family whose prompt is free to change names the published versions it writes as PROMPTS.
    """
    prompts: tuple[str, ...] = getattr(family, "PROMPTS", ())
    if options.prompt is not None and options.prompt not in prompts:
        raise UnsupportedInput.at(
            ("prompt_format_version",), f"{family.NAME} models have one prompt of their own; ask through /v1/systemone"
        )
    if options.system and not prompts:
        raise UnsupportedInput.at(("instructions",), f"the prompt of {family.NAME} models is fixed")


def reading(evidence: Evidence, temperature: float | None = None) -> Reading:
    """Evidence turned into probabilities; `temperature` replaces the model's own where a caller gave one."""
    divisor = evidence.temperature if temperature is None else temperature
    rows = [softmax(variant, divisor) for variant in evidence.variants]
    return Reading(
        probabilities=tuple(rows[0] if len(rows) == 1 else mean(rows)),
        readout=evidence.readout,
        temperature=divisor,
        prompt_tokens=evidence.prompt_tokens,
        label_mass=evidence.label_mass,
        argmax_is_label=evidence.argmax_is_label,
        truncated=evidence.truncated,
        prompt_token_ids=evidence.prompt_token_ids,
        label_token_ids=evidence.label_token_ids,
    )
