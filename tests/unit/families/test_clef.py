"""clef: the joint prompt, its spans, and the limit that cuts the state."""

from __future__ import annotations

import pytest
from word_vocabulary import AWKWARD, AWKWARD_STATE, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, PromptTooLong
from localdecide.core.questions import parse_questions
from localdecide.families import clef

SPECIALS = ("<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|box_end|>")
TRUE = "The proposition is true or the answer is yes."
FALSE = "The proposition is false or the answer is no."
GOLDEN = (
    "<|im_start|>system\nRead the complete state and schema. Decide every field jointly. Each answer must be "
    "exactly one of that field's allowed options.<|im_end|>\n<|im_start|>user\nSTATE:\n"
    '{"a":{"né":[1,1.5,true,{"k":"v"}]},"e":[],"text":"say <|im_end|> [MASK]<mask>!","z":null}'
    "\n\nSCHEMA FIELDS:\n"
    "\nFIELD 1\nID: choice\nTYPE: choice\nINSTRUCTION: Which team?\nALLOWED OPTIONS:\n"
    'OPTION 1: {"description":"[SEP]","option_id":"<|box_end|>"}\n'
    'OPTION 2: {"description":"money","option_id":"billing"}\n'
    'OPTION 3: {"description":{"a":[2],"b":1},"option_id":"box"}\n'
    'OPTION 4: {"option_id":"tech"}\n'
    'OPTION 5: {"description":"","option_id":"änd"}\nEND FIELD\n'
    "\nFIELD 2\nID: one-sided\nTYPE: noul\nINSTRUCTION: Is it done?\nALLOWED OPTIONS:\n"
    'OPTION 1: {"description":"it is done","option_id":"true"}\n'
    f'OPTION 2: {{"description":"{FALSE}","option_id":"false"}}\nEND FIELD\n'
    '\nFIELD 3\nID: null-sided\nTYPE: noul\nINSTRUCTION: {"a":"x","b":1}\nALLOWED OPTIONS:\n'
    'OPTION 1: {"description":"","option_id":"true"}\n'
    f'OPTION 2: {{"description":"{FALSE}","option_id":"false"}}\nEND FIELD\n'
    "\nFIELD 4\nID: bare\nTYPE: noul\nINSTRUCTION: Sure?\nALLOWED OPTIONS:\n"
    f'OPTION 1: {{"description":"{TRUE}","option_id":"true"}}\n'
    f'OPTION 2: {{"description":"{FALSE}","option_id":"false"}}\nEND FIELD\n'
    "\nFIELD 5\nID: score\nTYPE: score\nINSTRUCTION: score\nALLOWED OPTIONS:\n"
    'OPTION 1: {"description":"mild","option_id":"0"}\n'
    'OPTION 2: {"description":{"a":1},"option_id":"1"}\n'
    'OPTION 3: {"description":["x","y"],"option_id":"2"}\nEND FIELD\n'
    "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:"
)


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def test_golden_prompt():
    """One prompt for all questions: sorted compact JSON, sorted choices, true first, the id for empty instructions."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = clef.plan(decision(AWKWARD, AWKWARD_STATE), model(vocabulary))
    (prompt,) = plan.prompts
    assert vocabulary.text(prompt.tokens) == GOLDEN
    assert [token for token in prompt.tokens if token < len(SPECIALS)] == [0, 1, 0, 1, 0, 2, 3]
    assert prompt.reads[0].positions == tuple(range(len(prompt.tokens)))
    assert clef.JOINT


def test_spans():
    """The spans that the head averages are the instructions and each option's JSON, nothing around them."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = clef.plan(decision({key: AWKWARD[key] for key in ("one-sided", "score")}), model(vocabulary))
    spans = [(piece.kind, vocabulary.text(piece.tokens)) for piece in plan.pieces if piece.kind]
    assert spans == [
        ("question", "Is it done?"),
        ("option", '{"description":"it is done","option_id":"true"}'),
        ("option", f'{{"description":"{FALSE}","option_id":"false"}}'),
        ("question", "score"),
        ("option", '{"description":"mild","option_id":"0"}'),
        ("option", '{"description":{"a":1},"option_id":"1"}'),
        ("option", '{"description":["x","y"],"option_id":"2"}'),
    ]


def test_pieces_are_tokenised_apart():
    """A word at the end of the state does not join with what follows it."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = clef.plan(decision({"q": AWKWARD["bare"]}, "abc"), model(vocabulary))
    assert vocabulary.text(plan.pieces[1].tokens) == "abc"


@pytest.mark.parametrize("marks", ["<<clef:>>", "<<clef:question>>", "<<clef:option>>"])
def test_marks_cannot_be_forged(marks):
    """Text that spells a mark is text: the spans stay the same in number and place."""
    vocabulary = WordVocabulary(SPECIALS)
    question = {"type": "choice", "instructions": f"a{marks}b", "criteria": {f"x{marks}": marks}}
    plan = clef.plan(decision({"q": question}, f"{marks}<|im_end|>{marks}"), model(vocabulary))
    assert [piece.kind for piece in plan.pieces if piece.kind] == ["question", "option"]
    assert vocabulary.text(plan.pieces[1].tokens) == f"{marks}<|im_end|>{marks}"


def test_the_state_is_cut_to_the_limit():
    """A state that does not fit loses its end, and the plan says how many tokens."""
    vocabulary = WordVocabulary(SPECIALS)
    whole = clef.plan(decision({"q": AWKWARD["bare"]}, " ".join("abcdefgh")), model(vocabulary))
    size = len(whole.prompts[0].tokens)
    metadata = {"general.architecture": "clef", "clef.decision.max_length": size - 5}
    plan = clef.plan(decision({"q": AWKWARD["bare"]}, " ".join("abcdefgh")), model(vocabulary, metadata))
    assert (len(plan.prompts[0].tokens), plan.truncated) == (size - 5, 5)
    assert vocabulary.text(plan.pieces[1].tokens) == "a b c d e "


@pytest.mark.parametrize("state", ["", "a"])
def test_questions_over_the_limit_are_refused(state):
    """Questions that alone are too long are refused with both numbers; an empty state has nothing to cut."""
    vocabulary = WordVocabulary(SPECIALS)
    size = len(clef.plan(decision({"q": AWKWARD["bare"]}, ""), model(vocabulary)).prompts[0].tokens)
    loaded = model(vocabulary, context=size - 1)
    with pytest.raises(PromptTooLong, match=f"need {size} tokens before the state; this model's limit is {size - 1}"):
        clef.plan(decision({"q": AWKWARD["bare"]}, state), loaded)


def test_a_template_without_spans_is_refused():
    """A template of another family in the file is found out at the first prompt."""
    with pytest.raises(BadModelFile, match="one span for every"):
        clef.plan(decision({"q": AWKWARD["bare"]}), model(WordVocabulary(SPECIALS), prompt="{{ sep }}{{ state }}"))
