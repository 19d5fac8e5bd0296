"""From rows to evidence: order, orders, ratings, groups, temperatures and label mass, with numbers made by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from localdecide.core.decision import Decision, Options
from localdecide.core.errors import BadModelFile, InvalidRequest, NotSupported, PromptTooLong, UnsupportedInput
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.plan import LabelRow, Labels, Limits, Rows
from localdecide.core.probability import mean, softmax
from localdecide.core.questions import parse_questions
from localdecide.engine.fake import FakeEngine, FakeVocabulary
from localdecide.families import d3, lev, lfm2_d1, nimble, openjev, pplx_decider, systemone, tev1, xor
from localdecide.families.base import Family, Model, reading

CHOICE = {"type": "choice", "instructions": "?", "criteria": {"a": "x", "b": "y", "c": "z"}}
PAIR = {"type": "choice", "instructions": "?", "criteria": {"a": "x", "b": "y"}}
NOUL = {"type": "noul", "instructions": "?"}
SCORE = {"type": "score", "instructions": "?", "criteria": ["low", "mid", "high"]}


class Vocabulary(FakeVocabulary):
    """Bytes, and the words that these families read as one token."""

    def tokenize(self, text: str) -> list[int]:
        words = [" " + letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"] + ["YES", "NO"]
        return [2000 + words.index(text)] if text in words else super().tokenize(text)


def model(metadata: dict[str, Any] | None = None, head: dict[str, Any] | None = None, **spec: Any) -> Model:
    header = {"general.architecture": "qwen35", **(metadata or {})}
    return Model(ModelSpec("m", "p", **spec), Vocabulary(), Limits(1 << 20, 512), header, head or {})


def read(
    family: Family, loaded: Model, question: dict[str, Any], *logits: tuple[float, ...], **options: Any
) -> tuple[float, ...]:
    """Probabilities of one question whose prompts return these logits, one row each."""
    asked = Decision("s", parse_questions({"q": question}), options=Options(**options))
    plan = family.plan(asked, loaded)
    rows = Rows([[LabelRow(row, max(row) + 1.0, 0)] for row in logits])
    evidence = family.read(asked, loaded, plan, rows)["q"]
    return reading(evidence, asked.options.temperature).probabilities


def test_openjev_reads_yes_first() -> None:
    """The first letter of a noul is yes; a choice keeps its order; T is the checkpoint's."""
    loaded = model()

    assert pytest.approx(softmax([2.0, 1.0], 0.85 * 1.829074)) == read(openjev, loaded, NOUL, (2.0, 1.0))
    assert pytest.approx(softmax([3.0, 1.0, 2.0], 0.85)) == read(openjev, loaded, CHOICE, (3.0, 1.0, 2.0))
    assert pytest.approx(softmax([3.0, 1.0, 2.0], 0.85)) == read(openjev, loaded, SCORE, (3.0, 1.0, 2.0))


@pytest.mark.parametrize("family", [nimble, pplx_decider])
def test_false_comes_first(family: Family) -> None:
    """nimble and pplx-decider show false first: the second letter is the true side."""
    assert pytest.approx(softmax([1.0, 2.0])) == read(family, model(), NOUL, (2.0, 1.0))


def test_lev_averages_two_orders_of_a_choice() -> None:
    """The second prompt shows the options reversed; its probabilities are turned back and averaged."""
    actual = read(lev, model(), CHOICE, (3.0, 1.0, 2.0), (0.0, 1.0, 4.0))

    assert pytest.approx(mean([softmax([3.0, 1.0, 2.0]), softmax([4.0, 1.0, 0.0])])) == actual


def test_lev_rates_a_noul_from_0_to_8() -> None:
    """Nine labels are read; the noul is the expected rating over 8, at the noul's temperature."""
    loaded = model({"qwen35.decision.temperature.noul": 2.5})
    logits = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0)
    asked = Decision("s", parse_questions({"q": NOUL}))
    labels = lev.plan(asked, loaded).prompts[0].reads[0]
    assert isinstance(labels, Labels)
    expected = sum(p * i for i, p in enumerate(softmax(logits, 2.5))) / 8

    assert tuple(map(ord, "ABCDEFGHI")) == labels.tokens
    assert pytest.approx((expected, 1 - expected)) == read(lev, loaded, NOUL, logits)


