"""laya, Julia-1 and d1-omni end to end: tiny random encoders and marker heads in files, against PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402

from localdecide.families import laya  # noqa: E402
from tests.tiny import lfm2, modern_bert, reference  # noqa: E402

pytestmark = pytest.mark.reference

KINDS = {"choice": 0, "score": 1, "noul": 2}
# llama.cpp's GELU on CPUs is a half-precision table and the tanh form; PyTorch's is exact.
LAYA, SILU, OMNI = 2e-3, 1e-4, 1e-4
TEMPERATURES = {"choice": 2.0, "noul": 1.5, "score": 0.7, "choice.3_5": 1.2, "choice.11": 3.0}
HEAD_TOKENS = 192
ENCODED_STATE = hm.JSON.replace("[MASK]", " ")


def temperature(kind, count):
    bucket = "2" if count <= 2 else "3_5" if count <= 5 else "6_10" if count <= 10 else "11"
    return TEMPERATURES.get(f"{kind}.{bucket}", TEMPERATURES[kind])


def texts(question):
    """Option texts in the prompt's order: the wording of laya."""
    criteria = question["criteria"]
    if question["type"] == "choice":
        return [f" {name}: {text}" if text else f" {name}" for name, text in criteria.items()]
    if question["type"] == "score":
        return [" level 0: mild", ' level 1: {"a": 1}', ' level 2: ["x", "y"]']
    return [" false: no, the statement does not hold", " true: it costs"]


def asked(question):
    return question["instructions"] if question["type"] != "score" else '{"ask": "How bad?"}'


@dataclass
class Tiny:
    backbone: Any
    head: Any
    product: Any

    def tokens(self, text):
        return hm.tokenize(self.backbone.path, text)

    def id(self, text):
        return self.backbone.vocabulary.id(text)

    def logits(self, tokens, kind, masks, *, causal=False):
        hidden = torch.from_numpy(reference.forward(self.backbone, tokens, causal=causal)[0])
        with torch.no_grad():
            return self.head(hidden, KINDS[kind], masks).numpy()

    def gap(self, question, logits, **options):
        reading = hm.decide(self.product, hm.STATE, {"q": question}).readings["q"]
        kind = question["type"]
        divisor = options.pop("divisor", temperature(kind, len(logits)))
        return hm.gap(reading, logits, divisor, false_first=kind == "noul"), reading


def open_tiny(folder, build, arch, **options):
    keys = {f"{arch}.decision.temperature.{name}": value for name, value in TEMPERATURES.items()}
    keys |= options.pop("keys", {})
    backbone = build(folder / "backbone.gguf", seed=6, metadata=keys, **options)
    head = torch_heads.scramble(torch_heads.Marker(64, 4, 2, 1e-5), 12, 1.2)
    file = hm.write_head(folder / "head.gguf", torch_heads.marker_to_gguf(head, 3), keys)
    return Tiny(backbone, head, hm.load(backbone.path, file, num_ctx=2048))


@pytest.fixture(scope="module", params=["gelu", "silu"])
def bert(tmp_path_factory, request):
    keys = {"modern-bert.decision.type": "laya", "modern-bert.decision.max_head_tokens": HEAD_TOKENS}
    folder = tmp_path_factory.mktemp(request.param)
    return open_tiny(folder, modern_bert.build, "modern-bert", keys=keys, hidden_activation=request.param)


