"""Files for a daemon on another machine: sent as blobs, and named by their digest in the Modelfile."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localdecide.cli.client import DaemonError
from localdecide.cli.usage import UsageProblem

if TYPE_CHECKING:
    from localdecide.cli.client import Client


def create(client: Client, name: str, modelfile: str, folder: Path) -> Iterator[Mapping[str, Any]]:
    """Progress of an upload of every local FROM and HEAD, then of the create."""
    from localdecide.core.modelfile import Command, format_modelfile, parse_modelfile

    commands = []
    for command in parse_modelfile(modelfile).commands:
        path = local(command.value, folder) if command.name in ("from", "head") else None
        if path is not None:
            digest = yield from send(client, path)
            command = Command(command.name, digest, command.line)
        commands.append(command)
    yield from client.stream("POST", "/api/create", {"model": name, "modelfile": format_modelfile(commands)})


def local(source: str, folder: Path) -> Path | None:
    """The file that a source names on this machine; None for a model's name or a package."""
    if source.startswith("package:"):
        return None
    path = folder / Path(source.removeprefix("file://")).expanduser()
    if path.is_dir():
        raise UsageProblem(f"{path} is a folder", "name its GGUF: a daemon on another machine gets single files")
    return path if path.is_file() else None


def send(client: Client, path: Path) -> Generator[Mapping[str, Any], None, str]:
    """Progress of one file; gives its digest. Sends nothing that the daemon has."""
    import hashlib

    with path.open("rb") as file:
        digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    total = path.stat().st_size
    line = {"status": f"copying file {digest[7:19]}", "digest": digest, "total": total}
    try:
        client.raw("HEAD", f"/api/blobs/{digest}")
    except DaemonError as error:
        if error.status != 404:
            raise
        yield line
        client.send_file(f"/api/blobs/{digest}", path)
    yield {**line, "completed": total}
    return digest
