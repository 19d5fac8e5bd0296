"""Temperatures: what divides a question's logits, and who said so.

A name is a question type, or a type and a bucket of option counts (`choice.3_5`, lev's `choice.small`);
the bucket's own value wins over its type's. The Modelfile wins over the model's file, the file over its
head's file, that over the family's own constant. Nobody said anything: 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from localdecide.core.errors import BadModelFile
from localdecide.families import head_file
from localdecide.families.base import Model

KINDS = ("choice", "noul", "score")
SIZES = ("2", "3_5", "6_10", "11")


def by_size(options: int) -> str:
    """The buckets of all upstream types but lev."""
    return "2" if options <= 2 else "3_5" if options <= 5 else "6_10" if options <= 10 else "11"


def temperature(
    model: Model,
    kind: str,
    options: int,
    bucket: Callable[[int], str] = by_size,
    constants: Mapping[str, float] | None = None,
) -> float:
    """The divisor for a question. options: how many it has. Raises BadModelFile for a file's value not above 0."""
    for _, table in sources(model, constants):
        for name in (f"{kind}.{bucket(options)}", kind):
            if name in table:
                return table[name]
    return 1.0


def describe_temperatures(model: Model, constants: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Every name with its value and source, for `show`."""
    shown: dict[str, Any] = {}
    for source, table in sources(model, constants):
        for name, value in table.items():
            shown.setdefault(name, {"temperature": value, "source": source})
    for kind in KINDS:
        shown.setdefault(kind, {"temperature": 1.0, "source": "nothing says otherwise"})
    return dict(sorted(shown.items()))


def sources(model: Model, constants: Mapping[str, float] | None = None) -> Iterator[tuple[str, dict[str, float]]]:
    """Tables by name, the winning one first."""
    yield "Modelfile", dict(model.spec.temperatures)
    readouts = model.spec.readouts.items()
    yield "Modelfile", {kind: r.temperature for kind, r in readouts if r.temperature is not None}
    architecture = model.metadata.get("general.architecture")
    yield "the model's file", _table(model.metadata, f"{architecture}.decision.temperature.")
    head = head_file.keys(model)
    yield "the head's file", _table(head, "temperature.")
    if "temperature" in head:
        yield "the head's file", dict.fromkeys(KINDS, _positive(head, "temperature"))
    yield "the family", dict(constants or {})


def _table(metadata: Mapping[str, Any], prefix: str) -> dict[str, float]:
    return {key.removeprefix(prefix): _positive(metadata, key) for key in metadata if key.startswith(prefix)}


def _positive(metadata: Mapping[str, Any], key: str) -> float:
    value = metadata[key]
    if not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise BadModelFile(f"the file's {key} is {value!r}, not a number above 0")
    return float(value)
