"""Golden requests of the library: what a model worth its name answers, ready to be asked of real weights."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from localdecide import paths
from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.modelfile import parse_modelfile
from localdecide.core.plan import Limits
from localdecide.core.questions import parse_questions
from localdecide.engine.fake import FakeVocabulary
from localdecide.families.base import Model
from localdecide.families.fitting import check_model
from localdecide.families.label_family import LabelFamily
from localdecide.families.registry import family_named

FOLDERS = sorted(path.parent for path in paths.library().glob("*/Modelfile"))


class Vocabulary(FakeVocabulary):
    """With a token for each letter behind a space, which xor reads."""

    def tokenize(self, text: str) -> list[int]:
        if len(text) == 2 and text[0] == " " and text[1].isupper():
            return [2000 + ord(text[1])]
        return super().tokenize(text)


def requests(folder: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "golden.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_requests_can_be_asked(folder: Any) -> None:
    """Every request parses, its expected answers are among its options, and a label family makes prompts of it.

    Nothing that the Modelfile says is foreign to its family.
    """
    modelfile = parse_modelfile((folder / "Modelfile").read_text(encoding="utf-8"))
    name = modelfile.last("family")
    assert name is not None
    said = ModelSpec("m", "p", family=name, readouts=modelfile.readouts, temperatures=modelfile.temperatures)
    said = replace(
        said, attention=modelfile.last("attention"), prompt=modelfile.last("prompt"), labels=modelfile.labels
    )
    check_model(family_named(name), Model(said, Vocabulary(), Limits(1 << 16, 512)))
    family = getattr(family_named(name), "family", None)
    head = {"readout.weight": np.zeros((255, 8), np.float32)} if name == "d3" else {}
    model = Model(ModelSpec("m", "p"), Vocabulary(), Limits(1 << 16, 512), head=head)
    for request in requests(folder):
        questions = parse_questions(request["questions"])
        assert list(request["expect"]) == list(questions)
        assert all(request["expect"][key] in question.keys for key, question in questions.items())
        if isinstance(family, LabelFamily):
            prompts = family.plan(Decision(request["state"], questions), model).prompts
            assert {prompt.question for prompt in prompts} == set(questions)
