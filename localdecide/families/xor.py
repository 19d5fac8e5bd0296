"""xor: a frame written by hand, every question in two orders, temperatures by type.

The letters are read with a space in front, after "Answer:" on a line of its own.
"""

from __future__ import annotations

from typing import Any

from localdecide.core.errors import UnsupportedInput
from localdecide.core.jsontext import Json
from localdecide.core.probability import mean
from localdecide.core.questions import Question
from localdecide.families import options
from localdecide.families.asked import Asked
from localdecide.families.base import Model
from localdecide.families.chatml import turns
from localdecide.families.codes import letters
from localdecide.families.label_family import LabelFamily, Variants
from localdecide.families.labels import LETTERS
from localdecide.families.render import indented_ascii, spaced

NAME = "xor"
JOINT = False

SYSTEM = "You are a careful classifier."
ANSWER = "<|im_start|>assistant\nAnswer:\n"


def write(asked: Asked) -> str:
    question = asked.question
    instructions = "" if question.instructions is None else spaced(question.instructions)
    listed = "\n".join(f"{label}: {text}" for label, text in asked.listed(options.xor(question)))
    return turns(
        f"{transcript(asked.state)}\n\n{instructions}\n\nOptions:\n{listed}\n\nAnswer with a single letter only.",
        SYSTEM,
        ANSWER,
    )


def transcript(state: Json) -> str:
    """Chat messages as `ROLE: content` lines, text as it is, the rest as indented JSON in ASCII."""
    messages: Any = state.get("messages") if isinstance(state, dict) else state
    if isinstance(messages, list) and all(isinstance(each, dict) and "role" in each for each in messages):
        return "\n".join(f"{spaced(each['role']).upper()}: {spaced(each.get('content'))}" for each in messages)
    return indented_ascii(state)


def combine(question: Question, variants: Variants, temperature: float) -> Variants:
    """Three options and more: the mean of the two orders' logits. Two: the mean of their probabilities."""
    return variants if len(question.keys) < 3 else (tuple(mean(variants)),)


def check(model: Model, key: str, question: Question) -> None:
    if len(question.keys) < 2:
        raise UnsupportedInput.at(("questions", key, "criteria"), "this model needs 2 to 26 options, not 1")


family = LabelFamily(
    name=NAME,
    takes_null=True,
    codes=letters(LETTERS, space=" "),
    write=write,
    true_first=True,
    orders=lambda question: 2,
    combine=combine,
    check=check,
    constants={"noul": 2.0, "choice.2": 2.2, "score.2": 2.7, "choice": 1.5, "score": 1.5},
    alphabet="A to Z, with a space in front",
    most=26,
)
plan, read, describe = family.plan, family.read, family.describe
