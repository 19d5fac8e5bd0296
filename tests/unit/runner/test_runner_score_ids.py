"""`/v1/score` refuses ids that are no tokens of the model."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from localdecide.core.errors import InvalidRequest
from localdecide.runner.score import score


@pytest.mark.parametrize(
    ("prompt", "labels", "path"), [([10], [1], "items.0"), ([1], [10], "label_token_ids.0"), ([], [1], "items.0")]
)
def test_ids_outside_the_vocabulary(prompt, labels, path):
    """An id over the vocabulary's size, and an empty prompt, never reach the engine."""
    engine = SimpleNamespace(vocabulary=SimpleNamespace(size=10))
    with pytest.raises(InvalidRequest, match=path):
        score(engine, {"prompts": [prompt], "labels": [labels]}, lambda: False)
