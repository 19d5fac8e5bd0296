"""Tiny models are fit to test with: they load, their labels are tokens, and what they read matters."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from tests.tiny import BUILDERS, build, raw
from tests.tiny.vocabulary import label_texts

TEXT = "Hello, the billing team!\nA: yes\nB: no 123\n\nAnswer: "


@pytest.fixture(scope="module", params=BUILDERS)
def arch(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_the_same_seed_writes_the_same_file(arch: str, tmp_path: pathlib.Path) -> None:
    """Byte for byte; another seed, other weights."""
    one, two, other = (build(arch, tmp_path / f"{n}.gguf", seed=seed) for n, seed in enumerate((1, 1, 2)))
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.path.read_bytes() != other.path.read_bytes()


def test_a_tiny_model_is_small(arch: str, tmp_path: pathlib.Path) -> None:
    """Tests write many of them."""
    assert build(arch, tmp_path / "m.gguf").path.stat().st_size < 5_000_000


def test_text_becomes_real_pieces(arch: str, tmp_path: pathlib.Path) -> None:
    """Words are few tokens, and their texts join to the text."""
    model = build(arch, tmp_path / "m.gguf")
    tokens = raw.tokenize(model.path, "Is the answer in this document?")
    pieces = [model.vocabulary.tokens[token].replace("Ġ", " ") for token in tokens]
    assert "Is the answer in this document?" == "".join(pieces)
    assert len(tokens) < 14


def test_every_label_is_one_token(arch: str, tmp_path: pathlib.Path) -> None:
    """Two digits only where the pre-tokenizer keeps digits together."""
    model = build(arch, tmp_path / "m.gguf")
    digits_alone = arch in ("qwen3", "qwen35")
    labels = [text for text in label_texts() if not (digits_alone and text.isdigit() and len(text) > 1)]
    with raw.loaded(model.path, vocabulary_only=True) as loaded:
        lengths = {text: len(raw.tokenize_loaded(loaded, text)) for text in labels}
    assert {} == {text: length for text, length in lengths.items() if length != 1}


def test_special_tokens_are_recognised_only_on_request(arch: str, tmp_path: pathlib.Path) -> None:
    """Each is one token in template text and several in user text."""
    model = build(arch, tmp_path / "m.gguf")
    for text, token in model.vocabulary.specials.items():
        assert [token] == raw.tokenize(model.path, text, special=True)
    control = "[SEP]" if arch == "modern-bert" else "<|eot_id|>" if arch == "llama" else "<|im_end|>"
    assert len(raw.tokenize(model.path, control)) > 1


def test_numbers_vary_and_order_matters(arch: str, tmp_path: pathlib.Path) -> None:
    """Swapping two tokens in the middle moves the last row, and rows are far from constant."""
    model = build(arch, tmp_path / "m.gguf")
    tokens = raw.tokenize(model.path, TEXT)
    hidden, logits = raw.decode(model.path, tokens)
    swapped, _ = raw.decode(model.path, [*tokens[:3], tokens[4], tokens[3], *tokens[5:]])
    assert np.abs(hidden[-1] - swapped[-1]).mean() > 0.01
    assert hidden.std(axis=0).mean() > 0.1
    assert logits is None or logits.std() > 2


def test_header_keys_and_tensors_can_be_added(tmp_path: pathlib.Path) -> None:
    """A head tensor that llama.cpp does not know makes it refuse the file; a key does not."""
    build("qwen3", tmp_path / "key.gguf", metadata={"qwen3.decision.type": "lev"}, template="{{ x }}", name="n")
    with raw.loaded(tmp_path / "key.gguf"):
        pass
    build("qwen3", tmp_path / "head.gguf", tensors={"decision.scales": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="does not load"), raw.loaded(tmp_path / "head.gguf"):
        pass
