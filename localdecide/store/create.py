"""Making a model from a Modelfile or from the fields of `/api/create`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localdecide.core import names
from localdecide.core.errors import InvalidModelfile, InvalidName, InvalidRequest, ModelNotFound
from localdecide.core.modelfile import ONCE, Command, Modelfile, checked, parse_modelfile
from localdecide.store import manifests as media
from localdecide.store.blobs import is_digest, resolve_file
from localdecide.store.catalog import Catalog
from localdecide.store.draft import Draft
from localdecide.store.manifests import Layer
from localdecide.store.places import Where, gguf_files, is_package, package_file

if TYPE_CHECKING:
    from localdecide.store.library import Library

Progress = Iterator[dict[str, Any]]


def create(catalog: Catalog, request: Mapping[str, Any], library: Library) -> Progress:
    """See `Store.create`."""
    text = request.get("model") or request.get("name")
    if not isinstance(text, str) or not names.is_valid(text):
        raise InvalidName("invalid model name", {"name": text})
    where = Where(_directory(request.get("directory")), remote=request.get("remote") is True)
    modelfile = _modelfile(request)
    for warning in modelfile.warnings:
        yield {"status": f"warning: {warning}"}
    with catalog.locks.writing() as claim:
        draft = Draft(catalog, claim)
        for digest in _uploads(request):
            yield from draft.add_blob(*uploaded(draft, digest))
        yield from build(draft, modelfile, where, library)
        yield from draft.write(names.parse(text))
    yield from draft.written()


def build(draft: Draft, modelfile: Modelfile, where: Where, library: Library | None) -> Progress:
    """Fill a draft with what a Modelfile says, but for writing it. `library` finds FROMs that are model names."""
    install = modelfile.last("install")
    for source in modelfile.sources:
        yield from _source(draft, source, where, library, install)
    if head := modelfile.last("head"):
        yield from _head(draft, head, where, install)
    apply(draft, modelfile)


def _head(draft: Draft, head: str, where: Where, install: str | None) -> Progress:
    if is_digest(head):
        draft.replace_file(Layer(media.HEAD, *uploaded(draft, head)))
        return
    path = package_file(head, install) if is_package(head) else where.file(head)
    yield from draft.add_file(media.HEAD, resolve_file(path or Path(head)))


def uploaded(draft: Draft, digest: str) -> tuple[str, int]:
    """Digest and size of a blob that a client has sent. Raises InvalidRequest if it is not here."""
    draft.claim(digest)
    path = draft.catalog.blobs.path(digest)
    if not path.is_file():
        raise InvalidRequest.at(("files",), f"there is no blob {digest}; POST it to /api/blobs/{digest} first")
    return digest, path.stat().st_size


def apply(draft: Draft, modelfile: Modelfile) -> None:
    """Put everything of a Modelfile but its files into a draft; what it says wins over what is inherited."""
    for command, kind in (("template", media.TEMPLATE), ("system", media.SYSTEM)):
        if (text := modelfile.last(command)) is not None:
            draft.texts[kind] = [text] if text else []
    if licenses := modelfile.every("license"):
        draft.texts[media.LICENSE] = licenses
    draft.parameters |= modelfile.parameters
    for key, value in modelfile.decision().items():
        kept = draft.decision.get(key)
        draft.decision[key] = {**kept, **value} if isinstance(kept, dict) and isinstance(value, dict) else value


def _source(draft: Draft, source: str, where: Where, library: Library | None, install: str | None) -> Progress:
    if is_package(source):
        yield from draft.add_gguf(package_file(source, install))
        return
    if is_digest(source):
        yield from draft.add_blob(*uploaded(draft, source))
        return
    path = where.file(source)
    if path is not None:
        yield from draft.add_files(gguf_files(path))
    elif "://" in source or (names.is_valid(source) and names.parse(source).host != names.HOST):
        model = draft.catalog.find(source) if names.is_valid(source) else None
        if model is None:
            message = f"{source} is not on this machine; `localdecide pull {source}` gets it"
            raise ModelNotFound(message, {"pull": f"localdecide pull {source}"})
        draft.inherit(model)
    else:
        model = library.resolve(source, draft.catalog) if library else draft.catalog.get(source)
        draft.inherit(model)
        draft.config["parent_model"] = str(model.name)
        for layer in model.manifest.of(media.MODEL):
            yield {"status": f"using existing layer {layer.digest}"}


def _directory(value: Any) -> Path | None:
    if value is None:
        return None
    if not isinstance(value, str) or not Path(value).is_absolute():
        raise InvalidRequest.at(("directory",), "must be an absolute path")
    return Path(value)


def _uploads(request: Mapping[str, Any]) -> list[str]:
    files = request.get("files") or {}
    if not isinstance(files, dict) or not all(isinstance(digest, str) for digest in files.values()):
        raise InvalidRequest.at(("files",), "must be an object of file names and digests")
    return [files[name] for name in sorted(files)]


def _modelfile(request: Mapping[str, Any]) -> Modelfile:
    """The request as one Modelfile: its `modelfile` text, then its fields, which win."""
    uploads = bool(request.get("files"))
    text = request.get("modelfile") or ""
    if not isinstance(text, str):
        raise InvalidRequest.at(("modelfile",), "must be a string")
    commands = list(parse_modelfile(text, source_required=False).commands)
    commands += [Command(name, value) for name, value in _fields(request)]
    if not uploads and not any(command.name == "from" for command in commands):
        raise InvalidModelfile("no FROM line" if text else "neither 'from' or 'files' was specified")
    for name in ("adapters", "quantize"):
        if request.get(name):
            raise InvalidRequest.at((name,), "is not supported: give a GGUF that is ready to use")
    once: dict[Any, Command] = {}
    for command in commands:
        once[command.name if command.name in ONCE else id(command)] = command
    return checked(once.values(), source_required=False)


def _fields(request: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in ("from", "template", "system", "family", "prompt", "head", "attention"):
        if (value := request.get(name)) is not None:
            if not isinstance(value, str):
                raise InvalidRequest.at((name,), "must be a string")
            if value:
                yield name, value
    licenses = request.get("license") or []
    for text in [licenses] if isinstance(licenses, str) else licenses:
        yield "license", str(text)
    for capability in request.get("capabilities") or []:
        yield "capability", str(capability)
    parameters = request.get("parameters")
    parameters = {} if parameters is None else parameters
    if not isinstance(parameters, dict):
        raise InvalidRequest.at(("parameters",), "must be an object")
    for name, value in parameters.items():
        for one in value if isinstance(value, list) else [value]:
            yield "parameter", f"{name} {str(one).lower() if isinstance(one, bool) else one}"
