"""The benches still run and count rightly: on a tiny model, one turn, no figure judged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

from tests.bench import blocks, engine, path, restore, weights
from tests.bench.inputs import COMMON, OWN, distinct_tokens, questions_json, state_text
from tests.bench.measure import Series, table
from tests.tiny import build


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("llama", tmp_path_factory.mktemp("bench") / "tiny.gguf").path


def test_distinct_tokens_by_hand() -> None:
    """Nodes of the tree: shared starts count once, whatever the order of the prompts."""
    assert 4 == distinct_tokens([(1, 2, 3), (1, 2, 4)])
    assert 5 == distinct_tokens([(1, 2), (7, 8, 9), (1, 2)])
    assert 6 == distinct_tokens([(1, 2, 3), (9,), (1, 5), (1, 2, 4)])


def test_inputs() -> None:
    """States differ from their first words and have the length that was asked for; questions repeat."""
    one, other = (state_text(50, number, lambda text: 2 * len(text.split())) for number in (1, 2))
    assert one.split()[:2] != other.split()[:2]
    assert 50 == pytest.approx(2 * len(one.split()), abs=2)
    assert questions_json(5) == questions_json(5)


def test_converted_weights(model: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A copy holds the same header and vectors, and matrices rounded to its type; it is made once."""
    monkeypatch.setattr(weights, "cache_folder", lambda: tmp_path)
    copy = weights.converted(model, "bf16")
    assert copy == weights.converted(model, "bf16")
    before, after = gguf.GGUFReader(model), gguf.GGUFReader(copy)
    assert before.fields["tokenizer.ggml.tokens"].contents() == after.fields["tokenizer.ggml.tokens"].contents()
    for old, new in zip(before.tensors, after.tensors, strict=True):
        if len(old.shape) == 1:
            np.testing.assert_array_equal(old.data, new.data)
        else:
            assert gguf.GGMLQuantizationType.BF16 == new.tensor_type
            values = gguf.dequantize(new.data, new.tensor_type)
            np.testing.assert_allclose(values, old.data, rtol=2**-8)


def test_engine_grid(model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every distinct token is decoded once, cold and cached; the table has a line for every cell."""
    call = [str(model), "--weights", "file", "--states", "30", "--questions", "1,4", "--runs", "1"]
    monkeypatch.setattr(sys, "argv", ["engine", *call, "--json"])
    engine.main()
    (report,) = json.loads(capsys.readouterr().out)
    cells = {(cell["mode"], cell["questions"]): cell for cell in report["cells"]}

    assert 6 == len(cells)
    tail = COMMON + 4 * OWN
    assert (30 + tail, tail) == (cells["cold", 4]["distinct"], cells["cached", 4]["distinct"])
    for mode in ("cold", "cached"):
        assert cells[mode, 4]["distinct"] == cells[mode, 4]["decoded"]
    assert 1.0 == cells["cold", 1]["against_one_question"]

    monkeypatch.setattr(sys, "argv", ["engine", *call, "--modes", "cold", "--family"])
    engine.main()
    assert 2 == sum(line.startswith("| cold |") for line in capsys.readouterr().out.splitlines())


def test_restored_states_change_no_bit(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The restore bench finds its state in the cache and no difference at all."""
    monkeypatch.setattr(
        sys, "argv", ["restore", str(model), "--weights", "file", "--states", "300", "--runs", "2", "--json"]
    )
    restore.main()
    (row,) = json.loads(capsys.readouterr().out)

    assert (300, 0.0) == (row["cached_tokens"], row["largest_difference"])


def test_figures() -> None:
    """Least and median of a series, and a table that lines up."""
    series = Series([0.3, 0.1, 0.2])
    assert (0.1, 0.2) == (series.least, series.median)
    assert ["|  a | bb |", "|---:|---:|", "| 11 |  2 |"] == table(("a", "bb"), [("11", "2")]).splitlines()


def test_path_adds_up(capsys: pytest.CaptureFixture[str]) -> None:
    """What is around the model is what both processes used without the model's own part."""
    path.main(["--questions", "2", "--requests", "3", "--runs", "1", "--json"])
    (row,) = json.loads(capsys.readouterr().out)
    daemon, runner, model, around = (row[part]["cpu_ms_least"] for part in path.PARTS)

    assert pytest.approx(daemon + runner - model) == around
    assert 0 < model < runner


def test_blocks_sees_the_loop_turn(capsys: pytest.CaptureFixture[str]) -> None:
    """The daemon's loop turned while a request ran, and its waits were noted."""
    blocks.main(["--seconds", "0.2", "--case", "8 questions", "--json"])
    (row,) = json.loads(capsys.readouterr().out)

    assert row["requests"] > 0
    assert row["turns"] > 1
    assert row["wall_ms"] >= row["wall_p999_ms"]
