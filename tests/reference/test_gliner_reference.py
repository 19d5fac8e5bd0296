"""GLiNER2.5-Decide end to end: a tiny random DeBERTa-v2 in files of our layout, against transformers."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402
from gliner_vocabulary import PIECES, SPECIALS, pieces, write_backbone  # noqa: E402

from localdecide.core.errors import PromptTooLong  # noqa: E402

pytestmark = pytest.mark.reference

CONFIG = {
    "vocab_size": len(SPECIALS) + len(PIECES), "hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4,
    "intermediate_size": 96, "relative_attention": True, "position_buckets": 16, "max_relative_positions": -1,
    "max_position_embeddings": 64, "pos_att_type": ["p2c", "c2p"], "share_att_key": True,
    "norm_rel_ebd": "layer_norm", "position_biased_input": False, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
}  # fmt: skip
KEYS = {"family": "gliner-decide", "head_count": 4, "position_buckets": 16, "max_relative_positions": 64}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gliner")
    encoder = torch_heads.scramble(transformers.DebertaV2Model(transformers.DebertaV2Config(**CONFIG)), 31, 1.5)
    classifier = torch.nn.Sequential(torch.nn.Linear(48, 96), torch.nn.ReLU(), torch.nn.Linear(96, 1))
    torch_heads.scramble(classifier, 32, 3.0)
    tensors = torch_heads.arrays(encoder)
    embeddings = tensors.pop("embeddings.word_embeddings.weight")
    tensors |= {f"classifier.{name}": array for name, array in torch_heads.arrays(classifier).items()}
    backbone = write_backbone(folder / "gliner.gguf", embeddings)
    head = hm.write_head(
        folder / "head.gguf", tensors, {f"localdecide.head.{key}": value for key, value in KEYS.items()}
    )
    return encoder, classifier, hm.load(backbone, head, family="gliner-decide")


def expected(tiny, key, asked, labels, words, described=()):
    """Logits of the reference and the number of tokens."""
    encoder, classifier, _ = tiny
    text = ["▁", "(", "[P]", *pieces(f"{key}: {asked}")]
    for label, description in described:
        text += ["[DESCRIPTION]", *pieces(f"{label}: {description}")]
    text += ["▁", "("]
    for label in labels:
        text += ["[L]", *pieces(label)]
    text += ["▁", ")", "▁", ")", "[SEP_TEXT]"]
    for word in words:
        text += pieces(word)
    ids = [[*SPECIALS, *PIECES].index(piece) for piece in text]
    places = [index for index, piece in enumerate(text) if piece == "[L]"]
    with torch.no_grad():
        rows = encoder(torch.tensor([ids])).last_hidden_state[0][places]
        return classifier(rows)[:, 0].numpy(), len(ids)


STATE, STATE_WORDS = (
    "The plan is PRO, see ü@x.io well-paid [L]",
    ["the", "plan", "is", "pro", ",", "see", "ü", "@x", ".", "io", "well-paid", "[", "l", "]"],
)


@pytest.mark.parametrize("count", [1, 2, 26, 27, 48])
def test_choice(tiny, count):
    """Choices of every size that fits agree to 1e-4, token counts exactly."""
    names = [f"o{'ab'[i % 2]}{i}" for i in range(count)]
    criteria = {name: "yes mild" if i % 10 == 1 else None for i, name in enumerate(names)}
    question = {"type": "choice", "instructions": "Which of them?", "criteria": criteria}
    described = [(name, text) for name, text in criteria.items() if text]
    logits, tokens = expected(tiny, "q", "Which of them?", names, STATE_WORDS, described)
    reading = hm.decide(tiny[2], STATE, {"q": question}).readings["q"]
    assert hm.gap(reading, logits) < 1e-4
    assert reading.prompt_tokens == tokens


def test_noul_and_score(tiny):
    """A noul's labels are true and false, a score's the texts of its levels; both agree to 1e-4."""
    result = hm.decide(
        tiny[2], STATE, {"q": hm.NOUL, "s": {"type": "score", "instructions": "how bad", "criteria": ["mild", "bad"]}}
    )
    noul, _ = expected(tiny, "q", "Is the plan paid?", ["true", "false"], STATE_WORDS, [("true", "it costs")])
    score, _ = expected(tiny, "s", "how bad", ["mild", "bad"], STATE_WORDS)
    assert hm.gap(result.readings["q"], noul) < 1e-4
    assert hm.gap(result.readings["s"], score) < 1e-4
    assert np.max(np.abs(np.asarray(result.readings["s"].probabilities) - 0.5)) > 1e-2


def test_what_is_wrong_shows(tiny):
    """Labels in another order or a lost word of the text move the answer far beyond the tolerance."""
    reading = hm.decide(tiny[2], STATE, {"q": hm.NOUL}).readings["q"]
    described = [("true", "it costs")]
    turned, _ = expected(tiny, "q", "Is the plan paid?", ["false", "true"], STATE_WORDS, described)
    short, _ = expected(tiny, "q", "Is the plan paid?", ["true", "false"], STATE_WORDS[:3], described)
    assert hm.gap(reading, turned) > 1e-2
    assert hm.gap(reading, short) > 1e-2


def test_a_text_over_the_limit_is_refused(tiny):
    """512 tokens is all it was trained with; more is refused with both numbers."""
    with pytest.raises(PromptTooLong, match="the model's context is 512"):
        hm.decide(tiny[2], "plan " * 600, {"q": hm.NOUL})
