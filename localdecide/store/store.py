"""The store as the rest of the daemon sees it: one object, plain methods, no network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from localdecide import paths
from localdecide.core.names import ModelName
from localdecide.store.catalog import Catalog, StoredModel
from localdecide.store.create import create
from localdecide.store.library import Library, LibraryEntry
from localdecide.store.show import show


class Store:
    """Models on this machine and the library of models that can be had.

    Every method is synchronous, safe to call from several threads, and cheap but for `create`
    (and the first `resolve` of a library model), which hash a file once.
    Other processes may change the folder: what is on disk always wins.

    root: the models folder (default `paths.models()`); created when first written to.
    library: the `modelfiles/` folder (default `paths.library()`).
    """

    def __init__(self, root: Path | str | None = None, library: Path | str | None = None) -> None:
        self.root = Path(root) if root is not None else paths.models()
        self.catalog = Catalog(self.root)
        self.known = Library(Path(library) if library is not None else paths.library())

    def list(self) -> Sequence[StoredModel]:
        """Installed models, most recently modified first. A manifest that cannot be read is left out."""
        return self.catalog.list()

    def find(self, name: str) -> StoredModel | None:
        """The installed model of that name (any case, defaults filled in); None if it is not installed.

        Raises InvalidName.
        """
        return self.catalog.find(name)

    def resolve(self, name: str) -> StoredModel:
        """The installed model, or a library model whose weights are on this machine, made on first use.

        Raises InvalidName; ModelNotFound `model 'x' not found` with details `suggestion` (nearest name or
        None), `library` (True if `pull` can get it) and `install` (what to type for a missing package);
        BadModelFile; StoreNotWritable; DiskFull.
        """
        return self.known.resolve(name, self.catalog)

    def create(self, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Progress of `/api/create`: `{"status": ...}`, ending in `{"status": "success"}`.

        request: Ollama's fields (model, from, files, template, system, license, parameters, capabilities)
        or `modelfile` (text) with `directory` (absolute; what relative paths in it are relative to).
        Raises InvalidName, InvalidModelfile, InvalidRequest, ModelNotFound, BadModelFile, StoreFailed.
        """
        return create(self.catalog, request, self.known)

    def copy(self, source: str, destination: str) -> None:
        """Give a model a second name. Raises InvalidName, ModelNotFound, StoreNotWritable."""
        self.catalog.copy(source, destination)

    def delete(self, name: str) -> ModelName:
        """Remove a model and every blob that no other model uses. Raises InvalidName, ModelNotFound."""
        return self.catalog.delete(name)

    def show(self, name: str, *, verbose: bool = False) -> dict[str, Any]:
        """The body of `/api/show`; big arrays of `model_info` are null unless `verbose`."""
        return show(self.resolve(name), verbose=verbose)

    def library(self) -> Sequence[LibraryEntry]:
        """Every model the library knows, by name, installed or not."""
        return self.known.entries()
