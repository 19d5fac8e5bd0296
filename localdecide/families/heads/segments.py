"""Reductions over stretches of rows that follow each other: means of spans, softmax and sums by owner."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import NumericalError
from localdecide.families.heads.arithmetic import Array

Spans = Sequence[tuple[int, int]]


def span_means(rows: Array, spans: Spans) -> Array:
    """Mean of rows[start:end] for every span: [spans, width]. Raises NumericalError for an empty span."""
    bounds = np.asarray(spans, dtype=np.intp).reshape(-1, 2)
    if (bounds[:, 0] >= bounds[:, 1]).any() or (bounds < 0).any() or (bounds > len(rows)).any():
        raise NumericalError("numerical error: a span of the prompt holds no tokens")
    # reduceat sums from each index to the next, and may not be given an end that is past the last
    # row: a row of zeros goes behind it. Every second sum lies between two spans.
    padded = np.concatenate([rows, np.zeros((1, rows.shape[1]), rows.dtype)])
    sums = np.add.reduceat(padded, bounds.ravel(), axis=0)[::2]
    lengths = (bounds[:, 1] - bounds[:, 0])[:, None]
    means: Array = np.divide(sums, lengths, dtype=np.float32, casting="unsafe")
    return means


def starts(counts: Sequence[int]) -> NDArray[np.intp]:
    """Where each of consecutive segments of these sizes begins. Every size is at least 1."""
    return np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)


def segment_softmax(scores: Array, counts: Sequence[int]) -> Array:
    """softmax of scores [n] within each of the consecutive segments."""
    first = starts(counts)
    weights: Array = np.exp(scores - np.repeat(np.maximum.reduceat(scores, first), counts))
    weights /= np.repeat(np.add.reduceat(weights, first), counts)
    return weights


def segment_sums(rows: Array, counts: Sequence[int]) -> Array:
    """Sum of the rows of each segment: [segments, width]."""
    sums: Array = np.add.reduceat(rows, starts(counts), axis=0)
    return sums
