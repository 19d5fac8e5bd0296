"""Every name and tag of the real library, resolved and pulled against a hub and a registry on the loopback."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from crooked_server import serving
from fake_registry import FakeRegistry
from test_hub import FakeHub

from localdecide import paths
from localdecide.core import names
from localdecide.core.errors import BadModelFile
from localdecide.core.names import HUGGING_FACE
from localdecide.store.depot import Depot
from localdecide.store.download.net import Patience
from localdecide.store.places import is_package
from localdecide.store.sources.registry import Registry
from localdecide.store.store import Store

ENTRIES = Store("/nowhere", paths.library()).library()
TAGS = [(entry, tag) for entry in ENTRIES for tag, (source, _) in sorted(entry.tags.items()) if not is_package(source)]
# Their makers publish checkpoints; the cards say how to convert them.
CHECKPOINTS = {"clm", "d3", "gliner-decide"}
ASKED_FOR = {
    *("kev", "clef", "clef-flash", "laya", "julia", "openjev", "lev", "nimble", "pplx-decider", "tev1"),
    *("d1", "d1-omni", "d3", "clm", "xor", "gliner-decide", "qwen3"),
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[FakeHub, FakeRegistry]]:
    """Hugging Face and Ollama's registry, both on the loopback; nothing else can be reached from a test."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    with serving({}) as hub, serving({}) as registry:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        made = Registry.__init__

        def on_the_loopback(self: Registry, *args: Any, **more: Any) -> None:
            made(self, *args, **more)
            self.base = self.base.replace(f"https://{names.HOST}", registry.url)

        monkeypatch.setattr(Registry, "__init__", on_the_loopback)
        yield FakeHub(hub), FakeRegistry(registry)


def publish(source: str, world: tuple[FakeHub, FakeRegistry], label: str) -> None:
    """A tiny model, or a checkpoint without one, at exactly the address that the library gives."""
    hub, registry = world
    name = names.parse(source)
    data = tiny_gguf.build({"general.name": label})
    if name.host != HUGGING_FACE:
        registry.add(f"{name.namespace}/{name.model}:{name.tag}", data)
    elif name.tag == names.TAG:
        hub.repos[f"{name.namespace}/{name.model}"] = {"model.safetensors": b"x", "config.json": b"{}"}
    else:
        hub.repos[f"{name.namespace}/{name.model}"] = {f"m-{name.tag}.gguf": data, "m-F16.gguf": tiny_gguf.build()}


@pytest.mark.parametrize(("entry", "tag"), TAGS, ids=[f"{entry.name}:{tag}" for entry, tag in TAGS])
def test_every_tag_is_pulled_from_its_address(
    entry: Any, tag: str, world: tuple[FakeHub, FakeRegistry], tmp_path: Path
) -> None:
    """`pull NAME:TAG` asks the address of the tag, and what comes is read by the entry's family."""
    depot = Depot(
        Store(tmp_path / "models", paths.library()),
        patience=Patience(tries=2, pause=0.01, connect=5.0, stall=5.0),
        ollama=(),
    )
    label = f"{entry.name}:{tag}"
    publish(entry.tags[tag][0], world, label)
    if entry.name in CHECKPOINTS:
        with pytest.raises(BadModelFile, match="convert it with gguf_convert"):
            list(depot.pull({"model": label}, threading.Event()))
        return

    list(depot.pull({"model": label}, threading.Event()))

    model = depot.store.resolve(label)
    assert (model.facts.name, model.spec.family) == (label, entry.family)
    shown = depot.store.show(label)
    assert (shown["decision"]["family"], shown["description"]) == (entry.family, entry.description)
    assert model.spec.readouts == entry.modelfile.readouts


def test_the_library_has_what_people_ask_for() -> None:
    """Every model by the name that people know, each with a card of its size, licence and use, and golden requests."""
    found = {entry.name for entry in ENTRIES}

    assert set() == ASKED_FOR - found
    assert {"llama3.2", "gemma3", "phi4-mini", "smollm2"} <= found
    for entry in ENTRIES:
        folder = paths.library() / entry.name
        assert (folder / "golden.json").is_file()
        if entry.name != "smollm2":  # whose card says in numbers what it is worth
            assert all(f"| {row} |" in entry.card for row in ("made by", "comes from", "size", "licence", "family"))
            assert "Good for: " in entry.card
            assert f"localdecide run {entry.name}" in entry.card
