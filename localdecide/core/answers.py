"""A reading turned into an answer: the choice, the probability of true, the expected level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localdecide.core.probability import argmax, expectation
from localdecide.core.questions import Choice, Noul, Question, Score


@dataclass(frozen=True, slots=True)
class ChoiceAnswer:
    choice: str
    probabilities: dict[str, float]


@dataclass(frozen=True, slots=True)
class NoulAnswer:
    noul: float


@dataclass(frozen=True, slots=True)
class ScoreAnswer:
    score: float
    probabilities: dict[str, float]


Answer = ChoiceAnswer | NoulAnswer | ScoreAnswer


def answer(question: Question, probabilities: Sequence[float]) -> Answer:
    """The answer to `question`; `probabilities` in the order of `question.keys`.

    choice: the first option with the highest probability; noul: P(true);
    score: sum of i * p_i, from 0 to levels - 1, not rounded.
    """
    match question:
        case Choice():
            keys = question.keys
            return ChoiceAnswer(keys[argmax(probabilities)], dict(zip(keys, probabilities, strict=True)))
        case Noul():
            return NoulAnswer(probabilities[0])
        case Score():
            keyed = dict(zip(question.keys, probabilities, strict=True))
            return ScoreAnswer(expectation(probabilities), keyed)
