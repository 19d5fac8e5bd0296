"""llama.cpp and PyTorch compute the same from the same weights."""

from __future__ import annotations

import pathlib
import warnings
from typing import Any

import numpy as np
import pytest

from tests.tiny import build, raw

pytestmark = pytest.mark.reference
pytest.importorskip("torch")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("transformers")

TEXT = "<|im_start|>user\nIs the billing team at fault? A: yes B: no, 100 %\n\nAnswer with one letter: "

CASES: list[tuple[str, bool, dict[str, Any]]] = [
    ("qwen3", True, {}),
    ("qwen3", False, {}),
    ("qwen3", True, {"tie_word_embeddings": True, "num_attention_heads": 8, "num_key_value_heads": 1}),
    ("qwen35", True, {}),
    ("qwen35", False, {}),
    ("qwen35", True, {"layer_types": ["linear_attention", "full_attention"], "linear_num_value_heads": 2}),
    ("qwen35", False, {"layer_types": [*["linear_attention"] * 2, "full_attention"] * 2, "tie_word_embeddings": True}),
    ("llama", True, {}),
    ("llama", False, {"num_key_value_heads": 4}),
    ("lfm2", True, {}),
    ("lfm2", True, {"tie_word_embeddings": False, "layer_types": ["full_attention", "conv"]}),
    ("lfm2", False, {"causal": False}),
    ("modern-bert", False, {"hidden_activation": "silu"}),
    ("modern-bert", False, {"hidden_activation": "silu", "num_hidden_layers": 5, "local_attention": 16}),
]


@pytest.mark.parametrize(("arch", "causal", "config"), CASES)
def test_hidden_rows_and_logits_agree(arch: str, causal: bool, config: dict[str, Any], tmp_path: pathlib.Path) -> None:
    """To 1e-4 of their spread (one for hidden rows, four for logits), in every row, causal or not."""
    from tests.tiny import reference

    model = build(arch, tmp_path / "m.gguf", seed=3, **config)
    tokens = raw.tokenize(model.path, TEXT, special=True)
    hidden, logits = raw.decode(model.path, tokens, causal=causal)
    expected_hidden, expected_logits = reference.forward(model, tokens, causal=causal)
    np.testing.assert_allclose(hidden, expected_hidden, atol=1e-4)
    if expected_logits is not None:
        np.testing.assert_allclose(logits, expected_logits, atol=4e-4)


def test_gelu_of_llama_cpp_is_near_the_exact_one(tmp_path: pathlib.Path) -> None:
    """Its table in half precision and tanh move ModernBERT's rows by thousandths, no more and no less."""
    from tests.tiny import reference

    model = build("modern-bert", tmp_path / "m.gguf", seed=3)
    tokens = raw.tokenize(model.path, TEXT)
    difference = np.abs(raw.decode(model.path, tokens)[0] - reference.forward(model, tokens)[0]).max()
    assert 1e-5 < difference < 1e-2


@pytest.mark.parametrize("arch", ["qwen3", "qwen35", "llama", "lfm2"])
def test_attention_without_a_mask_changes_the_numbers(arch: str, tmp_path: pathlib.Path) -> None:
    """Otherwise the comparisons above could not tell the two kinds apart."""
    model = build(arch, tmp_path / "m.gguf", seed=3)
    tokens = raw.tokenize(model.path, TEXT)
    causal, open_ = (raw.decode(model.path, tokens, causal=kind)[0] for kind in (True, False))
    assert np.abs(causal - open_).max() > 0.05


def test_a_bidirectional_lfm2_needs_no_switch(tmp_path: pathlib.Path) -> None:
    """The header alone makes its attention open and its convolutions centred."""
    from tests.tiny import reference

    model = build("lfm2", tmp_path / "m.gguf", seed=3, causal=False)
    tokens = raw.tokenize(model.path, TEXT)
    np.testing.assert_allclose(
        raw.decode(model.path, tokens)[0], reference.forward(model, tokens, causal=False)[0], atol=1e-4
    )
