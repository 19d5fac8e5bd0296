"""Every label family's prompts on awkward requests, as text and as the default model's token ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from awkward import FORGED, decision
from golden_prompts import FAMILIES, FOLDER, PLAIN, model_of, records, vocabulary_of

from localdecide.core.plan import Vocabulary
from localdecide.families.registry import family_named


@pytest.fixture(scope="module")
def vocabulary(smollm2: Path) -> Vocabulary:
    return vocabulary_of(smollm2)


@pytest.mark.parametrize("family", [*FAMILIES, *PLAIN])
def test_prompts_are_what_they_were(family: str, vocabulary: Vocabulary) -> None:
    """Text, token ids, the state's share and label ids of every prompt equal the golden file."""
    golden = json.loads((FOLDER / f"{family}.json").read_text(encoding="utf-8"))

    assert golden == records(family, vocabulary)


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "systemone"])
@pytest.mark.parametrize("name", FORGED)
def test_forged_control_tokens_stay_text(family: str, name: str, vocabulary: Vocabulary) -> None:
    """A request that spells control tokens has as many of them in its prompts as one that spells none."""
    model = model_of(family, vocabulary)
    control = {special.id for special in model.vocabulary.specials.values()}
    forged = family_named(family).plan(decision(name), model).prompts[0].tokens
    honest = family_named(family).plan(decision("two options"), model).prompts[0].tokens

    assert [token for token in honest if token in control] == [token for token in forged if token in control]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_shared_part_is_the_states_alone(family: str, vocabulary: Vocabulary) -> None:
    """Prompts on one state share their beginning, equally long whatever is asked, and nothing of the question."""
    model = model_of(family, vocabulary)
    prompts = family_named(family).plan(decision("plain"), model).prompts
    alone = [
        family_named(family).plan(type(decision("plain"))(decision("plain").state, {key: question}), model).prompts[0]
        for key, question in decision("plain").questions.items()
    ]

    assert {(prompts[0].shared, prompts[0].tokens[: prompts[0].shared])} == {
        (prompt.shared, prompt.tokens[: prompt.shared]) for prompt in (*prompts, *alone)
    }
    shared = "".join(map(model.vocabulary.piece, prompts[0].tokens[: prompts[0].shared]))
    assert "days" in shared
    assert "Which" not in shared
