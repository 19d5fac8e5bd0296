"""Which family reads a model: what its Modelfile says, else what its file says, else plain.

A family is a module of this folder whose NAME is its file name, with `_` for `-`. Nothing else lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from localdecide.core.errors import NotSupported
from localdecide.core.model import ModelSpec
from localdecide.families.base import Family
from localdecide.families.plain import PROMPTS

# Header of files from before decision types existed, and the family that they are.
OLD_FILES = {("qwen35", "Bespoke-Nimble", "merged-current"): "nimble"}
# How the names of architectures begin that llama.cpp would refuse without saying why, and the family that says it.
UNREADABLE = {"diffusion": "diffusion-gemma"}


def refuse_unreadable(spec: ModelSpec, architecture: str) -> None:
    """Raises NotSupported, before a file is opened, for a family that only says what it would need (`MISSING`).

    architecture: the file's own word, empty where it is not known.
    """
    told = next((name for start, name in UNREADABLE.items() if architecture.startswith(start)), None)
    name = spec.family or told
    missing = getattr(family_named(name), "MISSING", None) if name else None
    if missing:
        raise NotSupported(missing)


def family_for(spec: ModelSpec, metadata: Mapping[str, Any], head: Mapping[str, Any] | None = None) -> Family:
    """The family's module. head: keys of the head's file. Raises NotSupported for a decision type unknown here."""
    return family_named(family_name(spec, metadata, head))


def family_name(spec: ModelSpec, metadata: Mapping[str, Any], head: Mapping[str, Any] | None = None) -> str:
    """FAMILY, else the file's type, an old file's name, the head's family, else systemone where a Modelfile says more.

    LABELS, ATTENTION or HEAD without a PROMPT end there too, where they are refused and not ignored. PROMPT may
    also name a published version of the plain family's.
    """
    architecture = metadata.get("general.architecture")
    old = (architecture, metadata.get("general.basename"), metadata.get("general.finetune"))
    said = spec.family or metadata.get(f"{architecture}.decision.type") or OLD_FILES.get(old)  # type: ignore[arg-type]
    said = said or (head or {}).get("localdecide.head.family")
    prompt = spec.prompt is not None and spec.prompt.strip() not in PROMPTS
    described = prompt or spec.labels or spec.head or spec.attention == "bidirectional"
    return str(said or ("systemone" if described else "plain"))


def family_named(name: str) -> Family:
    """The module of a family. Raises NotSupported, with the names there are."""
    module = name.replace("-", "_")
    if module.isidentifier() and find_spec(f"{__package__}.{module}") is not None:
        found = import_module(f"{__package__}.{module}")
        if getattr(found, "NAME", None) == name:
            return cast(Family, found)
    known = ", ".join(names())
    raise NotSupported(f"decision models of type {name!r} are not supported (known: {known})")


def names() -> list[str]:
    """The names of all families, sorted."""
    modules = [import_module(f"{__package__}.{file.stem}") for file in Path(__file__).parent.glob("*.py")]
    return sorted(module.NAME for module in modules if hasattr(module, "NAME"))
