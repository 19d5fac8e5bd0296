"""Any request that keeps the rules is answered, whatever its words; any JSON at all gets no 5xx."""

from __future__ import annotations

import json
import math
import unicodedata
from typing import Any

import pytest
from dialect_calls import Caller
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from localdecide.dialects import table

PATHS = ["/v1/systemone", "/typesafe/v1/systemone", "/sglang/v1/systemone", "/requesty/v1/systemone"]
RUN = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
words = text.filter(lambda value: value.strip() != "")
name = words.filter(lambda value: not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in value))
scalar = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
value = st.recursive(scalar, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3))
content = words | st.dictionaries(words, value, min_size=1, max_size=3) | st.lists(value, min_size=1, max_size=3)
options = st.lists(
    st.tuples(name, st.none() | content), min_size=1, max_size=6, unique_by=lambda pair: pair[0].strip().casefold()
)
choice = st.builds(
    lambda pairs, asked: {"type": "choice", "instructions": asked, "criteria": dict(pairs)},
    options,
    st.none() | content,
)
noul = st.builds(
    lambda asked, sides: {"type": "noul", "instructions": asked, "criteria": sides},
    content,
    st.none() | st.dictionaries(st.sampled_from(["true", "false"]), st.none() | content),
)
score = st.builds(
    lambda levels, asked: {"type": "score", "instructions": asked, "criteria": levels},
    st.lists(content, min_size=1, max_size=5),
    st.none() | content,
)
requests = st.builds(
    lambda state, questions: {"model": "m", "state": state, "questions": questions},
    content,
    st.dictionaries(words, choice | noul | score, min_size=1, max_size=4),
)


@pytest.mark.parametrize("path", PATHS)
@RUN
@given(request=requests)
def test_what_keeps_the_rules_is_answered(path: str, request: dict[str, Any]):
    """Ids, names and levels come back as they were sent, in order, with probabilities that sum to 1."""
    reply = Caller()(path, request)
    assert reply.status == 200, reply.body
    assert list(reply.body["answers"]) == list(request["questions"])
    for key, question in request["questions"].items():
        answer = reply.body["answers"][key]
        assert answer["type"] == question["type"]
        if question["type"] == "noul":
            assert 0 <= answer["noul"] <= 1
            continue
        options = list(question["criteria"]) if question["type"] == "choice" else range(len(question["criteria"]))
        assert list(answer["probabilities"]) == [str(option) for option in options]
        assert math.isclose(sum(answer["probabilities"].values()), 1)
        assert 0 <= answer["confidence"] <= 1


@pytest.mark.parametrize("path", list(table.OPERATIONS))
@RUN
@given(request=value)
def test_any_json_is_no_fault_of_ours(path: str, request: Any):
    """Whatever JSON arrives, the answer is one of the contract's 4xx, or a reply where it happens to be right."""
    reply = Caller()(path, json.dumps(request).encode())
    assert reply.status == 200 or 400 <= reply.status < 500
