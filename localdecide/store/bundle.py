"""A model in one file, for machines without a network: a plain tar of its manifest and blobs.

    localdecide.json     format version and name
    manifest.json        the exact bytes of the manifest
    Modelfile, LICENSE   for people who look inside
    blobs/sha256-...     every blob, small ones first

Nothing is compressed (weights do not shrink), so an import reads each blob where it lies, checks it while it
copies, and goes on where an earlier try stopped.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from localdecide.core import names
from localdecide.core.errors import BadModelFile, Cancelled, InvalidName, InvalidRequest, StoreFailed
from localdecide.store import manifests as media
from localdecide.store.blobs import check_room, disk_errors, resolve_file, sync_folder
from localdecide.store.catalog import StoredModel
from localdecide.store.download.origin import FileOrigin
from localdecide.store.gguf_pieces import Stretch, read
from localdecide.store.gguf_split import join, original
from localdecide.store.manifests import Layer, Manifest
from localdecide.store.pull import bring
from localdecide.store.show import modelfile_of
from localdecide.store.sources.base import Context, Offer, Part

FORMAT = 1
_CHUNK = 4 << 20
_SMALL = 4 << 20

Progress = Iterator[dict[str, Any]]


def export(context: Context, request: Mapping[str, Any], stop: threading.Event) -> Progress:
    """Write a model into a file. request: `model`, `file` (absolute), `overwrite`.

    A file name that ends in .gguf gets the weights alone: the upstream file again where an import had split it.
    Raises ModelNotFound, InvalidRequest, DiskFull, StoreFailed, Cancelled.
    """
    model = context.catalog.get(str(request.get("model") or ""))
    target = _target(request)
    yield {"status": f"exporting {model.name}"}
    if target.suffix.lower() == ".gguf":
        yield from _weights(model, target, stop)
    else:
        yield from _bundle(model, target, stop)
    yield {"status": "success"}


def import_(context: Context, request: Mapping[str, Any], stop: threading.Event) -> Progress:
    """Read a bundle. request: `file` (absolute), `model` (what to call it; default: its own name).

    Raises BadModelFile for what is no bundle or is cut off, DigestMismatch, DiskFull, InvalidName.
    """
    path = Path(str(request.get("file") or ""))
    if not path.is_absolute():
        raise InvalidRequest.at(("file",), "must be an absolute path")
    path = resolve_file(path)
    yield {"status": f"reading {path.name}"}
    about, manifest, places = _contents(path)
    text = request.get("model") or about.get("name")
    if not isinstance(text, str) or not names.is_valid(text):
        raise InvalidName("invalid model name", {"name": text})
    described = Manifest.from_bytes(manifest)
    layers = {layer.digest: layer for layer in (described.config, *described.layers)}
    parts = [_part(path, layer, places) for layer in layers.values()]
    yield from bring(context, Offer(str(path), names.parse(text), parts, manifest=manifest), stop)


def _part(path: Path, layer: Layer, places: Mapping[str, tuple[int, int]]) -> Part:
    offset, size = places.get(layer.digest, (0, -1))
    if size != layer.size:
        raise BadModelFile(f"{path.name} lacks {layer.digest[:19]} or holds only a part of it")
    origin = FileOrigin(path, offset, size, path.name)
    return Part(layer.digest[7:19], layer.digest, size, layer.media_type, lambda: origin)


def _contents(path: Path) -> tuple[dict[str, Any], bytes, dict[str, tuple[int, int]]]:
    """What the bundle says of itself, its manifest, and offset and size of each blob."""
    places: dict[str, tuple[int, int]] = {}
    small: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.name.startswith("blobs/sha256-"):
                    digest = member.name.removeprefix("blobs/").replace("-", ":", 1)
                    places[digest] = member.offset_data, member.size
                elif member.size <= _SMALL and (file := tar.extractfile(member)):
                    small[member.name] = file.read()
        about = json.loads(small["localdecide.json"])
        version = int(about["version"])
    except (tarfile.TarError, KeyError, ValueError, TypeError, EOFError) as error:
        raise BadModelFile(f"{path.name} is not a bundle of localdecide, or it is cut off ({error})") from None
    if version > FORMAT:
        raise BadModelFile(f"{path.name} is a bundle of version {version}; this localdecide reads up to {FORMAT}")
    if "manifest.json" not in small:
        raise BadModelFile(f"{path.name} holds no manifest")
    end = path.stat().st_size
    if any(offset + size > end for offset, size in places.values()):
        raise BadModelFile(f"{path.name} is cut off: it ends inside a blob")
    return about, small["manifest.json"], places


def _target(request: Mapping[str, Any]) -> Path:
    target = Path(str(request.get("file") or ""))
    if not target.is_absolute():
        raise InvalidRequest.at(("file",), "must be an absolute path")
    if not target.parent.is_dir():
        raise InvalidRequest.at(("file",), f"the folder {target.parent} does not exist")
    if target.exists() and not (request.get("overwrite") is True and target.is_file()):
        raise InvalidRequest.at(("file",), f"{target} exists already")
    return target


def _bundle(model: StoredModel, target: Path, stop: threading.Event) -> Progress:
    layers = {layer.digest: layer for layer in (model.manifest.config, *model.manifest.layers)}
    check_room(sum(layer.size + 1024 for layer in layers.values()) + 65536, target.parent)
    about = {"version": FORMAT, "name": str(model.name), "digest": model.digest}
    texts = {
        "localdecide.json": json.dumps(about, indent=1).encode(),
        "manifest.json": model.raw,
        "Modelfile": modelfile_of(model).encode(),
        "LICENSE": "\n\n".join(model.licenses).encode(),
    }
    with _writing(target) as file:
        for name, data in texts.items():
            yield from _member(file, name, len(data), io.BytesIO(data), {}, stop)
        for layer in sorted(layers.values(), key=lambda layer: layer.size):
            line = {"status": f"exporting {layer.digest[7:19]}", "digest": layer.digest}
            with model.blobs.path(layer.digest).open("rb") as source:
                yield from _member(file, f"blobs/sha256-{layer.digest[7:]}", layer.size, source, line, stop)
        file.write(bytes(2 * tarfile.BLOCKSIZE))


def _member(
    file: IO[bytes], name: str, size: int, source: IO[bytes], line: dict[str, Any], stop: threading.Event
) -> Progress:
    """One member of the tar, written by hand: tarfile would say nothing before it is done. Reports `line` if given."""
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o644
    file.write(member.tobuf(tarfile.PAX_FORMAT))
    sent = 0
    while data := source.read(_CHUNK):
        if stop.is_set():
            raise Cancelled("the export was cancelled")
        file.write(data)
        sent += len(data)
        if line:
            yield {**line, "total": size, "completed": sent}
    if sent != size:
        raise StoreFailed(f"{name} has {sent} bytes and should have {size}")
    file.write(bytes(-size % tarfile.BLOCKSIZE))


def _weights(model: StoredModel, target: Path, stop: threading.Event) -> Progress:
    """The GGUF of a model: as it came, also where an import had split it."""
    digest, size, chunks = _original(model)
    check_room(size, target.parent)
    sent = 0
    with _writing(target) as file:
        for data in chunks:
            if stop.is_set():
                raise Cancelled("the export was cancelled")
            file.write(data)
            sent += len(data)
            yield {"status": f"writing {target.name}", "total": size, "completed": sent}
    yield {"status": f"byte-identical to {digest}"}


def _original(model: StoredModel) -> tuple[str, int, Iterator[bytes]]:
    """Digest, size and bytes of the file a model came from."""
    layer, head = model.manifest.first(media.ORIGIN), model.spec.head
    if layer is None or head is None:
        size = model.path.stat().st_size
        return model.spec.digest, size, read(Stretch(model.path, 0, size))
    recipe = model.blobs.path(layer.digest).read_bytes()
    digest, size = original(recipe)
    return digest, size, join(recipe, model.path, Path(head))


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[IO[bytes]]:
    """A file beside the target that becomes the target when the block ends well."""
    path = target.with_name(f".{target.name}.{os.urandom(4).hex()}.part")
    with disk_errors(target.parent):
        try:
            with path.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(path, target)
            sync_folder(target.parent)
        finally:
            path.unlink(missing_ok=True)
