"""Which family reads a model."""

from __future__ import annotations

from typing import Any

import pytest

from localdecide.core.errors import NotSupported
from localdecide.core.model import ModelSpec
from localdecide.families.registry import family_for, names

OLD = {"general.architecture": "qwen35", "general.basename": "Bespoke-Nimble", "general.finetune": "merged-current"}


@pytest.mark.parametrize(
    ("spec", "metadata", "expected"),
    [
        ({}, {}, "plain"),
        ({}, {"general.architecture": "qwen35"}, "plain"),
        ({}, {"general.architecture": "qwen35", "qwen35.decision.type": "lev"}, "lev"),
        ({}, {"general.architecture": "lfm2", "lfm2.decision.type": "lfm2-d1"}, "lfm2-d1"),
        ({}, {"general.architecture": "lfm2", "qwen35.decision.type": "lev"}, "plain"),
        ({"family": "xor"}, {"general.architecture": "qwen35", "qwen35.decision.type": "lev"}, "xor"),
        ({}, OLD, "nimble"),
        ({}, {**OLD, "general.finetune": "other"}, "plain"),
        ({"prompt": "{{ state }}"}, {}, "systemone"),
        ({"labels": {"noul": ("ja", "nein")}}, {}, "systemone"),
        ({"attention": "bidirectional"}, {}, "systemone"),
        ({"attention": "causal"}, {}, "plain"),
        ({"prompt": " vllm/1\n"}, {}, "plain"),
        ({"head": "head.gguf"}, {}, "systemone"),
        ({"prompt": "{{ state }}"}, {"general.architecture": "qwen35", "qwen35.decision.type": "kev"}, "kev"),
    ],
)
def test_who_reads_it(spec: dict[str, Any], metadata: dict[str, Any], expected: str) -> None:
    """FAMILY, then the file's type under its own architecture, then an old file's name, then PROMPT, then plain."""
    assert expected == family_for(ModelSpec("m", "p", **spec), metadata).NAME


@pytest.mark.parametrize("name", ["decision2", "base", "heads", "../plain", "", "lfm2_d1", "os.path"])
def test_a_family_that_is_none(name: str) -> None:
    """An unknown type is refused with the names there are; a helper module is no family."""
    metadata = {"general.architecture": "x", "x.decision.type": name or "no such"}

    with pytest.raises(NotSupported, match=r"known: .*openjev.*plain"):
        family_for(ModelSpec("m", "p"), metadata)


def test_every_family_is_found_by_its_name() -> None:
    """Each module that calls itself a family is the one its name leads to, with all that a family has."""
    found = {name: family_for(ModelSpec("m", "p", family=name), {}) for name in names()}

    assert {"plain", "openjev", "lev", "nimble", "pplx-decider", "d3", "tev1", "xor", "lfm2-d1", "systemone"} <= set(
        found
    )
    for name, family in found.items():
        assert name == family.NAME
        assert isinstance(family.JOINT, bool)
        assert all(callable(getattr(family, part)) for part in ("plan", "read", "describe"))


def test_a_head_names_its_family() -> None:
    """HEAD without FAMILY: the family that the head's file names; FAMILY wins over it."""
    keys = {"localdecide.head.family": "d3"}

    assert family_for(ModelSpec("m", "p", head="h"), {}, keys).NAME == "d3"
    assert family_for(ModelSpec("m", "p", head="h", family="systemone"), {}, keys).NAME == "systemone"
