"""Everything that moves models in and out of the store: the part that may use the network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.core.errors import NotSupported
from localdecide.store import bundle, upkeep
from localdecide.store import pull as pulling
from localdecide.store import push as pushing
from localdecide.store import verify as verifying
from localdecide.store.catalog import StoredModel
from localdecide.store.download.net import Net, Patience
from localdecide.store.library import LibraryEntry
from localdecide.store.sources import ollama_store
from localdecide.store.sources.base import Context
from localdecide.store.store import Store

Progress = Iterator[dict[str, Any]]


@dataclass
class Depot:
    """Long jobs on one store. Each is a generator of progress lines that ends with success or raises.

    They block: run them in a thread (see `stream`). `stop` ends a job at its next step; what has arrived stays.
    ollama: roots of Ollama stores (default: those found on this machine).
    """

    store: Store
    offline: bool = False
    patience: Patience = field(default_factory=Patience)
    ollama: tuple[Path, ...] | None = None

    def context(self, *, insecure: bool = False, remote: bool = False) -> Context:
        roots = ollama_store.roots() if self.ollama is None else self.ollama
        net = Net(offline=self.offline, patience=self.patience)
        return Context(self.store.catalog, self.store.known, net, roots, insecure, remote)

    def pull(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/pull`: see `store.pull`."""
        context = self.context(insecure=bool(request.get("insecure")), remote=bool(request.get("remote")))
        return pulling.pull(context, request, stop)

    def job(self, kind: str, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """pull, push, export, import, verify or prune by name. Raises NotSupported for any other."""
        jobs = {
            "pull": self.pull,
            "push": self.push,
            "export": self.export,
            "import": self.import_,
            "verify": self.verify,
            "prune": self.prune,
        }
        if kind not in jobs:
            raise NotSupported(f"there is no job called {kind}")
        return jobs[kind](request, stop)

    def look(self, kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """du, search (`q`) or ollama by name. Raises NotSupported for any other."""
        match kind:
            case "du":
                return self.du()
            case "search":
                return {"models": self.search(str(request.get("q") or ""))}
            case "ollama":
                return {"models": [self._listed(model) for model in self.ollama_models()]}
        raise NotSupported(f"there is nothing called {kind} to look at")

    def _listed(self, model: StoredModel) -> dict[str, Any]:
        """A row of `/api/tags`."""
        card = model.card()
        modified = card.pop("modified")
        return {**card, "model": card["name"], "modified_at": modified}

    def push(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/push`: see `store.push`."""
        return pushing.push(self.context(insecure=bool(request.get("insecure"))), request, stop)

    def export(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/export`: see `store.bundle.export`."""
        return bundle.export(self.context(), request, stop)

    def import_(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/import`: see `store.bundle.import_`."""
        return bundle.import_(self.context(), request, stop)

    def verify(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/verify`: see `store.verify`."""
        return verifying.verify(self.context(insecure=bool(request.get("insecure"))), request, stop)

    def prune(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/prune`: see `store.upkeep.prune`."""
        return upkeep.prune(self.store.catalog, request)

    def du(self) -> dict[str, Any]:
        """`/api/du`: see `store.upkeep.du`."""
        return upkeep.du(self.store.catalog)

    def search(self, words: str) -> list[dict[str, Any]]:
        """Library entries that hold every word in name, description, family, licence or tags; all for no word."""
        found = []
        for entry in self.store.library():
            text = " ".join((entry.name, entry.description, entry.family, entry.license, *entry.tags)).lower()
            if all(word in text for word in words.lower().split()):
                found.append(self._found(entry))
        return found

    def _found(self, entry: LibraryEntry) -> dict[str, Any]:
        tags = [
            {"name": f"{entry.name}:{tag}", "source": source, "size": size or None}
            for tag, (source, size) in entry.tags.items()
        ]
        return {
            "name": entry.name,
            "description": entry.description,
            "family": entry.family,
            "license": entry.license,
            "tags": tags,
            "installed": [tag["name"] for tag in tags if self.store.find(str(tag["name"]))],
        }

    def ollama_models(self) -> Sequence[StoredModel]:
        """Models of Ollama's own store that `pull` would adopt."""
        return list(ollama_store.models(self.context().ollama))