def test_a_requests_temperature_replaces_the_models() -> None:
    """Also where the ratings are turned into one probability before it is applied."""
    loaded = model({"qwen35.decision.temperature.noul": 2.5})
    logits = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 4.0, 3.0, 2.0)
    expected = sum(p * i for i, p in enumerate(softmax(logits, 0.5))) / 8

    assert pytest.approx((expected, 1 - expected)) == read(lev, loaded, NOUL, logits, temperature=0.5)


def test_lev_survives_certainty() -> None:
    """A rating that takes all the mass gives 0 or 1, not an infinity."""
    certain = (1000.0, *[0.0] * 8)

    assert pytest.approx((0.0, 1.0)) == read(lev, model(), NOUL, certain)
    assert pytest.approx((1.0, 0.0)) == read(lev, model(), NOUL, certain[::-1])


@pytest.mark.parametrize(("count", "bucket"), [(2, "small"), (8, "small"), (9, "mid"), (26, "mid"), (27, "large")])
def test_lev_buckets(count: int, bucket: str) -> None:
    """lev's temperatures go by 8 and 26 options."""
    values = {"small": 1.5, "mid": 2.5, "large": 3.5}
    loaded = model({f"qwen35.decision.temperature.choice.{name}": value for name, value in values.items()})
    question = parse_questions({"q": {**CHOICE, "criteria": {str(i): None for i in range(count)}}})["q"]

    assert values[bucket] == lev.family.temperature(loaded, question)


@pytest.mark.parametrize(("count", "bucket"), [(2, "2"), (3, "3_5"), (5, "3_5"), (6, "6_10"), (10, "6_10"), (11, "11")])
def test_other_buckets(count: int, bucket: str) -> None:
    """All other types go by 2, 5 and 10 options; the bucket wins over the type."""
    values = {"2": 1.5, "3_5": 2.5, "6_10": 3.5, "11": 4.5}
    keys = {f"qwen35.decision.temperature.choice.{name}": value for name, value in values.items()}
    loaded = model({**keys, "qwen35.decision.temperature.choice": 9.0})
    question = parse_questions({"q": {**CHOICE, "criteria": {str(i): None for i in range(count)}}})["q"]

    assert values[bucket] == nimble.family.temperature(loaded, question)


def test_the_modelfile_wins_over_the_file() -> None:
    """TEMPERATURE, then the model's file, then the family's constant, then 1; each for its own name."""
    file = {"qwen35.decision.temperature.score": 3.0, "qwen35.decision.temperature.noul": 4.0}
    loaded = model(file, temperatures={"noul": 5.0})
    questions = parse_questions({"c": CHOICE, "n": NOUL, "s": SCORE})

    assert [0.85, 5.0, 3.0] == [openjev.family.temperature(loaded, question) for question in questions.values()]
    assert 1.0 == nimble.family.temperature(loaded, questions["c"])
    assert {"temperature": 5.0, "source": "Modelfile"} == openjev.describe(loaded)["temperatures"]["noul"]
    assert {"temperature": 3.0, "source": "the model's file"} == openjev.describe(loaded)["temperatures"]["score"]
    assert {"temperature": 0.85, "source": "the family"} == openjev.describe(loaded)["temperatures"]["choice"]


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), "warm"])
def test_a_temperature_that_is_not_one(value: Any) -> None:
    """A file's temperature that is not above 0 is the file's fault, said by its key."""
    with pytest.raises(BadModelFile, match="decision.temperature.choice"):
        read(openjev, model({"qwen35.decision.temperature.choice": value}), CHOICE, (1.0, 2.0, 3.0))


def test_label_mass_counts_every_label() -> None:
    """The mass of the labels in the whole vocabulary, averaged over the orders; whether the top token is a label."""
    loaded = model()
    asked = Decision("s", parse_questions({"q": PAIR}))
    plan = lev.plan(asked, loaded)
    first, second = (LabelRow((0.0, 0.0), math.log(4), ord("A")), LabelRow((0.0, 0.0), math.log(8), 7))
    evidence = lev.read(asked, loaded, plan, Rows([[first], [second]]))["q"]

    assert pytest.approx((0.5 + 0.25) / 2) == evidence.label_mass
    assert evidence.argmax_is_label is False
    assert sum(len(prompt.tokens) for prompt in plan.prompts) == evidence.prompt_tokens


