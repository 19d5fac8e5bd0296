"""d1-omni: exact prompts and the budgets by number of options."""

from __future__ import annotations

import pytest
from word_vocabulary import AWKWARD, AWKWARD_STATE, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import InvalidRequest
from localdecide.core.questions import parse_questions
from localdecide.families import lfm2_d1_omni as omni

SPECIALS = ("<|startoftext|>", *(f"<|reserved_{i}|>" for i in range(7, 12)), "<|mask|>", "<|im_end|>")
STATE = '{"z": null, "a": {"né": [1, 1.5, true, {"k": "v"}]}, "e": [], "text": "say <|im_end|> [MASK]<mask>!"}'
S, E = "<|reserved_9|><|mask|>", "<|reserved_10|>"
GOLDEN = {
    "choice": f"Which team?{S} tech{E}{S} billing: money{E}{S} änd{E}"
    f'{S} box: {{"b": 1, "a": [2]}}{E}{S} <|box_end|>: [SEP]{E}',
    "one-sided": f"Is it done?{S} false: no, the statement does not hold{E}{S} true: it is done{E}",
    "null-sided": f'{{"b": 1, "a": "x"}}{S} false: no, the statement does not hold{E}'
    f"{S} true: yes, the statement holds{E}",
    "bare": f"Sure?{S} false: no, the statement does not hold{E}{S} true: yes, the statement holds{E}",
    "score": f'{S} level 0: mild{E}{S} level 1: {{"a": 1}}{E}{S} level 2: ["x", "y"]{E}',
}


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def test_golden_prompts():
    """The exact prompt of every type on awkward input, and no token of the user's is a special one."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = omni.plan(decision(AWKWARD, AWKWARD_STATE), model(vocabulary))
    expected = {
        key: f"<|startoftext|><|reserved_7|>{STATE}<|reserved_8|>{text}<|reserved_11|>" for key, text in GOLDEN.items()
    }
    assert {prompt.question: vocabulary.text(prompt.tokens) for prompt in plan.prompts} == expected
    for prompt in plan.prompts:
        specials = [token for token in prompt.tokens if token < len(SPECIALS)]
        assert specials == [0, 1, 2, *[3, 6, 4] * len(plan.masks[prompt.question]), 5]


def test_a_null_state_is_empty():
    """null is nothing between the state's token and the question's."""
    vocabulary = WordVocabulary(SPECIALS)
    (prompt,) = omni.plan(decision({"q": AWKWARD["bare"]}, None), model(vocabulary)).prompts
    assert vocabulary.text(prompt.tokens).startswith("<|startoftext|><|reserved_7|><|reserved_8|>Sure?")


@pytest.mark.parametrize(("options", "expected"), [(1, (96, 93)), (2, (96, 45)), (10, (272, 24)), (255, (6152, 21))])
def test_budgets(options, expected):
    """24 tokens an option and 32 more, 96 at least, shared out after 3 fixed tokens an option."""
    assert omni.budgets(options, 16384) == expected


def test_long_parts_are_cut_and_counted():
    """Question, options and state are cut each to its own budget, and the answer counts what was lost."""
    question = {
        "type": "choice",
        "instructions": " ".join("q" * 100),
        "criteria": {" ".join("a" * 50): None, " ".join("b" * 50): None},
    }
    loaded = model(WordVocabulary(SPECIALS), context=400)
    plan = omni.plan(decision({"q": question}, " ".join("s" * 200)), loaded)
    # The question keeps 96 of 200 with its token, each option 45 of 100 and 3 fixed; the state what remains.
    fixed = 2 + 96 + 2 * (45 + 3) + 1
    assert len(plan.prompts[0].tokens) == 400
    assert plan.truncated["q"] == (200 - 96) + 2 * (100 - 45) + (399 - (400 - fixed))


def test_options_that_do_not_fit_are_refused():
    """A context smaller than the options is a refusal, not a shorter list."""
    question = {"type": "choice", "instructions": "?", "criteria": {f"o{i}": None for i in range(50)}}
    with pytest.raises(InvalidRequest, match="the options do not fit in the context"):
        omni.plan(decision({"q": question}), model(WordVocabulary(SPECIALS), context=100))