def laya_prompt(tiny, question):
    """The reference's budgets, by its published rule: tokens, mask positions, and how many tokens were cut."""
    options = [[tiny.id("[MASK]"), *tiny.tokens(text)] for text in texts(question)]
    head = tiny.tokens(f"{question['type']} question: {asked(question)}")
    whole = len(head) + sum(map(len, options))
    options = [option[:49] for option in options]
    budget = HEAD_TOKENS - sum(map(len, options))
    if budget < 16:
        options = [option[: max(4, (HEAD_TOKENS - 16) // len(options))] for option in options]
        budget = HEAD_TOKENS - sum(map(len, options))
    head = head[: max(8, budget)]
    tokens, masks = [tiny.id("[CLS]"), *head, tiny.id("[SEP]")], []
    for option in options:
        masks.append(len(tokens))
        tokens += option
    tokens += [tiny.id("[SEP]"), *tiny.tokens(ENCODED_STATE), tiny.id("[SEP]")]
    return tokens, masks, whole - len(head) - sum(map(len, options))


LONG = hm.choice(5) | {"instructions": "Which of them? " * 40}
LONG["criteria"] = {name * 12: text for name, text in hm.choice(5)["criteria"].items()}
QUESTIONS = [*(hm.choice(count) for count in (1, 2, 5, 26, 27, 255)), hm.NOUL, hm.SCORE, LONG]


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda q: f"{q['type']}-{len(q['criteria'])}")
def test_laya(bert, question):
    """Every type and size agrees; with SiLU, which has no table in llama.cpp, to 1e-4."""
    tokens, masks, cut = laya_prompt(bert, question)
    gap, reading = bert.gap(question, bert.logits(tokens, question["type"], masks))
    assert gap < (SILU if bert.backbone.config["hidden_activation"] == "silu" else LAYA)
    assert (reading.prompt_tokens, reading.truncated) == (len(tokens), cut)


def test_laya_is_bidirectional_and_wrong_ones_show(bert):
    """A moved mask, another type, a wrong bucket or a lost state moves the answer beyond the tolerance."""
    question = hm.choice(5)
    tokens, masks, _ = laya_prompt(bert, question)
    good = bert.logits(tokens, "choice", masks)
    assert bert.gap(question, good)[0] < LAYA
    for logits in (
        bert.logits(tokens, "choice", [mask + 1 for mask in masks]),
        bert.logits(tokens, "noul", masks),
        bert.logits(tokens[: masks[-1] + 2], "choice", masks),
    ):
        assert bert.gap(question, logits)[0] > 5 * LAYA
    assert bert.gap(question, good, divisor=TEMPERATURES["choice"])[0] > 5 * LAYA


@pytest.fixture(scope="module")
def omni(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omni")
    keys = {"lfm2.decision.type": "lfm2-d1-omni", "lfm2.attention.layer_norm_epsilon": 1e-5}
    return open_tiny(folder, lfm2.build, "lfm2", keys=keys, causal=False)


def omni_prompt(tiny, question, limit=16384):
    count = len(texts(question))
    room = max(96, min(24 * count + 32, limit // 2))
    head = [tiny.id("<|reserved_8|>"), *tiny.tokens(asked(question))]
    options = [tiny.tokens(text) for text in texts(question)]
    whole = len(head) + sum(map(len, options))
    head = head[: max(16, room)]
    options = [option[: max(2, (room - 3 * count) // count)] for option in options]
    tokens = [tiny.id("<|startoftext|>"), tiny.id("<|reserved_7|>"), *tiny.tokens(hm.JSON), *head]
    masks = []
    for option in options:
        tokens += [tiny.id("<|reserved_9|>"), tiny.id("<|mask|>")]
        masks.append(len(tokens) - 1)
        tokens += [*option, tiny.id("<|reserved_10|>")]
    return [*tokens, tiny.id("<|reserved_11|>")], masks, whole - len(head) - sum(map(len, options))


@pytest.mark.parametrize(
    "question", [*QUESTIONS[:5], *QUESTIONS[6:]], ids=lambda q: f"{q['type']}-{len(q['criteria'])}"
)
def test_omni(omni, question):
    """Every type and size agrees to 1e-4, token counts exactly."""
    tokens, masks, cut = omni_prompt(omni, question)
    gap, reading = omni.gap(question, omni.logits(tokens, question["type"], masks))
    assert gap < OMNI
    assert (reading.prompt_tokens, reading.truncated) == (len(tokens), cut)


def test_omni_with_the_most_options(omni):
    """255 options, each cut to its share of the budget, agree as well."""
    question = QUESTIONS[5]
    tokens, masks, cut = omni_prompt(omni, question)
    head = omni.backbone.path.parent / "head.gguf"
    wide = Tiny(omni.backbone, omni.head, hm.load(omni.backbone.path, head, num_ctx=16384))
    gap, reading = wide.gap(question, wide.logits(tokens, "choice", masks))
    assert len(masks) == 255
    assert gap < OMNI
    assert (reading.prompt_tokens, reading.truncated) == (len(tokens), cut)


def test_omni_is_bidirectional_and_wrong_ones_show(omni):
    """A moved mask, another type or a causal backbone moves the answer far beyond the tolerance."""
    question = hm.choice(5)
    tokens, masks, _ = omni_prompt(omni, question)
    assert omni.gap(question, omni.logits(tokens, "choice", masks))[0] < OMNI
    for logits in (
        omni.logits(tokens, "choice", [mask + 1 for mask in masks]),
        omni.logits(tokens, "noul", masks),
        omni.logits(tokens, "choice", masks, causal=True),
    ):
        assert omni.gap(question, logits)[0] > 100 * OMNI


def test_our_template_is_what_the_reference_says(bert):
    """The template that our converter writes renders the prompt that the family renders without one."""
    text = laya.template_text("[CLS]", "[SEP]", "[MASK]")
    keys = {"modern-bert.decision.type": "laya", "tokenizer.chat_template.systemone": text}
    folder = bert.backbone.path.parent
    activation = bert.backbone.config["hidden_activation"]
    build = modern_bert.build(folder / "own.gguf", seed=6, metadata=keys, hidden_activation=activation)
    file = hm.write_head(folder / "own-head.gguf", torch_heads.marker_to_gguf(bert.head, 3), {})
    own = hm.load(build.path, file, num_ctx=2048)
    tokens = laya_prompt(bert, hm.NOUL)[0]
    assert hm.decide(own, hm.STATE, {"q": hm.NOUL}).input_tokens == len(tokens)
