"""What lies in the store and what of it nobody needs: `du` and `prune`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from localdecide.store.blobs import disk_errors, free_bytes
from localdecide.store.catalog import Catalog
from localdecide.store.derived import derived_files
from localdecide.store.download.partial import Leftover, leftovers

_YOUNG = 3600.0  # seconds: a temporary file of a writer that may still be at work

Progress = Iterator[dict[str, Any]]


def du(catalog: Catalog) -> dict[str, Any]:
    """Bytes by model (`size` in all, `own` what only it uses), of unused blobs, copies and partials, and free."""
    models = catalog.list()
    users: dict[str, int] = {}
    for model in models:
        for digest in model.manifest.digests:
            users[digest] = users.get(digest, 0) + 1
    blobs = catalog.blobs.all()
    rows = [
        {
            "name": str(model.name),
            "size": sum(blobs.get(digest, 0) for digest in model.manifest.digests),
            "own": sum(blobs.get(digest, 0) for digest in model.manifest.digests if users[digest] == 1),
        }
        for model in models
    ]
    partials = [leftover.to_json() for leftover in leftovers(catalog.root / "partials")]
    return {
        "root": str(catalog.root),
        "models": rows,
        "blobs": sum(blobs.values()),
        "unused": sum(size for digest, size in blobs.items() if digest not in users),
        "derived": sum(size for _, _, size in derived_files(catalog.root)),
        "partials": partials,
        "free": free_bytes(catalog.root),
    }


def prune(catalog: Catalog, request: Mapping[str, Any]) -> Progress:
    """Find, and with `apply` remove, what no model uses.

    request: `apply` (default false: only tell), `partials` (also unfinished downloads), `older` (of those only
    such that nobody has touched for so many seconds). Unfinished downloads are always listed, with their age.
    The last line has `freed` (or what would be) and `applied`. Raises StoreFailed while a manifest is unreadable.
    """
    apply = request.get("apply") is True
    freed = 0
    with catalog.locks.removing() as claimed:
        keep = catalog.used() | claimed
        for digest, size in sorted(catalog.blobs.all().items()):
            if digest not in keep:
                freed += catalog.blobs.remove(digest) if apply else size
                yield {"status": f"unused {digest}", "digest": digest, "size": size}
        for digest, path, size in derived_files(catalog.root):
            if digest not in keep:
                with disk_errors(path.parent):
                    if apply:
                        path.unlink(missing_ok=True)
                freed += size
                yield {"status": f"unused copy {path.name}", "digest": digest, "size": size}
        for path, size in _temporary(catalog):
            with disk_errors(path.parent):
                if apply:
                    path.unlink(missing_ok=True)
            freed += size
            yield {"status": f"left behind {path.name}", "size": size}
    older = float(request.get("older") or 0)
    for leftover in leftovers(catalog.root / "partials"):
        wanted = request.get("partials") is True and leftover.age >= older
        if wanted and (not apply or _drop(catalog, leftover)):
            freed += leftover.size
        yield {"status": f"unfinished {leftover.key}", **leftover.to_json(), "kept": not (wanted and apply)}
    if apply:
        _empty_folders(catalog.manifests.folder)
    yield {"status": "success", "freed": freed, "applied": apply}


def _temporary(catalog: Catalog) -> Iterator[tuple[Path, int]]:
    """Temporary files that a crash left, old enough that no writer can still hold them."""
    now = time.time()
    for folder, pattern in ((catalog.blobs.folder, ".*-*"), (catalog.manifests.folder, "**/.write-*")):
        for path in folder.glob(pattern):
            with contextlib.suppress(FileNotFoundError):
                stat = path.stat()
                if now - stat.st_mtime > _YOUNG:
                    yield path, stat.st_size


def _drop(catalog: Catalog, leftover: Leftover) -> bool:
    """Remove a partial unless somebody is downloading it."""
    path = catalog.root / "partials" / leftover.key
    with catalog.locks.partial(leftover.key, timeout=0) as mine, disk_errors(path.parent):
        if mine:
            path.unlink(missing_ok=True)
            path.with_name(path.name + ".journal").unlink(missing_ok=True)
        return mine


def _empty_folders(folder: Path) -> None:
    for path in sorted(folder.glob("**/"), key=lambda path: -len(path.parts)):
        with contextlib.suppress(OSError):
            if path != folder:
                path.rmdir()
