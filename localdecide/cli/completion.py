"""Model names for the shell's completion, read from the disk: asking the daemon would be slow or start one."""

from __future__ import annotations

from collections.abc import Iterator


def model_names(incomplete: str) -> list[str]:
    """Installed and library names that begin with `incomplete`, sorted."""
    return sorted(name for name in {*_installed(), *_library()} if name.startswith(incomplete))


def _library() -> Iterator[str]:
    from localdecide import paths

    folder = paths.library()
    if folder.is_dir():
        yield from (entry.parent.name for entry in folder.glob("*/Modelfile"))


def _installed() -> Iterator[str]:
    from localdecide import paths
    from localdecide.core.names import ModelName

    manifests = paths.models() / "manifests"
    for entry in manifests.glob("*/*/*/*"):
        host, namespace, model = entry.relative_to(manifests).parts[:-1]
        yield str(ModelName(model, entry.name, namespace, host))
