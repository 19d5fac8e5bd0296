"""From what a user typed after `pull` to the source that has it."""

from __future__ import annotations

from dataclasses import replace

from localdecide.core import names
from localdecide.core.errors import ModelNotFound, Offline, SourceFailed
from localdecide.core.modelfile import checked
from localdecide.core.names import HUGGING_FACE, ModelName
from localdecide.store.library import LibraryEntry
from localdecide.store.places import Where, is_package
from localdecide.store.sources import hub, local, ollama_store, registry, url
from localdecide.store.sources.base import Context, Offer

_PLAIN = ("ollama/", f"{names.HOST}/", "ollama.com/")


def library_entry(reference: str, context: Context) -> tuple[ModelName, LibraryEntry] | None:
    """The library's entry for a reference that is a plain name; None for every other reference."""
    bare = reference.partition("://")[2] or reference
    if bare.startswith(_PLAIN) or not names.is_valid(reference):
        return None
    name = names.parse(reference)
    entry = context.library.find(name)
    return (name, entry) if entry else None


def offer_for(reference: str, context: Context) -> Offer:
    """What the reference means, in this order: package, URL, path, library, Hugging Face, Ollama's store, registry.

    Raises InvalidName, InvalidRequest, ModelNotFound, Offline, SourceFailed, StoreFailed, BadModelFile.
    """
    if is_package(reference):
        return local.package_offer(reference)
    if url.is_url(reference):
        if found := hub.file_reference(reference):
            name, revision, file = found
            return replace(hub.offer(name, context, file, revision), name=url.name_of(file.rpartition("/")[2]))
        return url.offer(reference, context)
    if (path := Where(remote=context.remote).file(reference)) is not None:
        return local.offer(path, reference)
    if found_entry := library_entry(reference, context):
        return _from_library(*found_entry, context)
    try:
        return _elsewhere(names.parse(reference), context)
    except (ModelNotFound, SourceFailed) as error:
        near = names.nearest(reference, [entry.name for entry in context.library.entries()])
        if near is None or error.details.get("suggestion"):
            raise
        raise type(error)(f"{error.message}; did you mean {near}?", {**error.details, "suggestion": near}) from error


def _elsewhere(name: ModelName, context: Context) -> Offer:
    """A name that is not the library's."""
    if name.host == HUGGING_FACE:
        return hub.offer(name, context)
    if adopted := ollama_store.offer(name, context.ollama):
        return adopted
    if context.net.offline:
        raise Offline(f"{name} is not on this machine, and LOCALDECIDE_OFFLINE=1 forbids the network")
    return registry.offer(name, context)


def _from_library(name: ModelName, entry: LibraryEntry, context: Context) -> Offer:
    """The entry's source, with what its Modelfile says."""
    source, _ = entry.tags[name.tag]
    if is_package(source):
        offer = local.package_offer(source, entry.modelfile.last("install"))
    else:
        offer = offer_for(source, context)
    commands = list(entry.modelfile.commands)
    if offer.modelfile and not entry.license:  # the source knows what the library does not say
        commands += [command for command in offer.modelfile.commands if command.name == "license"]
    return replace(offer, name=name, modelfile=checked(commands), decision={"library": entry.stamp})