def test_liquid_takes_the_likeliest_of_a_labels_tokens() -> None:
    """A code with and without a space; yes, Yes and YES; each group's greatest logit counts, true first."""
    loaded = model()
    asked = Decision("s", parse_questions({"q": NOUL}))
    labels = lfm2_d1.plan(asked, loaded).prompts[0].reads[0]
    assert isinstance(labels, Labels)

    assert len(labels.tokens) == 6
    assert pytest.approx(softmax([3.0, 2.5])) == read(lfm2_d1, loaded, NOUL, (1.0, 3.0, 2.0, 2.5, 0.0, -1.0))
    listed = {**PAIR, "criteria": {"one": None, "two": None}}
    assert pytest.approx(softmax([2.0, 5.0])) == read(lfm2_d1, loaded, listed, (1.0, 2.0, 5.0, 0.0))


def test_liquid_uses_names_that_are_letters() -> None:
    """Options named by single letters are their own codes; others get A, B, ..., beyond 26 two digits or the pool."""
    loaded = model()
    asked = parse_questions(
        {
            "named": {**CHOICE, "criteria": {"b": "x", "Z": None}},
            "listed": {**CHOICE, "criteria": {"b": "x", "é": None}},
            "many": {**CHOICE, "criteria": {f"o{i}": None for i in range(60)}},
        }
    )
    codes = {key: lfm2_d1.codes(loaded, key, question) for key, question in asked.items()}

    assert ("b", "Z") == codes["named"].texts
    assert ("A", "B") == codes["listed"].texts
    # This vocabulary has no two-digit tokens: the pool gives A to Z, a to z, then AA and on.
    assert (*"ABC", "AH") == (*codes["many"].texts[:3], codes["many"].texts[-1])
    assert len(set(codes["many"].texts)) == 60


def test_xor_averages_logits_of_three_and_probabilities_of_two() -> None:
    """From three options on, the logits of both orders are averaged and divided by 1.5 once."""
    three = read(xor, model(), CHOICE, (3.0, 1.0, 2.0), (0.0, 1.0, 4.0))
    two = read(xor, model(), PAIR, (3.0, 1.0), (0.0, 1.0))
    noul = read(xor, model(), NOUL, (3.0, 1.0), (0.0, 1.0))

    assert pytest.approx(softmax([3.5, 1.0, 1.0], 1.5)) == three
    assert pytest.approx(mean([softmax([3.0, 1.0], 2.2), softmax([1.0, 0.0], 2.2)])) == two
    assert pytest.approx(mean([softmax([3.0, 1.0], 2.0), softmax([1.0, 0.0], 2.0)])) == noul


def test_xor_reads_letters_with_a_space() -> None:
    """The label tokens are those of " A", " B", though the prompt lists "A:" and "B:"."""
    asked = Decision("s", parse_questions({"q": PAIR}))
    forward, backward = xor.plan(asked, model()).prompts
    labels = forward.reads[0]
    assert isinstance(labels, Labels)
    texts = ["".join(map(Vocabulary().piece, prompt.tokens)) for prompt in (forward, backward)]

    assert (2000, 2001) == labels.tokens
    assert "A: x\nB: y\n" in texts[0]
    assert "A: y\nB: x\n" in texts[1]


def head(rows: Any, **keys: Any) -> dict[str, Any]:
    said = {f"localdecide.head.{name}": value for name, value in keys.items()}
    return {"readout.weight": np.asarray(rows, np.float32), "": said}


@pytest.mark.parametrize("family", [d3, pplx_decider])
def test_a_readout_head_reads_the_last_row(family: Family) -> None:
    """W h of the last token, false first, divided by the head's temperature; no label mass."""
    loaded = model(head=head([[1, 0], [0, 1], [1, 1]], temperature=0.75, codes=["A", "B", "C"]))
    asked = Decision("s", parse_questions({"n": NOUL, "c": CHOICE}))
    plan = family.plan(asked, loaded)
    hidden = np.asarray([[2.0, 1.0]], np.float32)
    evidence = family.read(asked, loaded, plan, Rows([[hidden], [hidden]]))

    assert [(len(prompt.tokens) - 1,) for prompt in plan.prompts] == [
        prompt.reads[0].positions for prompt in plan.prompts
    ]
    assert pytest.approx(softmax([1.0, 2.0], 0.75)) == reading(evidence["n"]).probabilities
    assert pytest.approx(softmax([2.0, 1.0, 3.0], 0.75)) == reading(evidence["c"]).probabilities
    assert evidence["n"].label_mass is None


