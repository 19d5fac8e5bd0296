"""Everything that moves models in and out of the store: the part that may use the network."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.store import pull as pulling
from localdecide.store.catalog import StoredModel
from localdecide.store.download.net import Net, Patience
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

    def context(self, *, insecure: bool = False) -> Context:
        roots = ollama_store.roots() if self.ollama is None else self.ollama
        net = Net(offline=self.offline, patience=self.patience)
        return Context(self.store.catalog, self.store.known, net, roots, insecure)

    def pull(self, request: Mapping[str, Any], stop: threading.Event) -> Progress:
        """`/api/pull`: see `store.pull`."""
        return pulling.pull(self.context(insecure=bool(request.get("insecure"))), request, stop)

    def ollama_models(self) -> Sequence[StoredModel]:
        """Models of Ollama's own store that `pull` would adopt."""
        return list(ollama_store.models(self.context().ollama))
