"""Heads with weights so small that every number can be worked out on paper, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from localdecide.core.errors import NumericalError
from localdecide.families.heads.bi_encoder import BiEncoderHead
from localdecide.families.heads.joint import JointHead
from localdecide.families.heads.joint_names import block_counts
from localdecide.families.heads.marker import MarkerHead
from localdecide.families.heads.pointer import PointerHead
from localdecide.families.heads.readout import ReadoutHead
from localdecide.families.heads.segments import segment_softmax, segment_sums, span_means

POINTER = {
    "cls.output.weight": np.array([[1, 0], [0, 1], [1, 0], [0, 2]], np.float32),
    "cls.output.bias": np.array([0, 1, 0, 0], np.float32),
}


def test_pointer_by_hand():
    """query (1, 0) + (0, 1); keys (1, 2) and (3, 0): 3 / sqrt 2 each."""
    logits = PointerHead.load(POINTER).logits([[1, 1], [3, 0], [1, 0]], 2)
    assert logits == pytest.approx((3 / math.sqrt(2), 3 / math.sqrt(2)))


@pytest.mark.parametrize(
    "tensors",
    [
        {"cls.output.weight": POINTER["cls.output.weight"]},
        {"cls.output.weight": np.ones((3, 2)), "cls.output.bias": np.ones(3)},
        {"cls.output.weight": np.ones((4, 2)), "cls.output.bias": np.ones(2)},
    ],
)
def test_pointer_heads_that_are_not_a_pair_are_refused(tensors):
    """Query and key must be of one size and have their biases."""
    with pytest.raises(NumericalError):
        PointerHead.load(tensors)


def test_pointer_counts_its_rows():
    """Two options need three rows."""
    with pytest.raises(NumericalError, match="wants 3 rows"):
        PointerHead.load(POINTER).logits([[1, 1], [1, 1]], 2)


def test_readout_by_hand():
    """The first two codes of three, as dot products."""
    head = ReadoutHead.load({"readout.weight": np.array([[1, 0], [0, 2], [5, 5]], np.float32)})
    assert (head.codes, head.logits([[1, 2]], 2)) == (3, (1.0, 4.0))


def test_readout_refuses_more_options_than_codes():
    """A question with more options than rows cannot be read."""
    head = ReadoutHead.load({"readout.weight": np.eye(2, dtype=np.float32)})
    with pytest.raises(NumericalError, match="3 options and a readout of 2"):
        head.logits([[1, 2]], 3)


def test_marker_head_without_blocks_is_refused():
    """A head file that lost its blocks says so."""
    with pytest.raises(NumericalError, match="no blocks"):
        MarkerHead.load({"token_types.weight": np.ones((3, 2))}, heads=1, eps=1e-5)


def test_joint_head_without_tensors_is_refused():
    """A head file of another kind has no joint blocks and no tensors to load."""
    assert block_counts(POINTER) == (0, 0)
    with pytest.raises(NumericalError, match="no tensor"):
        JointHead.load(POINTER, heads=1, routing=1, joint=1)


def test_bi_encoder_by_hand():
    """Identity towers: the scale times the cosine of the GELUs."""
    eye = {"weight": np.eye(2, dtype=np.float32), "bias": np.zeros(2, np.float32)}
    tensors = {
        f"{tower}_head.{layer}.{part}": array
        for tower in ("state", "action")
        for layer in ("inp", "out")
        for part, array in eye.items()
    }
    head = BiEncoderHead.load(tensors | {"logit_scale": np.float32(math.log(10))})
    logits = head.logits([[7, 0]], [[3, 0], [0, 5]])
    assert logits == pytest.approx((10.0, 0.0), abs=1e-5)


def test_span_means_by_hand():
    """Spans may lie apart, touch, and end with the last row."""
    rows = np.array([[1.0], [2], [3], [4], [6]], np.float32)
    assert span_means(rows, [(0, 1), (1, 3), (2, 3), (3, 5)]).tolist() == [[1.0], [2.5], [3.0], [5.0]]


@pytest.mark.parametrize("span", [(2, 2), (3, 2), (-1, 2), (0, 6)])
def test_empty_spans_are_refused(span):
    """A span without tokens or outside the prompt has no mean."""
    with pytest.raises(NumericalError, match="span"):
        span_means(np.ones((5, 1), np.float32), [span])


def test_segment_softmax_and_sums_by_hand():
    """Each segment sums to one on its own, however far apart the segments' sizes are."""
    weights = segment_softmax(np.array([0, math.log(3), 500, -500], np.float32), [2, 1, 1])
    assert weights.tolist() == pytest.approx([0.25, 0.75, 1.0, 1.0])
    assert segment_sums(np.array([[1.0], [2], [3], [4]], np.float32), [2, 1, 1]).tolist() == [[3.0], [3.0], [4.0]]
