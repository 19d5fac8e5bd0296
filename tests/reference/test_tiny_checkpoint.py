"""A tiny model's folder is a checkpoint: its tokenizer cuts text as llama.cpp does, its weights read back."""

from __future__ import annotations

import json
import pathlib
import struct

import numpy as np
import pytest

from tests.tiny import BUILDERS, build, checkpoint, raw

TEXTS = [
    "Hello, the billing team!\n\nIs it 100 % fine?  Yes.\n",
    "naïve café — 東京 \U0001f600 it's\tWE'LL 3.14159 x² e\u0301 ",
    "<|im_start|>user\n{\"a\": [1, 2.5, null]}<|im_end|>\n<think>\n\n</think>\n\nAA ZZ 00",
    "[CLS]choice question: Which?[SEP][MASK] tech[MASK] billing: money[SEP]",
]  # fmt: skip


@pytest.mark.reference
@pytest.mark.parametrize("arch", BUILDERS)
def test_the_tokenizer_agrees_with_llama_cpp(arch: str, tmp_path: pathlib.Path) -> None:
    """The same ids for text with special tokens, accents, numbers and white space."""
    tokenizers = pytest.importorskip("tokenizers")
    model = build(arch, tmp_path / "m.gguf")
    checkpoint.write_tokenizer(model.vocabulary, tmp_path)
    tokenizer = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    for text in TEXTS:
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert expected == raw.tokenize(model.path, text, special=True)


@pytest.mark.parametrize("arch", BUILDERS)
def test_weights_read_back_from_safetensors(arch: str, tmp_path: pathlib.Path) -> None:
    """Names, shapes and every bit of the data, read by hand as the format says."""
    model = build(arch, tmp_path / "m.gguf", hidden_size=32)
    folder = checkpoint.save(model, tmp_path / "hub", prefix="x.", extra=1)
    data = (folder / "model.safetensors").read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + size])
    assert {f"x.{name}" for name in model.weights} == set(header)
    for name, entry in header.items():
        start, end = (8 + size + offset for offset in entry["data_offsets"])
        array = np.frombuffer(data[start:end], "<f4").reshape(entry["shape"])
        np.testing.assert_array_equal(array, model.weights[name.removeprefix("x.")])
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert (1, 32, len(model.vocabulary)) == (config["extra"], config["hidden_size"], config["vocab_size"])


@pytest.mark.reference
@pytest.mark.parametrize("arch", ["qwen3", "qwen35", "llama", "lfm2"])
def test_transformers_loads_the_folder(arch: str, tmp_path: pathlib.Path) -> None:
    """config.json and weights mean to transformers what they mean here: the same logits."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tests.tiny import reference

    model = build(arch, tmp_path / "m.gguf")
    folder = checkpoint.save(model, tmp_path / "hub")
    network = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokens = raw.tokenize(model.path, TEXTS[0])
    with torch.inference_mode():
        logits = network(torch.tensor([tokens])).logits[0].numpy()
    np.testing.assert_allclose(logits, reference.forward(model, tokens)[1], atol=1e-4)
