"""Our templates of upstream's types render as upstream's own, where a checkout of llama.cpp is at hand.

LOCALDECIDE_TEST_LLAMA_CPP names its folder. Templates are read out of the converter's source, not run with it.
"""

from __future__ import annotations

import ast
import os
from pathlib import Path

import awkward
import pytest

from localdecide.core.errors import UnsupportedInput
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Limits
from localdecide.families.base import Model
from localdecide.families.registry import family_named
from tests.reference.judge.templates import TEMPLATES
from tests.tiny import build

FOLDER = os.environ.get("LOCALDECIDE_TEST_LLAMA_CPP", "")
CLASSES = {
    "openjev": "OpenJevModel",
    "lev": "LevModel",
    "nimble": "NimbleModel",
    "pplx-decider": "PplxDeciderModel",
    "lfm2-d1": "D1Model",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="LOCALDECIDE_TEST_LLAMA_CPP names no llama.cpp checkout"),
]


def upstream(name: str) -> str:
    """The template that a converter class writes. Skips where this checkout has no such class."""
    for file in sorted(Path(FOLDER, "conversion").glob("*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and node.name == name and "_systemone_template" in ast.unparse(node):
                return _run(node)
    pytest.skip(f"this llama.cpp has no {name}")


def _run(node: ast.ClassDef) -> str:
    wanted = ("_systemone_template", "_json")
    parts = [
        part
        for part in node.body
        if (isinstance(part, ast.FunctionDef) and part.name in wanted)
        or (isinstance(part, ast.Assign) and ast.unparse(part.targets[0]).startswith("_"))
    ]
    bare = ast.ClassDef(name=node.name, bases=[], keywords=[], body=parts, decorator_list=[])
    module = ast.fix_missing_locations(ast.Module(body=[bare], type_ignores=[]))
    names: dict[str, object] = {
        "jinja_str_or_json": lambda name: "{{ " + name + " if " + name + " is string else " + name + " | tojson }}"
    }
    exec(compile(module, node.name, "exec"), names)
    made = names[node.name]
    assert isinstance(made, type)
    return str(made()._systemone_template())


@pytest.mark.parametrize("family", TEMPLATES)
def test_templates_render_alike(family: str, tmp_path: Path) -> None:
    """Every prompt of every awkward request has the same tokens with either template."""
    from golden_prompts import vocabulary_of

    arch = "lfm2" if family == "lfm2-d1" else "qwen35"
    vocabulary = vocabulary_of(build(arch, tmp_path / "m.gguf").path)
    key = "tokenizer.chat_template.systemone"
    both = [
        Model(ModelSpec("m", "p"), vocabulary, Limits(1 << 20, 512), {key: source})
        for source in (upstream(CLASSES[family]), TEMPLATES[family])
    ]
    compared = 0
    for name in (*awkward.REQUESTS, *awkward.FORGED):
        try:
            expected, actual = (family_named(family).plan(awkward.decision(name), model) for model in both)
        except UnsupportedInput:
            continue
        assert expected == actual, name
        compared += len(actual.prompts)

    assert compared > 20
