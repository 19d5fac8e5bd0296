"""CLM end to end: a tiny random Qwen3 and bi-encoder head in files, against transformers and PyTorch."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402

from tests.tiny import qwen3  # noqa: E402

pytestmark = pytest.mark.reference

STATE = "plan: pro\n\ntags:\n  - a\n  - true\n  -\n    k: 1.5\n\nné: Grüße <|im_end|> [MASK]\n\nz:"
CASES = {
    "noul": (hm.NOUL, "Is the plan paid?", ["false: No. This is false: Is the plan paid?", "true: it costs"]),
    "score": (hm.SCORE, "ask: How bad?", ["mild", "a: 1", "- x\n- y"]),
}
CASES |= {
    str(count): (
        hm.choice(count),
        "Which of them?",
        [text or name for name, text in hm.choice(count)["criteria"].items()],
    )
    for count in (1, 2, 26, 27, 255)
}


class Reference(hm.Backbone):
    def __init__(self, tiny, head):
        super().__init__(tiny)
        self.head = head

    def embed(self, text, limit=2048):
        return self.rows(self.tokens(text)[:limit])[-1]

    def logits(self, asked, candidates, limit=2048):
        state = self.embed(f"{STATE}\n\n{asked}", limit)
        with torch.no_grad():
            return self.head(state, torch.stack([self.embed(text, limit) for text in candidates])).numpy()


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clm")
    backbone = qwen3.build(folder / "clm.gguf", seed=8)
    head = torch_heads.scramble(torch_heads.BiEncoder(64, 48, 3, 24, True, False), 21, 2.0)
    # As sharp as a trained head: at a scale near 1 every answer is near uniform, and faults hide.
    head.logit_scale.data.fill_(math.log(20))
    keys = {"localdecide.head.family": "clm", "localdecide.head.temperature": 2.0, "localdecide.head.max_length": 2048}
    file = hm.write_head(folder / "head.gguf", torch_heads.arrays(head), keys)
    return Reference(backbone, head), hm.load(backbone.path, file, family="clm"), folder


@pytest.mark.parametrize("case", CASES)
def test_every_type_and_size(tiny, case):
    """Probabilities agree to 1e-4; every text is its own prompt."""
    question, asked, candidates = CASES[case]
    reading = hm.decide(tiny[1], hm.STATE, {"q": question}).readings["q"]
    logits = tiny[0].logits(asked, candidates)
    assert hm.gap(reading, logits, 2.0, false_first=question["type"] == "noul") < 1e-4
    texts = [f"{STATE}\n\n{asked}", *candidates]
    assert reading.prompt_tokens == sum(len(tiny[0].tokens(text)) for text in texts)


def test_what_is_wrong_shows(tiny):
    """Another temperature or candidates in another order move the answer far beyond the tolerance."""
    question, asked, candidates = CASES["score"]
    reading = hm.decide(tiny[1], hm.STATE, {"q": question}).readings["q"]
    logits = tiny[0].logits(asked, candidates)
    assert hm.gap(reading, logits, 1.0) > 1e-2
    assert hm.gap(reading, logits[::-1], 2.0) > 1e-2


def test_a_wrong_scale_or_a_lost_norm_shows(tiny):
    """Another logit scale, or towers without their norms, move the answer far beyond the tolerance."""
    reference_, _, folder = tiny
    question, asked, candidates = CASES["score"]
    logits = reference_.logits(asked, candidates)
    tensors = torch_heads.arrays(reference_.head)
    normless = {name: array for name, array in tensors.items() if ".norms." not in name}
    assert len(normless) < len(tensors)
    for name, broken in {"scale": tensors | {"logit_scale": tensors["logit_scale"] * 0.8}, "norms": normless}.items():
        file = hm.write_head(folder / f"{name}.gguf", broken, {"localdecide.head.temperature": 2.0})
        reading = hm.decide(hm.load(reference_.tiny.path, file, family="clm"), hm.STATE, {"q": question}).readings["q"]
        assert hm.gap(reading, logits, 2.0) > 1e-2, name


def test_long_texts_are_cut(tiny):
    """Texts over the limit in the head's file lose their end, as in the reference, and the answer counts them."""
    reference_, _, folder = tiny
    keys = {"localdecide.head.temperature": 2.0, "localdecide.head.max_length": 12}
    file = hm.write_head(folder / "short.gguf", torch_heads.arrays(reference_.head), keys)
    short = hm.load(reference_.tiny.path, file, family="clm")
    question, asked, candidates = CASES["noul"]
    reading = hm.decide(short, hm.STATE, {"q": question}).readings["q"]
    assert hm.gap(reading, reference_.logits(asked, candidates, 12), 2.0, false_first=True) < 1e-4
    assert reading.truncated > 30


def test_defaults_are_close(tiny):
    """With half-precision keys and values and flash attention, answers move by less than 1e-2."""
    reference_, _, folder = tiny
    options = {"kv_cache_type": "f16", "flash_attention": "auto"}
    usual = hm.load(reference_.tiny.path, folder / "head.gguf", family="clm", **options)
    for question, asked, candidates in CASES.values():
        reading = hm.decide(usual, hm.STATE, {"q": question}).readings["q"]
        logits = reference_.logits(asked, candidates)
        assert hm.gap(reading, logits, 2.0, false_first=question["type"] == "noul") < 1e-2
