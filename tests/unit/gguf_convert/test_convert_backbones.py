"""Backbones and tokenizers: a converted checkpoint is the GGUF that the same weights make directly."""

from __future__ import annotations

import numpy as np
import pytest
from checkpoints import arrays, converted, keys, write_json, write_safetensors

from localdecide.core.decision import Decision
from localdecide.core.questions import Choice, Noul, Option, Score
from tests.tiny import build, checkpoint, raw

TEXT = 'Hello, the billing team!\n\nIs it 100 % fine? naïve café 東京 <|im_start|>user {"a": [1]} [MASK] AA 00'
DECISION = Decision(
    {"plan": "pro", "né": 1},
    {
        "c": Choice((Option("a", "x"), Option("b"), Option("c")), "Which?"),
        "n": Noul("Is it?"),
        "s": Score(("x", "y"), "?"),
    },
)


def readout_checkpoint(folder, model, **decision):
    """A backbone with a readout head: the plainest decision model, for tests of backbones."""
    codes = [chr(65 + index) for index in range(26)]
    write_json(folder / "decision_config.json", {"codes": codes, "temperature": 1.5} | decision)
    rows = np.random.default_rng(3).standard_normal((26, model.config["hidden_size"])).astype(np.float32)
    write_safetensors(folder / "readout.safetensors", {"weight": rows})
    return rows


@pytest.mark.parametrize("prefix", ["", "language_model."])
@pytest.mark.parametrize("arch", ["qwen35", "qwen3"])
def test_causal_backbones(arch, prefix, tmp_path):
    """Every tensor and key is what llama.cpp loads from the directly written file; text cuts the same."""
    model = build(arch, tmp_path / "direct.gguf", seed=5)
    renamed = {prefix + name.removeprefix("model."): array for name, array in model.weights.items()} if prefix else None
    folder = checkpoint.save(model, tmp_path / "Model-X")
    if renamed:
        write_safetensors(folder / "model.safetensors", renamed)
    readout_checkpoint(folder, model)
    path, head = converted(folder, tmp_path / "out")
    direct = arrays(model.path)
    assert direct.keys() == arrays(path).keys()
    for name, array in arrays(path).items():
        np.testing.assert_array_equal(direct[name], array, err_msg=name)
    expected, actual = keys(model.path), keys(path)
    for key, value in expected.items():
        if key.startswith((f"{arch}.", "tokenizer.ggml")) and key not in IGNORED:
            assert actual[key] == pytest.approx(value) if isinstance(value, float) else actual[key] == value, key
    assert raw.tokenize(model.path, TEXT, special=True) == raw.tokenize(path, TEXT, special=True)
    assert keys(head)["localdecide.head.attention"] == "causal"


IGNORED = {"tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_bos_token"}


def test_half_precision_is_for_matrices(tmp_path):
    """--type F16 halves matrices; norms and other vectors stay F32."""
    model = build("qwen35", tmp_path / "direct.gguf")
    folder = checkpoint.save(model, tmp_path / "m")
    readout_checkpoint(folder, model)
    path, head = converted(folder, tmp_path / "out", kind="F16")
    stored = arrays(path)
    assert stored["blk.0.ffn_up.weight"].dtype == np.float16
    assert stored["blk.0.attn_norm.weight"].dtype == np.float32
    assert arrays(head)["readout.weight"].dtype == np.float32


@pytest.mark.parametrize(
    ("said", "family", "attention"),
    [
        ({"attention_mode": "causal"}, "pplx-decider", "causal"),
        ({"attention_mode": "noncausal_full_attention"}, "pplx-decider", "bidirectional"),
        ({"prompt": "d3", "attention_mode": "noncausal_full_attention", "max_length": 99}, "d3", "bidirectional"),
    ],
)
def test_readout_heads(said, family, attention, tmp_path):
    """pplx-decider and Decision 3.0: rows, codes, temperature, attention and length go into the head's file."""
    model = build("qwen35", tmp_path / "direct.gguf")
    folder = checkpoint.save(model, tmp_path / "m")
    rows = readout_checkpoint(folder, model, **said)
    path, head = converted(folder, tmp_path / "out")
    assert keys(path)["tokenizer.ggml.pre"] == ("qwen2" if family == "d3" else "qwen35")
    found = {key.removeprefix("localdecide.head."): value for key, value in keys(head).items()}
    assert (found["family"], found["attention"], found["temperature"]) == (family, attention, 1.5)
    assert found["codes"][:2] == ["A", "B"]
    assert found["max_length"] == said.get("max_length", 8192)
    np.testing.assert_array_equal(rows, arrays(head)["readout.weight"])
    assert f"FAMILY {family}" in (tmp_path / "out" / "Modelfile").read_text()