@pytest.mark.parametrize(
    ("said", "expected"), [("bidirectional", "bidirectional"), ("causal", "causal"), (None, "causal")]
)
def test_the_heads_file_says_how_attention_looks(said: str | None, expected: str) -> None:
    """Bidirectional plans share nothing; ATTENTION of the Modelfile wins."""
    loaded = model(head=head(np.eye(3), **({"attention": said} if said else {})))
    asked = Decision("state " * 20, parse_questions({"n": NOUL}))
    plan = pplx_decider.plan(asked, loaded)

    assert expected == plan.attention
    assert (expected == "causal") == (plan.prompts[0].shared > 0)
    forced = model(head=loaded.head, attention="bidirectional")
    assert pplx_decider.plan(asked, forced).attention == "bidirectional"


def test_codes_of_the_heads_file() -> None:
    """The prompt shows the file's own codes, and a question may have as many options as it has codes."""
    loaded = model(head=head(np.eye(2), codes=["K", "QX"]))
    text = "".join(
        map(
            Vocabulary().piece, pplx_decider.plan(Decision("s", parse_questions({"q": PAIR})), loaded).prompts[0].tokens
        )
    )

    assert "K: a: x\nQX: b: y\n" in text
    with pytest.raises(UnsupportedInput, match=r"too many options \(3\), this model supports at most 2"):
        pplx_decider.plan(Decision("s", parse_questions({"q": CHOICE})), loaded)


def test_a_prompt_longer_than_training_is_refused() -> None:
    """With both numbers; nothing is cut."""
    loaded = model(head=head(np.eye(2), max_length=50))

    with pytest.raises(PromptTooLong, match="trained with at most 50"):
        d3.plan(Decision("word " * 50, parse_questions({"q": PAIR})), loaded)
    assert d3.describe(loaded)["limits"]["tokens"] == "50; a longer prompt is refused"


def test_d3_needs_its_head_and_levels_that_differ() -> None:
    """Without a head there is nothing to read; equal level texts cannot be told apart."""
    twice = {**SCORE, "criteria": ["same", "same"]}

    with pytest.raises(NotSupported, match="HEAD"):
        d3.plan(Decision("s", parse_questions({"q": PAIR})), model())
    with pytest.raises(InvalidRequest, match="distinct"):
        d3.plan(Decision("s", parse_questions({"q": twice})), model(head=head(np.eye(3))))


def test_openjev_refuses_53_options() -> None:
    """52 letters, 52 options; the sentence names both numbers."""
    many = {**CHOICE, "criteria": {str(i): None for i in range(53)}}

    with pytest.raises(UnsupportedInput, match=r"too many options \(53\), this model supports at most 52"):
        openjev.plan(Decision("s", parse_questions({"q": many})), model())


def test_a_vocabulary_without_the_letters_is_the_files_fault() -> None:
    """A label that is not one token cannot be read."""

    class Split(Vocabulary):
        def tokenize(self, text: str) -> list[int]:
            return [1, 2] if text == "B" else super().tokenize(text)

    loaded = Model(ModelSpec("m", "p"), Split(), Limits(4096, 512))

    with pytest.raises(BadModelFile, match='label "B"'):
        openjev.plan(Decision("s", parse_questions({"q": PAIR})), loaded)


@pytest.mark.parametrize("family", [openjev, lev, nimble, pplx_decider, tev1, xor, lfm2_d1])
def test_what_no_label_family_takes(family: Family) -> None:
    """Images, a system message, LABELS and READOUT are refused, not ignored."""
    questions = parse_questions({"q": PAIR})

    with pytest.raises(UnsupportedInput, match="text only"):
        family.plan(Decision("s", questions, images=(b"png",)), model())
    with pytest.raises(UnsupportedInput, match="system message"):
        family.plan(Decision("s", questions, options=Options(system="x")), model())
    with pytest.raises(NotSupported, match="LABELS"):
        family.plan(Decision("s", questions), model(labels={"noul": ("ja", "nein")}))
    with pytest.raises(NotSupported, match="READOUT"):
        family.plan(Decision("s", questions), model(readouts={"choice": Readout("rotations")}))


@pytest.mark.parametrize("family", [openjev, lev, nimble, tev1])
def test_a_state_of_null_is_refused(family: Family) -> None:
    """As upstream refuses it; an empty text is a state."""
    with pytest.raises(InvalidRequest, match="state: must not be null"):
        family.plan(Decision(None, parse_questions({"q": PAIR})), model())
    assert family.plan(Decision("", parse_questions({"q": PAIR})), model()).prompts


