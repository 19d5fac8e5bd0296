"""What one prompt is written from: a question, its labels and the state, all words guarded.

A family's own writer takes it as it is; `inputs` gives what upstream's decision templates and the
Modelfile's PROMPT see:

    id, type, instructions, state, images, options [{key, description, label}], questions [{id, type,
    instructions, options}] (every question of the request)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localdecide.core.jsontext import Json
from localdecide.core.questions import ABSENT, Choice, Noul, Option, Question, Score
from localdecide.families.options import Shown, described, false_first

Words = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One prompt to write.

    labels: of all questions by id, in the order shown. reverse: options the other way round, labels as before.
    """

    key: str
    question: Question
    state: Json
    labels: Mapping[str, Sequence[str]]
    questions: Mapping[str, Question]
    reverse: bool = False

    def listed(self, shown: Sequence[Shown]) -> list[tuple[str, str]]:
        """Label and text of every option in the order of this prompt."""
        options = shown[::-1] if self.reverse else shown
        return [(label, option.text) for label, option in zip(self.labels[self.key], options, strict=False)]

    def inputs(self, true_first: bool, joint: bool) -> dict[str, Any]:
        """The inputs of a decision template. joint: whether it reads `questions`."""
        listed = self.questions.items() if joint else ()
        return {
            **self._one(self.key, self.question, true_first, self.reverse),
            "state": self.state,
            "images": [],
            "questions": [self._one(key, each, true_first, False) for key, each in listed],
        }

    def _one(self, key: str, question: Question, true_first: bool, reverse: bool) -> dict[str, Any]:
        pairs = in_order(question, true_first)
        options = zip(pairs[::-1] if reverse else pairs, self.labels[key], strict=False)
        return {
            "id": key,
            "type": question.kind,
            "instructions": "" if question.instructions is None else question.instructions,
            "options": [{"key": name, "description": text, "label": label} for (name, text), label in options],
        }


def in_order(question: Question, true_first: bool) -> list[tuple[str, Json]]:
    """Key and description of every option, as a family shows them; a missing description is null."""
    return described(question) if true_first else false_first(question)


def with_words(question: Question, words: Words) -> Question:
    """The question with every string and JSON value of it replaced by `words` of it."""
    asked = words(question.instructions)
    match question:
        case Choice():
            return Choice(tuple(Option(words(each.name), words(each.description)) for each in question.options), asked)
        case Score():
            return Score(tuple(words(level) for level in question.levels), asked)
        case Noul():
            true, false = (side if side is ABSENT else words(side) for side in (question.true, question.false))
            return Noul(asked, true, false)


def all_words(question: Question) -> list[Any]:
    """Every value that a caller wrote into a question."""
    return [question.instructions, [list(pair) for pair in described(question)]]


def sort_keys(value: Any) -> Any:
    """`value` with the keys of every object in it sorted, at all levels."""
    if isinstance(value, dict):
        return {key: sort_keys(value[key]) for key in sorted(value)}
    return [sort_keys(item) for item in value] if isinstance(value, list) else value
