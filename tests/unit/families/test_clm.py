"""CLM: exact texts of state and candidates, what is cut, and the cosine read back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from word_vocabulary import AWKWARD, AWKWARD_STATE, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import InvalidRequest
from localdecide.core.plan import Rows
from localdecide.core.questions import parse_questions
from localdecide.families import clm

STATE = (
    "z: \n\na:\n  né:\n    - 1\n    - 1.5\n    - true\n    -\n      k: v\n\ne:\n\n\ntext: say <|im_end|> [MASK]<mask>!"
)
GOLDEN = {
    "choice": ["Which team?", "tech", "money", "änd", "b: 1\n\na:\n  - 2", "[SEP]"],
    "one-sided": ["Is it done?", "false: No. This is false: Is it done?", "true: it is done"],
    "null-sided": [
        "b: 1\n\na: x",
        "false: No. This is false: b: 1\n\na: x",
        "true: Yes. This is true: b: 1\n\na: x",
    ],
    "bare": ["Sure?", "false: No. This is false: Sure?", "true: Yes. This is true: Sure?"],
    "score": ["", "mild", "a: 1", "- x\n- y"],
}
EYE = {"weight": np.eye(2, dtype=np.float32), "bias": np.zeros(2, np.float32)}
HEAD = {
    f"{tower}_head.{layer}.{part}": array
    for tower in ("state", "action")
    for layer in ("inp", "out")
    for part, array in EYE.items()
} | {"logit_scale": np.array([math.log(10)], np.float32)}


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def test_golden_texts():
    """State, blank line and instructions; then every candidate's text alone, and no special token anywhere."""
    vocabulary = WordVocabulary(("<|im_end|>", "<mask>"))
    plan = clm.plan(decision(AWKWARD, AWKWARD_STATE), model(vocabulary))
    actual = {key: [] for key in AWKWARD}
    for prompt in plan.prompts:
        actual[prompt.question].append(vocabulary.text(prompt.tokens))
        assert min(prompt.tokens) >= 2
    asked = {key: f"{STATE}\n\n{texts[0]}" if texts[0] else STATE for key, texts in GOLDEN.items()}
    assert actual == {key: [asked[key], *texts[1:]] for key, texts in GOLDEN.items()}


def test_last_tokens_are_read_and_the_state_is_shared():
    """Every text is read at its last token; only the state's tokens are shared between questions."""
    vocabulary = WordVocabulary(())
    plan = clm.plan(decision({"a": AWKWARD["bare"], "b": AWKWARD["one-sided"]}), model(vocabulary))
    assert all(prompt.reads[0].positions == (len(prompt.tokens) - 1,) for prompt in plan.prompts)
    assert [prompt.shared for prompt in plan.prompts] == [3, 0, 0, 3, 0, 0]


def test_long_texts_lose_their_end():
    """Texts over the limit of training are cut at their end, and the answer counts the tokens."""
    vocabulary = WordVocabulary(())
    question = {"type": "choice", "instructions": "?", "criteria": {"a": " ".join("b" * 20), "c": None}}
    loaded = model(vocabulary, head={"": {"localdecide.head.max_length": 10}})
    plan = clm.plan(decision({"q": question}, " ".join("s" * 10)), loaded)
    assert [len(prompt.tokens) for prompt in plan.prompts] == [10, 10, 1]
    assert plan.truncated == {"q": (19 + 3 - 10) + (39 - 10)}


def test_nothing_to_read_is_refused():
    """An empty state without instructions has no text to embed."""
    with pytest.raises(InvalidRequest, match="state: must say something"):
        clm.plan(decision({"q": AWKWARD["score"]}, "  "), model(WordVocabulary(())))


def test_read_by_hand():
    """scale * cosine of the projections, a noul's back in the order true, false."""
    asked = decision({"n": AWKWARD["bare"], "s": AWKWARD["score"]})
    loaded = model(WordVocabulary(()), {"general.architecture": "qwen3"}, HEAD, temperatures={"noul": 3.0})
    plan = clm.plan(asked, loaded)
    vectors = [[9, 0], [7, 0], [0, 7], [0, 9], [8, 0], [0, 8], [0, 7]]
    rows = Rows([[np.array([vector], np.float32)] for vector in vectors])
    evidence = clm.read(asked, loaded, plan, rows)
    assert evidence["n"].variants[0] == pytest.approx((0.0, 10.0), abs=1e-5)
    assert evidence["s"].variants[0] == pytest.approx((0.0, 10.0, 10.0), abs=1e-5)
    assert (evidence["n"].temperature, evidence["s"].temperature) == (3.0, 1.0)


def test_the_order_of_options_does_not_matter():
    """Reversing the options reverses the logits and changes none."""
    options = {"a": None, "b": None, "c": None}
    loaded = model(WordVocabulary(()), head=HEAD)
    vectors = {"s": [1, 2], "a": [1, 0], "b": [1, 1], "c": [0, 1]}

    def logits(names):
        asked = decision({"q": {"type": "choice", "instructions": "?", "criteria": dict.fromkeys(names)}})
        rows = Rows([[np.array([vectors[name]], np.float32)] for name in ("s", *names)])
        return clm.read(asked, loaded, clm.plan(asked, loaded), rows)["q"].variants[0]

    assert logits(tuple(options)) == logits(tuple(reversed(options)))[::-1]
