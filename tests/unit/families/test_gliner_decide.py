"""GLiNER2.5-Decide: the items of a prompt, where it is read, and a whole tiny encoder by its parts."""

from __future__ import annotations

import numpy as np
import pytest
from word_vocabulary import AWKWARD, WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, UnsupportedInput
from localdecide.core.plan import Rows
from localdecide.core.questions import parse_questions
from localdecide.families import gliner_decide as gliner

SPECIALS = ("[SEP_STRUCT]", "[SEP_TEXT]", "[P]", "[C]", "[E]", "[R]", "[L]", "[EXAMPLE]", "[OUTPUT]", "[DESCRIPTION]")
GOLDEN = {
    "choice": "([P]choice: Which team? [DESCRIPTION] billing: money"
    ' [DESCRIPTION] box: {"b": 1, "a": [2]} [DESCRIPTION] <|box_end|>: [SEP]'
    "([L]tech[L]billing[L]änd[L]box[L]<|box_end|>))",
    "one-sided": "([P]one-sided: Is it done? [DESCRIPTION] true: it is done([L]true[L]false))",
    "null-sided": '([P]null-sided: {"b": 1, "a": "x"}([L]true[L]false))',
    "bare": "([P]bare: Sure?([L]true[L]false))",
    "score": '([P]score([L]mild[L]{"a": 1}[L]["x", "y"]))',
}


def decision(questions, state="s"):
    return Decision(state, parse_questions(questions))


def test_golden_prompts():
    """The exact items of every type; text is lower-cased and split in words, and its look-alikes are words."""
    vocabulary = WordVocabulary(SPECIALS)
    state = "See HTTPS://A.b/c?d, x@y.io @Me well-known [L] [SEP_TEXT] äÖ!"
    plan = gliner.plan(decision(AWKWARD, state), model(vocabulary))
    words = "seehttps://a.b/c?d,x@y.io@mewell-known[l][sep_text]äö!"
    assert {prompt.question: vocabulary.text(prompt.tokens) for prompt in plan.prompts} == {
        key: f"{text}[SEP_TEXT]{words}" for key, text in GOLDEN.items()
    }


def test_no_token_of_the_users_is_special():
    """Labels and text that spell markers are words: a prompt has one [L] for each option."""
    vocabulary = WordVocabulary(SPECIALS)
    question = {"type": "choice", "instructions": "[L] [P]", "criteria": {"[L]": "[DESCRIPTION]", "b": None}}
    (prompt,) = gliner.plan(decision({"[SEP_TEXT]": question}, "[L]"), model(vocabulary)).prompts
    assert [token for token in prompt.tokens if token < len(SPECIALS)] == [2, 9, 6, 6, 1]


def tiny_head(width=8, vocabulary=64):
    """One layer of random weights, and a classifier."""
    draw = np.random.default_rng(0).standard_normal
    shapes = {"encoder.rel_embeddings.weight": (16, width), "classifier.2.weight": (1, 2 * width)}
    shapes |= {"classifier.0.weight": (2 * width, width), "classifier.0.bias": (2 * width,), "classifier.2.bias": (1,)}
    at = "encoder.layer.0."
    for name in ("query_proj", "key_proj", "value_proj"):
        shapes |= {f"{at}attention.self.{name}.weight": (width, width), f"{at}attention.self.{name}.bias": (width,)}
    for name, size in (
        ("attention.output.dense", (width, width)),
        ("intermediate.dense", (16, width)),
        ("output.dense", (width, 16)),
    ):
        shapes |= {f"{at}{name}.weight": size, f"{at}{name}.bias": size[:1]}
    for name in ("embeddings.", "encoder.", f"{at}attention.output.", f"{at}output."):
        shapes |= {f"{name}LayerNorm.weight": (width,), f"{name}LayerNorm.bias": (width,)}
    keys = {"head_count": 2, "position_buckets": 8, "max_relative_positions": 32}
    tensors = {name: draw(shape).astype(np.float32) for name, shape in shapes.items()}
    return tensors | {"": {f"localdecide.head.{key}": value for key, value in keys.items()}}, draw((vocabulary, width))


def test_read_is_at_the_markers():
    """The logits are the classifier's on the encoder's rows at [L], in the order of the options."""
    vocabulary = WordVocabulary(SPECIALS)
    head, words = tiny_head()
    loaded = model(vocabulary, head=head)
    object.__setattr__(loaded, "output_rows", lambda tokens: words[tokens].astype(np.float32))
    asked = decision(
        {"c": {"type": "choice", "instructions": "?", "criteria": {"x": None, "y": None}}, "n": AWKWARD["bare"]}
    )
    plan = gliner.plan(asked, loaded)
    evidence = gliner.read(asked, loaded, plan, Rows([[], []]))
    from localdecide.families.heads.deberta import Deberta

    encoder = Deberta.load(head, loaded.output_rows, heads=2, buckets=8, reach=32)
    for prompt in plan.prompts:
        rows = encoder(list(prompt.tokens))[[i for i, token in enumerate(prompt.tokens) if token == 6]]
        inner = np.maximum(rows @ head["classifier.0.weight"].T + head["classifier.0.bias"], 0)
        expected = inner @ head["classifier.2.weight"][0] + head["classifier.2.bias"][0]
        assert evidence[prompt.question].variants[0] == pytest.approx(expected.tolist(), abs=1e-5)
        assert evidence[prompt.question].prompt_tokens == len(prompt.tokens)


def test_a_head_without_sizes_is_refused():
    """A head file that does not say how many heads its encoder has is named so."""
    head, words = tiny_head()
    del head[""]["localdecide.head.head_count"]
    loaded = model(WordVocabulary(SPECIALS), head=head)
    object.__setattr__(loaded, "output_rows", lambda tokens: words[tokens])
    asked = decision({"n": AWKWARD["bare"]})
    with pytest.raises(BadModelFile, match=r"lacks the key decision\.head_count"):
        gliner.read(asked, loaded, gliner.plan(asked, loaded), Rows([[]]))


def test_images_are_refused():
    """This family reads text."""
    asked = Decision("s", parse_questions({"n": AWKWARD["bare"]}), images=(b"png",))
    with pytest.raises(UnsupportedInput):
        gliner.plan(asked, model(WordVocabulary(SPECIALS)))