def test_a_readout_by_its_own_name() -> None:
    """READOUT with the name of the family's own readout gives its temperature."""
    loaded = model(readouts={"choice": Readout("letters", 3.0)})

    assert pytest.approx(softmax([3.0, 1.0, 2.0], 3.0)) == read(openjev, loaded, CHOICE, (3.0, 1.0, 2.0))


def test_labels_of_a_modelfile() -> None:
    """PROMPT with LABELS: the words shown are the words read, a noul's true side first, T from TEMPERATURE."""
    prompt = "{{ state }} {{ instructions }}{% for o in options %} {{ o.label }}={{ o.key }}{% endfor %}:"
    loaded = model(prompt=prompt, labels={"noul": ("Yes", "No"), "choice": ("X", "Y")}, temperatures={"noul": 2.3})
    asked = Decision("s", parse_questions({"n": NOUL, "c": PAIR, "s": SCORE}))
    plan = systemone.plan(asked, loaded)
    texts = ["".join(map(loaded.vocabulary.piece, each.tokens)) for each in plan.prompts]
    reads = [each.reads[0].tokens for each in plan.prompts if isinstance(each.reads[0], Labels)]
    words = [tuple(map(loaded.vocabulary.piece, tokens)) for tokens in reads]

    assert ["s ? Yes=true No=false:", "s ? X=a Y=b:", "s ? 0=0 1=1 2=2:"] == texts
    assert [("Yes", "No"), ("X", "Y"), ("0", "1", "2")] == words
    assert pytest.approx(softmax([2.0, 1.0], 2.3)) == read(systemone, loaded, NOUL, (2.0, 1.0))
    with pytest.raises(UnsupportedInput, match="at most 2"):
        systemone.plan(Decision("s", parse_questions({"q": CHOICE})), loaded)


def test_a_model_nobody_described() -> None:
    """FAMILY systemone without PROMPT and without a template in the file says what is missing."""
    with pytest.raises(NotSupported, match="PROMPT"):
        systemone.plan(Decision("s", parse_questions({"q": PAIR})), model())


def test_the_files_template_is_used_and_prompt_wins_over_it() -> None:
    """PROMPT, then the template in the file, then the family's own words; `show` says which."""
    key = "tokenizer.chat_template.systemone"
    asked = Decision("s", parse_questions({"q": PAIR}))
    own, file, said = model(), model({key: "F {{ state }}"}), model({key: "F"}, prompt="P {{ id }}")
    texts = [
        "".join(map(Vocabulary().piece, openjev.plan(asked, each).prompts[0].tokens)) for each in (own, file, said)
    ]

    assert ["<|im_", "F s", "P q"] == [text[:5] for text in texts]
    assert ["the family's own words", "the template in the model's file", "the Modelfile's PROMPT"] == [
        openjev.describe(each)["prompt"] for each in (own, file, said)
    ]


@pytest.mark.parametrize("family", [lev, xor])
def test_two_orders_forget_the_order(family: Family) -> None:
    """A choice of two put in both orders has the same probabilities whichever option the caller lists first."""
    turned = {**PAIR, "criteria": {"b": "y", "a": "x"}}
    engine = FakeEngine("seed")
    loaded = Model(ModelSpec("m", "p"), engine.vocabulary, engine.limits, engine.metadata)
    found = []
    for question in (PAIR, turned):
        asked = Decision("s", parse_questions({"q": question}))
        plan = family.plan(asked, loaded)
        evidence = family.read(asked, loaded, plan, engine.evaluate(plan))["q"]
        found.append(dict(zip(asked.questions["q"].keys, reading(evidence).probabilities, strict=True)))

    assert pytest.approx(found[0]) == found[1]
    assert abs(found[0]["a"] - 0.5) > 1e-3


def test_nimble_says_that_its_answers_depend_on_each_other() -> None:
    """Every prompt shows the whole schema, so the family is joint; no other label family is."""
    assert [True, False, False] == [nimble.JOINT, lev.JOINT, openjev.JOINT]


def test_nimble_changes_its_words_beyond_26_options() -> None:
    """ "one-letter" becomes "short" in every prompt as soon as one question has more than 26 options."""
    many = {**CHOICE, "criteria": {f"o{i}": None for i in range(27)}}
    plan = nimble.plan(Decision("s", parse_questions({"q": PAIR, "m": many})), model())
    texts = ["".join(map(Vocabulary().piece, prompt.tokens)) for prompt in plan.prompts]

    assert [2, 2] == [text.count(" short code") for text in texts]
    assert plan.prompts[0].shared == plan.prompts[1].shared > 0
