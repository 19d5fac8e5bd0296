"""What the benches ask: states and questions of given lengths, as tokens and as text.

All of it repeats from run to run; another `number` gives another state from its first token on, so
that no cache of any server has seen it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

COMMON, OWN = 24, 16
LABELS = ("A", "B", "C", "D")

_TEXT = """A customer wrote to us about an invoice that was charged twice in the same month. The first
payment went through on Monday and the second one on Thursday, although the order was placed only
once. She asks for a refund, wants to know how long it will take and whether her plan will change. Our
notes show that a colleague answered the telephone, promised to call back and forgot to write down a
number. The parcel itself arrived in good order, two days late, with a broken seal and a missing
manual. She likes the product and has been with us for six years, but another mistake of this kind
would be reason enough to leave. Please look at the history of the account before you answer her."""

WORDS = _TEXT.split()


def state_words(count: int, number: int = 0) -> str:
    """About as many tokens of text as words: a state of its own for each `number`."""
    chosen = random.Random(f"state {number}")
    return " ".join([f"Case {number}:", *(chosen.choice(WORDS) for _ in range(count - 3))])


def state_text(tokens: int, number: int, count: Callable[[str], int]) -> str:
    """A text of exactly or nearly `tokens` tokens, as `count` counts them."""
    words = tokens
    for _ in range(6):
        text = state_words(words, number)
        found = count(text)
        if abs(found - tokens) <= 1:
            break
        words = max(4, round(words * tokens / found))
    return text


def question_texts(count: int) -> list[str]:
    """`count` instructions that begin alike (about COMMON tokens) and end each in its own way."""
    begin = "Read the whole case with care, think of what our customer needs now, and then decide about this one point:"
    texts = []
    for index in range(count):
        chosen = random.Random(f"question {index}")
        texts.append(f"{begin} {index} {' '.join(chosen.choice(WORDS) for _ in range(8))}?")
    return texts


def questions_json(count: int) -> dict[str, dict[str, object]]:
    """`count` choices of four options in System One's form."""
    options = {"refund": None, "technical": None, "delivery": None, "other": None}
    return {
        f"q{index}": {"type": "choice", "instructions": text, "criteria": options}
        for index, text in enumerate(question_texts(count))
    }


class Tokens:
    """Prompts as token ids: state, then COMMON tokens that all questions share, then OWN of each."""

    def __init__(self, tokenize: Callable[[str], list[int]]) -> None:
        self._pool = tokenize(_TEXT)
        self.labels = tuple(tokenize(label)[0] for label in LABELS)

    def state(self, size: int, number: int) -> tuple[int, ...]:
        return self._draw(f"state {number}", size)

    def common(self) -> tuple[int, ...]:
        return self._draw("common", COMMON)

    def own(self, index: int) -> tuple[int, ...]:
        return self._draw(f"question {index}", OWN)

    def _draw(self, seed: str, size: int) -> tuple[int, ...]:
        chosen = random.Random(seed)
        return tuple(chosen.choice(self._pool) for _ in range(size))


def distinct_tokens(prompts: Sequence[Sequence[int]]) -> int:
    """Nodes of the prompts' tree: what must be decoded if every shared start is decoded once."""
    count = 0
    before: Sequence[int] = ()
    for prompt in sorted(prompts):
        same = 0
        for one, other in zip(before, prompt, strict=False):
            if one != other:
                break
            same += 1
        count += len(prompt) - same
        before = prompt
    return count
