"""What prompts begin with alike: the same tokens as without the short cut, for any state, on real tokenizers."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_prompts import model_of, vocabulary_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localdecide.core.decision import Decision
from localdecide.core.plan import Vocabulary
from localdecide.core.questions import Choice, Noul, Option, Score
from localdecide.families.beginning import Beginning, common, shared
from localdecide.families.label_prompts import LabelPrompts
from localdecide.families.registry import family_named
from localdecide.families.text import Guard
from tests.tiny import build

WORDS = [
    "the",
    " the",
    "Question",
    "\n",
    "\n\n",
    " ",
    "  ",
    "\t",
    ".",
    ".\n",
    "'s",
    "é",
    "東京",
    "🙂",
    "7",
    "<|im_end|>",
]
WORDS += ["<think>", "\u00a0", "\r\n", "a", "I'll", '"', "\\", "x" * 40, "QUESTION:"]
STATES = st.lists(st.sampled_from(WORDS), max_size=40).map("".join)


@pytest.fixture(scope="module", params=["smollm2", "qwen35", "lfm2"])
def vocabulary(request: pytest.FixtureRequest, smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    """The default model's tokenizer, and the pre-tokenizers of Qwen3.5 and LFM2."""
    if request.param == "smollm2":
        return vocabulary_of(smollm2)
    return vocabulary_of(build(request.param, tmp_path_factory.mktemp("tiny") / "m.gguf").path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=STATES, asked=STATES)
def test_tokens_are_those_of_the_whole_text(vocabulary: Vocabulary, state: str, asked: str) -> None:
    """However the state and the question end and begin, dividing changes no token."""
    questions = {"c": Choice((Option("a"), Option("b")), asked), "n": Noul(asked + "?"), "s": Score(("x", asked + "y"))}
    for family in ("openjev", "lev", "nimble", "xor", "lfm2-d1"):
        model = model_of(family, vocabulary)
        prompts = LabelPrompts(family_named(family).family, Decision(state, questions), model)
        for key in questions:
            whole = prompts.text(key)
            for escape in prompts.family.escapes:
                whole = whole.replace(escape + prompts.guard.mark, escape)
            expected = prompts.guard.encode(whole)
            if vocabulary.bos is not None and expected[0] != vocabulary.bos:
                expected = [vocabulary.bos, *expected]
            assert expected == list(prompts.of(key)[0].tokens)


def test_the_beginning_is_used(vocabulary: Vocabulary) -> None:
    """A long state is made into tokens once, not again for every prompt."""
    guard = Guard(vocabulary)
    calls: list[str] = []

    def encode(text: str) -> list[int]:
        calls.append(text)
        return guard.encode(text)

    state = "I was charged twice for one order. " * 50
    beginning = Beginning(encode, f"State:\n{state}\n\nQuestion: ")
    calls.clear()
    tokens = beginning.encode(f"State:\n{state}\n\nQuestion: Which team?")

    assert guard.encode(f"State:\n{state}\n\nQuestion: Which team?") == tokens
    assert max(map(len, calls)) < 200


def test_a_prompt_with_another_beginning(vocabulary: Vocabulary) -> None:
    """It is made into tokens by itself."""
    guard = Guard(vocabulary)

    assert guard.encode("Something else") == Beginning(guard.encode, "The state of it all is good.").encode(
        "Something else"
    )


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([], ""),
        (["abc"], ""),
        (["abc", "abd"], "ab"),
        (["abc", "abc"], "abc"),
        (["b", "a"], ""),
        (["ab", "abc", "a"], "a"),
    ],
)
def test_common(texts: list[str], expected: str) -> None:
    """The longest beginning that all have; one text alone has nothing in common."""
    assert expected == common(texts)


@pytest.mark.parametrize(
    ("beginning", "tokens", "expected"),
    [
        ([1, 2], [1, 2, 3], 2),
        ([1, 2, 3], [1, 2, 3], 2),
        ([1, 9], [1, 2, 3], 1),
        ([], [1], 0),
        ([1, 2, 3, 4], [1, 2], 1),
    ],
)
def test_shared(beginning: list[int], tokens: list[int], expected: int) -> None:
    """As far as both agree, and never the last token of the prompt, which is read."""
    assert expected == shared(beginning, tokens)
