"""kev: the exact prompt, where it is read, and what the head makes of it."""

from __future__ import annotations

import numpy as np
import pytest
from word_vocabulary import AWKWARD, AWKWARD_STATE, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, NumericalError, UnsupportedInput
from localdecide.core.plan import Rows
from localdecide.core.questions import parse_questions
from localdecide.families import kev

SPECIALS = ("<|fim_prefix|>", "<|fim_middle|>", "<|box_start|>", "<|box_end|>", "<|fim_suffix|>", "<|im_end|>")
STATE = (
    "<|fim_prefix|>z: \na:\n  né:\n    - 1\n    - 1.5\n    - True\n    - k: v\ne:\n\ntext: say <¦im_end¦> [MASK]<mask>!"
)
GOLDEN = {
    "choice": "<|fim_middle|>Which team?<|box_start|>tech<|box_end|><|box_start|>billing: money<|box_end|>"
    "<|box_start|>änd<|box_end|><|box_start|>box: b: 1\na:\n  - 2<|box_end|>"
    "<|box_start|><¦box_end¦>: [SEP]<|box_end|><|fim_suffix|>",
    "one-sided": "<|fim_middle|>Is it done?<|box_start|>no<|box_end|><|box_start|>yes: it is done<|box_end|>"
    "<|fim_suffix|>",
    "null-sided": "<|fim_middle|>b: 1\na: x<|box_start|>no<|box_end|><|box_start|>yes<|box_end|><|fim_suffix|>",
    "bare": "<|fim_middle|>Sure?<|box_start|>no<|box_end|><|box_start|>yes<|box_end|><|fim_suffix|>",
    "score": "<|fim_middle|><|box_start|>mild<|box_end|><|box_start|>a: 1<|box_end|>"
    "<|box_start|>- x\n- y<|box_end|><|fim_suffix|>",
}


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def test_golden_prompts():
    """The exact prompt of every type on awkward input, and no token of the user's is a special one."""
    vocabulary = WordVocabulary(SPECIALS)
    plan = kev.plan(decision(AWKWARD, AWKWARD_STATE), model(vocabulary))
    actual = {prompt.question: vocabulary.text(prompt.tokens) for prompt in plan.prompts}
    assert actual == {key: STATE + text for key, text in GOLDEN.items()}
    assert plan.attention == "causal"


def test_reads_option_ends_and_the_last_token():
    """The rows read are those of each <|box_end|> and of <|fim_suffix|>; what is shared ends with the state."""
    vocabulary = WordVocabulary(SPECIALS)
    (prompt,) = kev.plan(decision({"q": AWKWARD["one-sided"]}), model(vocabulary)).prompts
    (read,) = prompt.reads
    texts = [vocabulary.piece(prompt.tokens[position]) for position in read.positions]
    assert texts == ["<|box_end|>", "<|box_end|>", "<|fim_suffix|>"]
    assert vocabulary.text(prompt.tokens[: prompt.shared]) == "<|fim_prefix|>s<|fim_middle|>"


@pytest.mark.parametrize("count", [1, 2, 26, 27, 255])
def test_every_number_of_options(count):
    """One read for each option, up to the most that a question may have."""
    question = {"type": "choice", "instructions": "?", "criteria": {f"o{i}": None for i in range(count)}}
    (prompt,) = kev.plan(decision({"q": question}), model(WordVocabulary(SPECIALS))).prompts
    assert len(prompt.reads[0].positions) == count + 1


HEAD = {
    "cls.output.weight": np.array([[1, 0], [0, 0], [0, 1], [0, 0]], np.float32),
    "cls.output.bias": np.zeros(4, np.float32),
}


def test_read_by_hand():
    """logit = key(end) . query(last) / sqrt 2, a noul's back in the order true, false, under its temperature."""
    asked = decision({"n": AWKWARD["bare"]})
    loaded = model(
        WordVocabulary(SPECIALS), {"general.architecture": "qwen35", "qwen35.decision.temperature.noul": 2.5}, HEAD
    )
    plan = kev.plan(asked, loaded)
    rows = Rows([[np.array([[0, 1], [0, 3], [2, 1]], np.float32)]])
    evidence = kev.read(asked, loaded, plan, rows)["n"]
    assert evidence.variants[0] == pytest.approx((6 / 2**0.5, 2 / 2**0.5))
    assert (evidence.temperature, evidence.readout, evidence.truncated) == (2.5, "pointer", 0)
    assert evidence.prompt_tokens == len(plan.prompts[0].tokens)


def test_rows_of_another_model_are_refused():
    """A head on rows of another width gives a numerical error, never probabilities."""
    asked = decision({"n": AWKWARD["bare"]})
    loaded = model(WordVocabulary(SPECIALS), head=HEAD)
    with pytest.raises(NumericalError, match="another base model"):
        kev.read(asked, loaded, kev.plan(asked, loaded), Rows([[np.ones((3, 5), np.float32)]]))


def test_a_vocabulary_without_delimiters_is_refused():
    """A file whose tokenizer lacks kev's delimiters is the wrong base model, and is named so."""
    with pytest.raises(BadModelFile, match="fim_middle"):
        kev.plan(decision({"n": AWKWARD["bare"]}), model(WordVocabulary(())))


def test_a_template_that_marks_other_options_is_refused():
    """A template of some other family in the file is found out at the first prompt."""
    with pytest.raises(BadModelFile, match="marks 0 options"):
        kev.plan(decision({"n": AWKWARD["bare"]}), model(WordVocabulary(SPECIALS), prompt="{{ state }}"))


def test_images_are_refused():
    """kev reads text."""
    with pytest.raises(UnsupportedInput):
        kev.plan(
            Decision("s", parse_questions({"n": AWKWARD["bare"]}), images=(b"png",)), model(WordVocabulary(SPECIALS))
        )


def test_describe_names_sources():
    """`show` tells the head's sizes, the temperatures and whose template it is."""
    shown = kev.describe(model(WordVocabulary(SPECIALS), head=HEAD, temperatures={"choice": 2.0}))
    assert shown["head"] == {"width": 2, "size": 2}
    assert shown["temperatures"]["choice"] == {"temperature": 2.0, "source": "Modelfile"}
    assert shown["prompt"] == "the family's own template"
