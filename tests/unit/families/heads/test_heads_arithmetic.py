"""Layers of heads by hand: accuracy of erf, checks on rows and tensors, attention cut into pieces."""

from __future__ import annotations

import math

import numpy as np
import pytest

from localdecide.core.errors import NumericalError
from localdecide.families.heads import arithmetic
from localdecide.families.heads.arithmetic import Attention, Linear, Norm, checked, cosine, erf, finite, gelu, tensor

GRID = np.concatenate([np.linspace(-7, 7, 280_001), np.geomspace(1e-30, 10, 2_000), [0.0, 1e30, -1e30]]).astype(
    np.float32
)


def test_erf_is_within_an_eighth_of_a_millionth():
    """erf agrees with the C library's on 282,000 points from the tiniest to beyond saturation."""
    expected = np.array([math.erf(float(x)) for x in GRID])
    assert np.max(np.abs(expected - erf(GRID))) < 1.25e-7
    assert erf(GRID).dtype == np.float32


def test_erf_of_tiny_values_keeps_its_digits():
    """Near zero the error is relative: erf(x) is 2 x / sqrt(pi) to five digits."""
    x = np.geomspace(1e-30, 1e-4, 200).astype(np.float32)
    assert np.allclose(2 * x / math.sqrt(math.pi), erf(x), rtol=1e-5, atol=0)


def test_erf_is_odd_and_saturates():
    """erf(-x) = -erf(x), and beyond 4.5 it is exactly 1."""
    assert np.array_equal(-erf(GRID), erf(-GRID))
    assert np.array_equal(np.ones(3, np.float32), erf(np.array([4.5, 9, 1e30], np.float32)))


def test_gelu_is_x_times_the_normal_distribution():
    """GELU by the C library's erf, to a quarter of a millionth of max(1, |x|)."""
    x = GRID[np.abs(GRID) < 10]
    expected = np.array([v * 0.5 * (1 + math.erf(v * math.sqrt(0.5))) for v in x.astype(float)])
    assert np.max(np.abs(expected - gelu(x)) / np.maximum(1, np.abs(x))) < 2.5e-7


def test_norm_by_hand():
    """(x - mean) / sqrt(variance + eps) * weight + bias."""
    norm = Norm(np.array([1, 2], np.float32), np.array([0, 1], np.float32), 3.0)
    assert norm(np.array([[1, 3]], np.float32)).tolist() == [[-0.5, 2.0]]


def test_cosine_of_a_zero_row_is_zero():
    """A row of zeros is at right angles to everything instead of dividing by zero."""
    a = np.array([[3, 4], [0, 0]], np.float32)
    assert cosine(a, np.array([[6, 8], [1, 1]], np.float32)).tolist() == [1.0, 0.0]


def test_attention_in_pieces_is_the_same(monkeypatch):
    """Cutting the queries into pieces to bound memory changes no value by more than rounding."""
    draw = np.random.default_rng(0).standard_normal
    parts = [Linear(draw((8, 8)).astype(np.float32), draw(8).astype(np.float32)) for _ in range(4)]
    x = draw((23, 8)).astype(np.float32)
    attention = Attention(*parts, heads=2)
    whole = attention(x, x)
    monkeypatch.setattr(arithmetic, "_SCORES", 2 * 23 * 3)
    assert np.allclose(whole, attention(x, x), atol=1e-6)


def test_heads_must_divide_the_width():
    """Three heads cannot share eight columns."""
    part = Linear(np.eye(8, dtype=np.float32))
    with pytest.raises(NumericalError, match="3 attention heads"):
        Attention(part, part, part, part, heads=3)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1.0, float("nan")]], "not finite"),
        ([[1.0, float("inf")]], "not finite"),
        ([[1.0, 2.0, 3.0]], "another base model"),
        ([1.0, 2.0], "another base model"),
        ([[1.0, 2.0], [0.0, 0.0]], "all zeros"),
        ([[1.0, 2.0], [1.0, 2.0], [1.0, 2.0]], "wants 2 rows"),
    ],
)
def test_rows_that_no_model_returns_are_refused(rows, message):
    """NaN, infinity, a wrong width, a wrong count and a row of zeros are numerical errors."""
    with pytest.raises(NumericalError, match=f"numerical error.*{message}"):
        checked(rows, 2, 2 if len(rows) == 3 else None)


@pytest.mark.parametrize(
    ("stored", "dimensions", "expected"),
    [([1, 2], 2, [[1, 2]]), ([[1, 2]], 1, [1, 2]), ([[1], [2]], 1, [1, 2]), (3, 1, [3])],
)
def test_a_matrix_of_one_row_may_be_a_vector(stored, dimensions, expected):
    """Converters store [1, d] as [d] and scalars as [1]; both are read."""
    assert expected == tensor({"t": np.array(stored)}, "t", dimensions).tolist()


@pytest.mark.parametrize(
    ("tensors", "message"),
    [({}, "no tensor t"), ({"t": np.ones((2, 2))}, "shape"), ({"t": np.array([np.nan])}, "not finite")],
)
def test_bad_head_tensors_are_refused(tensors, message):
    """A missing, misshapen or broken tensor of the head is a numerical error."""
    with pytest.raises(NumericalError, match=message):
        tensor(tensors, "t", 1)


def test_logits_that_are_not_numbers_are_refused():
    """A head never hands on an infinity."""
    with pytest.raises(NumericalError):
        finite(np.array([1, np.inf], np.float32))
