"""Faster copies of slow weights: exact values kept, decided once, remembered, never half-written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter
from gguf.quants import dequantize, quantize

from localdecide.engine import fast_weights
from localdecide.engine.fast_weights import choose_weights, convert


@pytest.fixture
def quantised(tmp_path: Path) -> Path:
    """A file with a slow type, a fast one, a vector and every kind of key."""
    path = tmp_path / "sha256-abc"
    writer = GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 3)
    writer.add_float32("llama.eps", 0.5)
    writer.add_string("tokenizer.chat_template", "{{ é }}")
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "ñ"])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_bool("tokenizer.ggml.add_bos_token", False)
    rng = np.random.default_rng(1)
    for name, kind in (("a.weight", "Q4_1"), ("b.weight", "Q8_0"), ("c.weight", "Q4_0")):
        values = rng.standard_normal((8, 64), dtype=np.float32)
        writer.add_tensor(name, quantize(values, GGMLQuantizationType[kind]), raw_dtype=GGMLQuantizationType[kind])
    writer.add_tensor("norm.weight", rng.standard_normal(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def values(path: Path) -> dict[str, Any]:
    return {
        tensor.name: (tensor.tensor_type.name, dequantize(tensor.data, tensor.tensor_type))
        for tensor in GGUFReader(path).tensors
    }


def keys(path: Path) -> dict[str, Any]:
    return {name: field.contents() for name, field in GGUFReader(path).fields.items() if not name.startswith("GGUF.")}


@pytest.mark.parametrize(("target", "error"), [("F16", 2**-11), ("BF16", 2**-8)])
def test_a_copy_holds_the_files_own_values(quantised: Path, tmp_path: Path, target: str, error: float) -> None:
    """Slow types become the target to within its rounding; everything else is the same, keys included."""
    copy = tmp_path / "copy.gguf"
    convert(GGUFReader(quantised), copy, target)
    before, after = values(quantised), values(copy)

    assert keys(quantised) == keys(copy)
    assert [target, target, "Q4_0", "F32"] == [kind for kind, _ in after.values()]
    for name, (_, array) in before.items():
        assert after[name][1].shape == array.shape
        np.testing.assert_allclose(after[name][1], array, rtol=error if name[0] in "ab" else 0)
    assert [copy, quantised] == sorted(tmp_path.iterdir())


def measured(speeds: dict[str, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fast_weights, "speed", speeds.__getitem__)


def test_a_copy_is_made_once_where_it_pays(quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as fast is worth it; the second load measures nothing and uses the same copy."""
    measured({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 2.0, "BF16": 2.1}, monkeypatch)
    path, choice = choose_weights(str(quantised), tmp_path / "derived", 1 << 40)
    monkeypatch.setattr(fast_weights, "speed", lambda kind: pytest.fail("measured again"))

    assert (path, "F16") == (str(tmp_path / "derived" / "sha256-abc-F16.gguf"), choice.type)
    assert "2.0 times as fast" in choice.reason
    assert (path, choice) == choose_weights(str(quantised), tmp_path / "derived", 1 << 40)


def test_bf16_only_where_it_is_clearly_faster(quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """F16 is the more precise one and is preferred unless BF16 wins by a margin."""
    measured({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 2.0, "BF16": 2.5}, monkeypatch)

    assert choose_weights(str(quantised), tmp_path / "derived", 1 << 40)[1].type == "BF16"


@pytest.mark.parametrize(
    ("speeds", "memory", "reason"),
    [
        ({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 1.2, "BF16": 1.0}, 1 << 40, "would be 1.2 times"),
        ({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 9.0, "BF16": 1.0}, 100, "too much memory"),
    ],
)
def test_a_copy_that_does_not_pay_or_fit_is_not_made(
    quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, speeds: dict[str, float], memory: int, reason: str
) -> None:
    """The file itself is loaded, and the reason is kept."""
    measured(speeds, monkeypatch)
    path, choice = choose_weights(str(quantised), tmp_path / "derived", memory)

    assert (path, None) == (str(quantised), choice.type)
    assert reason in choice.reason
    assert [tmp_path / "derived" / "sha256-abc.json"] == list((tmp_path / "derived").iterdir())


def test_a_lost_copy_and_another_machine_decide_anew(
    quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record without its copy, or of another processor, counts for nothing."""
    measured({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 2.0, "BF16": 2.0}, monkeypatch)
    derived = tmp_path / "derived"
    path, _ = choose_weights(str(quantised), derived, 1 << 40)
    Path(path).unlink()
    assert choose_weights(str(quantised), derived, 1 << 40)[0] == path
    assert Path(path).is_file()

    record = derived / "sha256-abc.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "machine": "another", "type": None}))
    assert choose_weights(str(quantised), derived, 1 << 40)[1].type == "F16"


def test_switched_off(quantised: Path) -> None:
    """Without a folder nothing is measured and nothing is written."""
    assert str(quantised) == choose_weights(str(quantised), None, 1 << 40)[0]


def test_speeds_are_measured_for_every_convertible_type() -> None:
    """Each type gives a finite positive speed on this build."""
    kinds = (*fast_weights.CONVERTIBLE, "F16", "BF16")

    assert all(0 < fast_weights.speed(kind) < 1e15 for kind in kinds)


def test_a_store_that_takes_no_copy_serves_the_file_itself(
    quantised: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the folder cannot be made, the weights stay as they are and the reason says so."""
    measured({"Q4_1": 1.0, "Q8_0": 1.0, "F16": 2.0, "BF16": 2.0}, monkeypatch)
    (tmp_path / "blocked").write_text("")
    path, choice = choose_weights(str(quantised), tmp_path / "blocked" / "derived", 1 << 40)

    assert (path, None) == (str(quantised), choice.type)
    assert choice.reason.startswith("no F16 copy can be kept in ")
