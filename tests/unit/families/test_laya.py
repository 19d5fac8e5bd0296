"""laya and Julia-1: exact prompts, token budgets, and where the head looks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from word_vocabulary import AWKWARD, AWKWARD_STATE, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, PromptTooLong
from localdecide.core.questions import parse_questions
from localdecide.families import laya

SPECIALS = ("[CLS]", "[SEP]", "[MASK]", "<|im_end|>")
STATE = '{"z": null, "a": {"né": [1, 1.5, true, {"k": "v"}]}, "e": [], "text": "say <|im_end|>  <mask>!"}'
GOLDEN = {
    "choice": "[CLS]choice question: Which team?[SEP][MASK] tech[MASK] billing: money[MASK] änd"
    '[MASK] box: {"b": 1, "a": [2]}[MASK] <|box_end|>: [SEP][SEP]',
    "one-sided": "[CLS]noul question: Is it done?[SEP][MASK] false: no, the statement does not hold"
    "[MASK] true: it is done[SEP]",
    "null-sided": '[CLS]noul question: {"b": 1, "a": "x"}[SEP][MASK] false: no, the statement does not hold'
    "[MASK] true: yes, the statement holds[SEP]",
    "bare": "[CLS]noul question: Sure?[SEP][MASK] false: no, the statement does not hold"
    "[MASK] true: yes, the statement holds[SEP]",
    "score": '[CLS]score question: [SEP][MASK] level 0: mild[MASK] level 1: {"a": 1}[MASK] level 2: ["x", "y"][SEP]',
}
JULIA = {
    "choice": "<bos>choice question: Which team?<eos><mask> tech<mask> money<mask> änd"
    '<mask> {"b": 1, "a": [2]}<mask> [SEP]<eos>',
    "one-sided": "<bos>noul question: Is it done?<eos><mask> false<mask> it is done<eos>",
    "null-sided": '<bos>noul question: {"b": 1, "a": "x"}<eos><mask> false<mask> true<eos>',
    "bare": "<bos>noul question: Sure?<eos><mask> false<mask> true<eos>",
    "score": '<bos>score question: <eos><mask> mild<mask> {"a": 1}<mask> ["x", "y"]<eos>',
}
ROOMY = {"modern-bert.decision.max_head_tokens": 500, "general.architecture": "modern-bert"}


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def texts(vocabulary, plan):
    return {prompt.question: vocabulary.text(prompt.tokens) for prompt in plan.prompts}


def test_golden_prompts():
    """The exact prompt of every type; the mask's text in a state is a space, other look-alikes stay words."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = laya.plan(decision(AWKWARD, AWKWARD_STATE), model(vocabulary, ROOMY))
    assert texts(vocabulary, plan) == {key: f"{text}{STATE}[SEP]" for key, text in GOLDEN.items()}
    assert plan.attention == "bidirectional"
    for prompt in plan.prompts:
        specials = [token for token in prompt.tokens if token < len(SPECIALS)]
        assert specials == [0, 1, *[2] * len(plan.masks[prompt.question]), 1, 1]


def test_golden_prompts_of_julia():
    """Julia-1 shows the description alone, with its own tokenizer's special tokens."""
    vocabulary = WordVocabulary(("<bos>", "<eos>", "<mask>"))
    metadata = ROOMY | {"tokenizer.chat_template.systemone": laya.template_text("<bos>", "<eos>", "<mask>", julia=True)}
    metadata |= {"tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.seperator_token_id": 1}
    plan = laya.plan(decision(AWKWARD, "s"), model(vocabulary, metadata))
    assert texts(vocabulary, plan) == {key: f"{text}s<eos>" for key, text in JULIA.items()}


def test_masks_are_read_and_every_row_is_needed():
    """Blocks of the head look at all tokens; what is read in the end are the masks."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = laya.plan(decision({"q": AWKWARD["choice"]}), model(vocabulary, ROOMY))
    (prompt,) = plan.prompts
    assert prompt.reads[0].positions == tuple(range(len(prompt.tokens)))
    assert [vocabulary.piece(prompt.tokens[place]) for place in plan.masks["q"]] == ["[MASK]"] * 5
    assert prompt.shared == 0


def lengths(plan, masks_only=True):
    """Tokens of the question, of each option with its mask, and of the state."""
    (prompt,) = plan.prompts
    masks = plan.masks[prompt.question]
    end = prompt.tokens.index(1, masks[-1])
    bounds = [*masks, end]
    spans = [b - a for a, b in pairwise(bounds)]
    return prompt.tokens.index(1) - 1, spans, len(prompt.tokens) - end - 2


def asked(options, option_words, question_words, state_words=3):
    """Every word is a token and so is the space before it; its head takes 5 more."""
    question = {
        "type": "choice",
        "instructions": " ".join("q" * question_words),
        "criteria": {f"o{i}" + " w" * (option_words - 1): None for i in range(options)},
    }
    return decision({"q": question}, " ".join("s" * state_words))


@pytest.mark.parametrize(
    ("options", "option_words", "question_words", "expected"),
    [
        # An option's text is its words with a space before each: 2 tokens a word, and the mask.
        (2, 3, 3, (10, [7, 7], 5)),
        (2, 40, 3, (10, [49, 49], 5)),  # 48 tokens and the mask
        (3, 40, 40, (45, [49, 49, 49], 5)),  # question: 192 - 147
        (4, 40, 40, (16, [44, 44, 44, 44], 5)),  # (192 - 16) // 4 each, question: 16
        (8, 12, 40, (16, [22] * 8, 5)),
        (60, 5, 40, (8, [4] * 60, 5)),  # 4 each at least, and 8 for the question
    ],
)
def test_budgets(options, option_words, question_words, expected):
    """48 tokens an option, then an equal share, then what remains for the question; the state stays whole."""
    metadata = {"general.architecture": "modern-bert", "modern-bert.decision.max_head_tokens": 192}
    plan = laya.plan(asked(options, option_words, question_words), model(WordVocabulary(SPECIALS), metadata))
    assert lengths(plan) == expected
    whole = 5 + 2 * question_words - 1 + options * (2 * option_words + 1) + 5
    assert plan.truncated["q"] == whole - (expected[0] + sum(expected[1]) + expected[2])


def test_a_whole_prompts_limit_cuts_the_state():
    """A file that says how long a prompt was in training cuts the end of the state, and the answer counts it."""
    metadata = ROOMY | {"modern-bert.decision.max_length": 30}
    plan = laya.plan(asked(2, 3, 3, 40), model(WordVocabulary(SPECIALS), metadata))
    assert (len(plan.prompts[0].tokens), plan.truncated["q"]) == (30, 79 + 28 - 30)


def test_options_that_leave_no_room_are_refused():
    """Options that do not fit the whole prompt's limit are refused with both numbers."""
    metadata = ROOMY | {"modern-bert.decision.max_length": 20}
    with pytest.raises(PromptTooLong, match="need 28 tokens; this model was trained with 20"):
        laya.plan(asked(2, 3, 3), model(WordVocabulary(SPECIALS), metadata))


def test_a_template_without_masks_is_refused():
    """A template of another family in the file is found out at the first prompt."""
    with pytest.raises(BadModelFile, match="does not put masks"):
        laya.plan(asked(2, 3, 3), model(WordVocabulary(SPECIALS), prompt="[CLS]{{ state }}[SEP]"))


def test_a_vocabulary_without_a_mask_is_refused():
    """A file whose tokenizer has no mask token is named so."""
    with pytest.raises(BadModelFile, match="no mask token"):
        laya.plan(asked(2, 3, 3), model(WordVocabulary(("[CLS]", "[SEP]"))))
