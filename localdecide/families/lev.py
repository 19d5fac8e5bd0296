"""lev: sorted keys, a choice put in two orders, and a yes-or-no question as nine ratings."""

from __future__ import annotations

import math
import sys

from localdecide.core.probability import expectation, softmax
from localdecide.core.questions import Choice, Noul, Question
from localdecide.families import options
from localdecide.families.asked import Asked
from localdecide.families.base import Model
from localdecide.families.chatml import ANSWER, turns
from localdecide.families.codes import Codes, first_codes
from localdecide.families.label_family import LabelFamily, Variants
from localdecide.families.render import sorted_spaced

NAME = "lev"
JOINT = False
BUCKETS = ("small", "mid", "large")

SYSTEM = (
    "You are a System One decision model. You read the Evidence and answer each Criterion by choosing exactly one "
    "of the listed options. You never explain. You answer with the single option label only."
)
RATINGS = 9


def write(asked: Asked) -> str:
    question = asked.question
    criterion = sorted_spaced(question.instructions) if question.instructions else asked.key
    body = _scale(question) if isinstance(question, Noul) else _options(asked)
    return turns(f"# Evidence\n{sorted_spaced(asked.state)}\n\n# Criterion\n{criterion}\n\n{body}\n", SYSTEM, ANSWER)


def _options(asked: Asked) -> str:
    lines = [f"{label}. {text}\n" for label, text in asked.listed(options.lev(asked.question))]
    best = "the level that best matches." if asked.question.kind == "score" else "the best option."
    return f"# Options\n{''.join(lines)}\nRespond with only the letter of {best}"


def _scale(question: Noul) -> str:
    sides = dict(options.described(question))
    lines = [
        f"{word}: {sorted_spaced(sides[side])}\n" for word, side in (("yes", "true"), ("no", "false")) if sides[side]
    ]
    return f"# Scale\n0 = certainly no ... 8 = certainly yes\n{''.join(lines)}\nRespond with only a digit from 0 to 8."


def codes(model: Model, key: str, question: Question) -> Codes:
    """A noul's ratings 0 to 8 are read at the first nine labels, as the model was trained."""
    return first_codes(model, key, RATINGS if isinstance(question, Noul) else len(question.keys))


def combine(question: Question, variants: Variants, temperature: float) -> Variants:
    """A noul is the expected rating over the highest; written as logits so that softmax gives it back."""
    if not isinstance(question, Noul):
        return variants
    (ratings,) = variants
    true = expectation(softmax(ratings, temperature)) / (RATINGS - 1)
    least = sys.float_info.min
    return ((temperature * math.log(max(true, least)), temperature * math.log(max(1.0 - true, least))),)


family = LabelFamily(
    name=NAME,
    codes=codes,
    write=write,
    sort_keys=True,
    orders=lambda question: 2 if isinstance(question, Choice) and len(question.options) > 1 else 1,
    combine=combine,
    bucket=lambda options: "small" if options <= 8 else "mid" if options <= 26 else "large",
    readouts={"choice": "letters", "noul": "ratings", "score": "letters"},
    alphabet="A to Z, then AA to ZZ; nine ratings for a noul",
)
plan, read, describe = family.plan, family.read, family.describe
