"""OpenJev: a causal chat model that answers with one of 52 letters."""

from __future__ import annotations

from localdecide.families import options
from localdecide.families.asked import Asked
from localdecide.families.chatml import turns
from localdecide.families.codes import LETTERS_52, letters
from localdecide.families.label_family import LabelFamily
from localdecide.families.render import spaced

NAME = "openjev"
JOINT = False

RATE = " Rate along the ordered levels below (lowest first)."


def write(asked: Asked) -> str:
    question = asked.question
    instructions = spaced("" if question.instructions is None else question.instructions)
    lines = [f"[{label}] {text}\n" for label, text in asked.listed(options.openjev(question))]
    rate = RATE if question.kind == "score" else ""
    return turns(
        f"State:\n{spaced(asked.state)}\n\nQuestion: {instructions}{rate}\nOptions:\n{''.join(lines)}"
        "\nAnswer with the letter of the best option only."
    )


family = LabelFamily(
    name=NAME,
    codes=letters(LETTERS_52),
    write=write,
    true_first=True,
    # The checkpoint divides by 0.85, and a noul's log-odds by 1.829074 once more.
    constants={"choice": 0.85, "score": 0.85, "noul": 0.85 * 1.829074},
    alphabet="A to Z, a to z",
    most=52,
)
plan, read, describe = family.plan, family.read, family.describe
