"""Instructions of a Modelfile that mean nothing to a family are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from localdecide.core.errors import BadModelFile, NotSupported
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.plan import Limits
from localdecide.engine.fake import FakeVocabulary
from localdecide.families.base import Model
from localdecide.families.fitting import check_model
from localdecide.families.registry import family_named, names

HEADS = ("kev", "clef", "laya", "lfm2-d1-omni", "clm", "gliner-decide")
ROWS = {"readout.weight": np.zeros((4, 8), np.float32)}


def check(family: str, head: dict[str, Any] | None = None, **spec: Any) -> None:
    if head is not None:
        spec["head"] = "head.gguf"
    model = Model(ModelSpec("m", "p", family=family, **spec), FakeVocabulary(), Limits(4096, 512), head=head or {})
    check_model(family_named(family), model)


@pytest.mark.parametrize(
    ("family", "spec", "named"),
    [
        ("plain", {"labels": {"noul": ("Yes", "No")}}, "LABELS"),
        ("plain", {"attention": "bidirectional"}, "ATTENTION bidirectional"),
        ("plain", {"temperatures": {"choice.small": 2.0}}, r"TEMPERATURE choice\.small"),
        ("lev", {"temperatures": {"choice.3_5": 2.0}}, r"TEMPERATURE choice\.3_5.*small, mid, large"),
        ("laya", {"attention": "causal"}, "ATTENTION causal"),
        ("kev", {"attention": "bidirectional"}, "ATTENTION bidirectional"),
        ("clm", {"prompt": "{{ state }}"}, "PROMPT"),
        ("systemone", {"labels": {"noul": ("Yes", "No")}}, "no PROMPT"),
        ("openjev", {"labels": {"noul": ("Yes", "No")}}, "LABELS"),
        ("openjev", {"readouts": {"noul": Readout("yesno")}}, "READOUT noul yesno"),
        ("gliner-decide", {"prompt": "{{ state }}"}, "PROMPT"),
        *((name, {"labels": {"noul": ("Yes", "No")}}, "LABELS") for name in HEADS),
        *((name, {"readouts": {"noul": Readout("yesno")}}, "READOUT noul yesno") for name in HEADS),
    ],
)
def test_what_makes_no_sense_is_refused(family: str, spec: dict[str, Any], named: str) -> None:
    """The refusal names the instruction."""
    with pytest.raises(NotSupported, match=named):
        check(family, **spec)


@pytest.mark.parametrize(
    ("family", "head", "named"),
    [
        ("plain", ROWS, "reads no head"),
        ("openjev", {"cls.output.weight": ROWS["readout.weight"]}, r"no readout\.weight"),
        ("kev", {"": {"localdecide.head.family": "clef"}}, "for the clef family"),
        ("pplx-decider", {**ROWS, "": {"localdecide.head.family": "d3"}}, "for the d3 family"),
    ],
)
def test_a_head_of_another_family_is_refused(family: str, head: dict[str, Any], named: str) -> None:
    """HEAD needs a family that reads it, and the one that its file names."""
    with pytest.raises(NotSupported, match=f"HEAD: .*{named}"):
        check(family, head)


@pytest.mark.parametrize(
    ("family", "head", "spec"),
    [
        ("plain", None, {"prompt": "vllm/1", "attention": "causal", "temperatures": {"noul.2": 2.0}}),
        ("kev", {}, {"prompt": "{{ state }}", "readouts": {"noul": Readout("pointer", 2.0)}}),
        ("laya", {}, {"attention": "bidirectional", "temperatures": {"choice.11": 2.0}}),
        ("lev", None, {"temperatures": {"choice.small": 2.0}, "attention": "bidirectional"}),
        (
            "systemone",
            {**ROWS, "": {"localdecide.head.family": "d3"}},
            {"labels": {"noul": ("Yes", "No")}, "prompt": "{{ state }}"},
        ),
        ("d3", {**ROWS, "": {"localdecide.head.family": "d3"}}, {}),
    ],
)
def test_what_makes_sense_is_taken(family: str, head: dict[str, Any] | None, spec: dict[str, Any]) -> None:
    """Each family's own instructions pass."""
    check(family, head, **spec)


def test_every_family_takes_an_empty_modelfile() -> None:
    """Nothing said is nothing refused; systemone alone needs to be told its prompt."""
    for name in set(names()) - {"systemone"}:
        check(name)


def test_a_prompt_that_is_no_template_is_refused_before_any_request() -> None:
    """PROMPT is read when the model is loaded."""
    with pytest.raises(BadModelFile, match="PROMPT is not a template"):
        check("systemone", prompt="{% for %}")
