"""Which family reads a model: what its Modelfile says, else what its file says, else plain."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from localdecide.core.errors import NotSupported
from localdecide.core.model import ModelSpec
from localdecide.families.base import Family

MODULES = {"plain": "plain"}


def family_for(spec: ModelSpec, metadata: Mapping[str, Any]) -> Family:
    """The family's module. Raises NotSupported for a decision type this version does not know."""
    architecture = metadata.get("general.architecture")
    name = spec.family or metadata.get(f"{architecture}.decision.type") or "plain"
    if name not in MODULES:
        known = ", ".join(sorted(MODULES))
        raise NotSupported(f"decision models of type {name!r} are not supported (known: {known})")
    return cast(Family, import_module(f"localdecide.families.{MODULES[name]}"))
