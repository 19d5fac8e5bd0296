"""Length-prefixed JSON, the language of the runner's pipes: four bytes of length, big endian, then UTF-8.

Frames to a runner
    {"op": "load", "spec": ModelSpec, "options": {...}}       first, once
    {"op": "decide", "id": n, "decision": {...}}
    {"op": "score", "id": n, "request": {...}}                 SGLang's raw label scoring
    {"op": "cancel", "id": n}
    {"op": "ping", "id": n}
    {"op": "stop"}                                             end of input means the same
Frames from a runner
    {"op": "progress", "fraction": 0..1}
    {"op": "ready", "info": {...}}      or   {"op": "failed", "error": wire error}
    {"id": n, "result": {...}, "cache_bytes": n}     or   {"id": n, "error": wire error}
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.questions import parse_question, question_to_json

HEADER = struct.Struct(">I")
MAX_FRAME = 1 << 30


def encode(message: Mapping[str, Any]) -> bytes:
    """One frame."""
    body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return HEADER.pack(len(body)) + body


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """The next frame of a blocking stream, or None at its end (a cut frame counts as the end)."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length = HEADER.unpack(header)[0]
    body = stream.read(length)
    return json.loads(body) if len(body) == length else None


def decision_to_wire(decision: Decision) -> dict[str, Any]:
    return {
        "state": decision.state,
        "questions": [[key, question_to_json(question)] for key, question in decision.questions.items()],
        "images": [base64.b64encode(image).decode() for image in decision.images],
        "options": asdict(decision.options),
    }


def decision_from_wire(wire: Mapping[str, Any]) -> Decision:
    return Decision(
        state=wire["state"],
        questions={key: parse_question(raw, ("questions", key)) for key, raw in wire["questions"]},
        images=tuple(base64.b64decode(image) for image in wire["images"]),
        options=Options(**wire["options"]),
    )


def result_to_wire(result: Result) -> dict[str, Any]:
    wire = asdict(result)
    wire["readings"] = [[key, asdict(reading)] for key, reading in result.readings.items()]
    return wire


def result_from_wire(wire: Mapping[str, Any]) -> Result:
    fields = dict(wire)
    fields["readings"] = {key: _reading(raw) for key, raw in fields["readings"]}
    return Result(**fields)


def _reading(raw: Mapping[str, Any]) -> Reading:
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    return Reading(**fields)
