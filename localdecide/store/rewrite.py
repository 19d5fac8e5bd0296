"""New GGUFs in the store, made from others: shards joined, upstream's decision files split."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

from localdecide.core.errors import BadModelFile
from localdecide.store import manifests as media
from localdecide.store.blobs import Blobs, check_room, disk_errors
from localdecide.store.gguf_header import Header, read_header
from localdecide.store.gguf_pieces import Piece, Placed, Stretch, Written, build, length, write
from localdecide.store.gguf_split import recipe, split
from localdecide.store.locks import Claims
from localdecide.store.manifests import Layer

Lines = Generator[dict[str, Any], None, list[Layer]]


def split_file(blobs: Blobs, claim: Claims, header: Header, digest: str, stop: threading.Event) -> Lines:
    """Write backbone, head and recipe of an upstream file whose digest is known; gives their layers.

    Raises DiskFull before the first byte if they do not fit beside the original.
    """
    parts = split(header)
    check_room(length(parts.backbone) + length(parts.head), blobs.folder)
    line = {"status": "splitting into backbone and head", "total": length(parts.backbone) + length(parts.head)}
    model = yield from _written(blobs, claim, parts.backbone, line, 0, stop)
    head = yield from _written(blobs, claim, parts.head, line, model.size, stop)
    way_back = recipe(header, digest, _of(model, header.path), _of(head, header.path))
    origin, size = blobs.add(way_back, claim)
    return [
        Layer(media.MODEL, model.digest, model.size, {"origin": digest}),
        Layer(media.HEAD, head.digest, head.size, {"origin": digest}),
        Layer(media.ORIGIN, origin, size, {"origin": digest}),
    ]


def join_shards(blobs: Blobs, claim: Claims, paths: Sequence[Path], stop: threading.Event) -> Lines:
    """Write the one GGUF that shards `-00001-of-0000N` are pieces of; gives its layer. Raises BadModelFile."""
    headers = [read_header(path) for path in paths]
    _check_shards(headers)
    first = headers[0]
    pairs: list[list[Piece]] = []
    for key, (start, end) in first.extents.items():
        if not key.startswith("split."):
            pairs.append([Stretch(first.path, start, end)])
    pieces = build(pairs, _tensors(headers), first.alignment)
    check_room(length(pieces), blobs.folder)
    line = {"status": f"joining {len(paths)} pieces", "total": length(pieces)}
    whole = yield from _written(blobs, claim, pieces, line, 0, stop)
    return [Layer(media.MODEL, whole.digest, whole.size)]


def _written(
    blobs: Blobs, claim: Claims, pieces: Iterable[Piece], line: dict[str, Any], before: int, stop: threading.Event
) -> Generator[dict[str, Any], None, Written]:
    with disk_errors(blobs.folder), blobs.writing() as (file, place):
        job = write(pieces, file, stop)
        while True:
            try:
                done = next(job)
            except StopIteration as ended:
                written: Written = ended.value
                break
            yield {**line, "completed": before + done}
        claim(written.digest)
        place(written.digest)
    return written


def _of(written: Written, path: Path) -> list[Placed]:
    return [placed for source, placed in written.placed if source == path]


def _tensors(headers: Iterable[Header]) -> Any:
    for header in headers:
        for tensor in sorted(header.tensors, key=lambda tensor: tensor.offset):
            yield header, tensor


def _check_shards(headers: Sequence[Header]) -> None:
    """Raises BadModelFile if the shards are not all the pieces of one file, in order."""
    for number, header in enumerate(headers):
        said = header.metadata.get("split.no"), header.metadata.get("split.count")
        if said != (number, len(headers)):
            wrong = f"{header.path.name} says it is piece {said[0]} of {said[1]}, not {number} of {len(headers)}"
            raise BadModelFile(wrong)
    wanted = headers[0].metadata.get("split.tensors.count")
    found = sum(len(header.tensors) for header in headers)
    if wanted != found:
        raise BadModelFile(f"{headers[0].path.name}: the pieces hold {found} tensors of {wanted}")
