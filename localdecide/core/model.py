"""What a model is, apart from its weights: the facts a runner needs to load and read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Readout:
    """How one question type is read. name: "letters", "rotations", "text", "yesno", ...; temperature: divisor."""

    name: str | None = None
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as the store describes it to a runner. JSON both ways.

    name: the name it is served under, as `name:tag`.
    path: the GGUF on disk; head, projector: their files or None.
    family: name in `localdecide.families`; None lets the file decide.
    template, system, prompt: TEMPLATE, SYSTEM and PROMPT of the Modelfile.
    parameters: PARAMETER values by name, already typed.
    readouts: by question type. temperatures: TEMPERATURE by "choice", "noul.small", ...
    labels: LABELS by question type; attention: ATTENTION.
    """

    name: str
    path: str
    digest: str = ""
    head: str | None = None
    projector: str | None = None
    family: str | None = None
    template: str | None = None
    system: str | None = None
    prompt: str | None = None
    attention: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    readouts: Mapping[str, Readout] = field(default_factory=dict)
    temperatures: Mapping[str, float] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> ModelSpec:
        fields = dict(wire)
        fields["readouts"] = {kind: Readout(**value) for kind, value in fields.get("readouts", {}).items()}
        fields["labels"] = {kind: tuple(value) for kind, value in fields.get("labels", {}).items()}
        return cls(**fields)
