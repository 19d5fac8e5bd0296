"""Families that are read at labels: one prompt for each order of a question's options, one number per label.

A family declares what differs (`LabelFamily`); everything else is here. The prompt comes from the
Modelfile's PROMPT, else from the template in the model's file, else from the family's own `write`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.decision import Decision
from localdecide.core.errors import InvalidRequest, NotSupported, UnsupportedInput
from localdecide.core.plan import LabelRow, Labels, Plan, Prompt, Rows
from localdecide.core.questions import Question
from localdecide.families import head_file
from localdecide.families.asked import Asked, in_order
from localdecide.families.base import Evidence, Model
from localdecide.families.codes import Coder, Codes
from localdecide.families.heads.readout import ReadoutHead
from localdecide.families.label_prompts import LabelPrompts, attention_of, prompt_source
from localdecide.families.temperatures import KINDS, by_size, describe_temperatures, temperature

Variants = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class LabelFamily:
    """What one family says of itself.

    codes: what stands for the options. write: the prompt, where no template says it.
    true_first: whether a noul shows its true side first.
    sort_keys: whether the keys of all JSON objects are sorted (never the options themselves).
    orders: how often a question is put: once, or a second time with its options reversed.
    combine: variants of logits in `Question.keys` order, and the temperature, to the variants that are averaged.
    bucket, constants: temperatures by option count; the family's own, by name.
    at_prompt: whether a label must continue the rendered prompt as one token (else: be one by itself).
    escapes: what the family's prompts write for the first character of a special token; no guard is needed there.
    takes_null: whether a state of null means something to the model.
    takes_labels: whether LABELS of a Modelfile mean anything here.
    check: raises for questions that the family does not take.
    readouts: names of the readouts by question type. alphabet, most: what `show` says of labels and options.
    """

    name: str
    codes: Coder
    write: Callable[[Asked], str] | None = None
    true_first: bool = False
    sort_keys: bool = False
    orders: Callable[[Question], int] = lambda question: 1
    combine: Callable[[Question, Variants, float], Variants] = lambda question, variants, temperature: variants
    bucket: Callable[[int], str] = by_size
    constants: Mapping[str, float] = field(default_factory=dict)
    at_prompt: bool = False
    escapes: tuple[str, ...] = ()
    takes_null: bool = False
    takes_labels: bool = False
    check: Callable[[Model, str, Question], None] = lambda model, key, question: None
    readouts: Mapping[str, str] = field(default_factory=lambda: dict.fromkeys(KINDS, "letters"))
    alphabet: str = ""
    most: int = 255

    def plan(self, decision: Decision, model: Model) -> Plan:
        """A prompt for every order of every question. Raises UnsupportedInput, NotSupported, BadModelFile."""
        self._refuse(decision, model)
        prompts = LabelPrompts(self, decision, model)
        return Plan(tuple(each for key in decision.questions for each in prompts.of(key)), attention_of(model))

    def read(self, decision: Decision, model: Model, plan: Plan, rows: Rows) -> dict[str, Evidence]:
        """Logits of the options, each question's orders put back in the order of its keys."""
        parts: dict[str, list[tuple[Prompt, Any]]] = {key: [] for key in decision.questions}
        for prompt, (row,) in zip(plan.prompts, rows.values, strict=True):
            parts[prompt.question].append((prompt, row))
        return {
            key: self._evidence(decision, model, key, question, parts[key])
            for key, question in decision.questions.items()
        }

    def describe(self, model: Model) -> dict[str, Any]:
        """What `show` says of this family."""
        longest = head_file.longest(model)
        tokens = {} if longest is None else {"tokens": f"{longest}; a longer prompt is refused"}
        source = "rows of its head on the last token" if head_file.has_readout(model) else "logits of its labels"
        return {
            "prompt": prompt_source(model),
            "readouts": {kind: {"readout": name, "source": source} for kind, name in self.readouts.items()},
            "labels": self.alphabet,
            "temperatures": describe_temperatures(model, self.constants),
            "attention": attention_of(model),
            "limits": {"options": self.most, "levels": 10, "context": model.limits.context} | tokens,
            "modalities": ["text"],
        }

    def temperature(self, model: Model, question: Question) -> float:
        return temperature(model, question.kind, len(question.keys), self.bucket, self.constants)

    def _refuse(self, decision: Decision, model: Model) -> None:
        if decision.images:
            raise UnsupportedInput.at(("images",), "this model reads text only")
        if decision.options.system:
            raise UnsupportedInput.at(("instructions",), "this model's prompt has no place for a system message")
        if decision.state is None and not self.takes_null:
            raise InvalidRequest.at(("state",), "must not be null for this model")
        self.refuse_foreign(model)
        for key, question in decision.questions.items():
            self.check(model, key, question)

    def refuse_foreign(self, model: Model) -> None:
        """Raises NotSupported for a READOUT or LABELS that have no place in this family."""
        for kind, readout in model.spec.readouts.items():
            if readout.name not in (None, self.readouts[kind]):
                raise NotSupported(f"READOUT {kind} {readout.name}: the {self.name} family has one readout of its own")
        if model.spec.labels and not self.takes_labels:
            raise NotSupported(f"LABELS: the {self.name} family has labels of its own")

    def _evidence(
        self, decision: Decision, model: Model, key: str, question: Question, parts: list[tuple[Prompt, Any]]
    ) -> Evidence:
        divisor = decision.options.temperature or self.temperature(model, question)
        codes = self.codes(model, key, question)
        shown = [name for name, _ in in_order(question, self.true_first)]
        variants, masses, hits = [], [], []
        for order, (prompt, row) in enumerate(parts):
            if isinstance(row, LabelRow):
                values = _strongest(codes, row.logits)
                masses.append(math.fsum(math.exp(value) for value in row.logprobs))
                hits.append(row.argmax in _label_tokens(prompt))
            else:
                values = list(_head(model).logits(row, len(shown)))
            if len(values) == len(shown):
                by_name = dict(zip(shown[::-1] if order else shown, values, strict=True))
                values = [by_name[name] for name in question.keys]
            variants.append(tuple(values))
        first = parts[0][0]
        wanted = decision.options.token_ids
        return Evidence(
            variants=self.combine(question, tuple(variants), divisor),
            readout=self.readouts[question.kind],
            temperature=divisor,
            label_mass=min(1.0, math.fsum(masses) / len(masses)) if masses else None,
            argmax_is_label=all(hits) if hits else None,
            prompt_tokens=sum(len(prompt.tokens) for prompt, _ in parts),
            prompt_token_ids=first.tokens if wanted else None,
            label_token_ids=_label_tokens(first) if wanted and masses else None,
        )


def _strongest(codes: Codes, logits: tuple[float, ...]) -> list[float]:
    """One number for each code: the greatest of its tokens'."""
    values = iter(logits)
    return [max(next(values) for _ in group) for group in codes.groups]


def _label_tokens(prompt: Prompt) -> tuple[int, ...]:
    read = prompt.reads[0]
    return read.tokens if isinstance(read, Labels) else ()


def _head(model: Model) -> ReadoutHead:
    if "readout" not in model.cache:
        model.cache["readout"] = ReadoutHead.load(model.head)
    head: ReadoutHead = model.cache["readout"]
    return head
