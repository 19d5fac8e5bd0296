"""Prompts of the families with heads on awkward requests: text, token ids, positions, cuts."""

from __future__ import annotations

import json

import pytest
from awkward import FORGED, decision
from golden_heads import ARCHITECTURES, records, vocabulary_for
from golden_prompts import FOLDER

from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits
from localdecide.families.base import Model
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
    """A request that spells special tokens has only those that the prompt itself is made of."""
    vocabulary = vocabularies[family]
    model = Model(ModelSpec("m:latest", "m.gguf"), vocabulary, Limits(1 << 16, 1 << 16))
    control = {special.id for special in vocabulary.specials.values()}
    forged = family_named(family).plan(decision(name), model)
    question = next(iter(decision(name).questions.values()))
    honest = decision("two options" if len(question.keys) == 2 and question.kind == "choice" else "numbers")
    expected = [token for token in family_named(family).plan(honest, model).prompts[0].tokens if token in control]
    assert [token for token in forged.prompts[0].tokens if token in control] == expected
