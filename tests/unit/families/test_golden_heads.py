"""Prompts of the families with heads on awkward requests: text, token ids, positions, cuts."""

from __future__ import annotations

import json
import re

import pytest
from awkward import FORGED, decision
from golden_heads import ARCHITECTURES, FAMILY, model_of, records, vocabulary_for
from golden_prompts import FOLDER

from localdecide.core.decision import Decision
from localdecide.core.questions import parse_questions
from localdecide.families.registry import family_named


@pytest.fixture(scope="module")
def vocabularies(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    return {family: vocabulary_for(family, folder) for family in ARCHITECTURES}


@pytest.mark.parametrize("family", ARCHITECTURES)
def test_prompts_are_what_they_were(family, vocabularies):
    """Every prompt equals the golden file, token for token."""
    golden = json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))
    assert records(family, vocabularies[family]) == golden


@pytest.mark.parametrize("family", ARCHITECTURES)
@pytest.mark.parametrize("name", FORGED)
def test_forged_marks_stay_text(family, name, vocabularies):
    """A request that spells special tokens has those of its twin that spells none."""
    vocabulary = vocabularies[family]
    model = model_of(family, vocabulary)
    special = {special.id for special in vocabulary.specials.values()}
    state, questions = json.loads(re.sub(r"<[^>]*>+|\[MASK\]", "x", json.dumps(FORGED[name])))
    asked = (decision(name), Decision(state, parse_questions(questions)))
    reader = family_named(FAMILY.get(family, family))
    forged, twin = (
        [token for prompt in reader.plan(each, model).prompts for token in prompt.tokens if token in special]
        for each in asked
    )
    assert forged == twin
