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
from collections.abc import Iterable, Mapping, Sized
from dataclasses import fields
from itertools import starmap
from operator import attrgetter
from typing import Any, BinaryIO

import orjson

from localdecide.core.decision import Decision, Options, Reading, Result
from localdecide.core.questions import ABSENT, Choice, Noul, Option, Question, Score, question_to_json

HEADER = struct.Struct(">I")
MAX_FRAME = 1 << 30
# Other threads get a turn between pieces of an image. Divisible by 3, so that pieces of base64 join.
PIECE = 3 << 16
# From here on a decision takes about a millisecond to write, and its result to read.
MANY_QUESTIONS, MANY_BYTES = 64, 1 << 18

_TUPLES = ("probabilities", "prompt_token_ids", "label_token_ids")
_OPTIONS, _READING, _RESULT = ([field.name for field in fields(kind)] for kind in (Options, Reading, Result))
_of_options, _of_reading, _of_result = (attrgetter(*names) for names in (_OPTIONS, _READING, _RESULT))


def encode(message: Mapping[str, Any], *, finite: bool = False) -> bytes:
    """One frame. finite: the message was read from JSON, so that no float in it can be NaN or infinite.

    Raises ValueError or TypeError for what is not JSON: NaN, an array.
    """
    try:
        body = orjson.dumps(message)
        strict = finite or b"null" not in body  # it writes NaN as null
    except TypeError:  # an integer over 64 bits, or what is not JSON
        strict = False
    if not strict:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    return HEADER.pack(len(body)) + body


def is_long(questions: Sized, images: Iterable[Sized]) -> bool:
    """Whether a decision, or what it is on the wire, should be worked on beside an event loop, not in it."""
    return len(questions) > MANY_QUESTIONS or sum(map(len, images)) > MANY_BYTES


def read(stream: BinaryIO) -> dict[str, Any] | None:
    """The next frame of a blocking stream, or None at its end (a cut frame counts as the end)."""
    header = stream.read(HEADER.size)
    if len(header) < HEADER.size:
        return None
    length = HEADER.unpack(header)[0]
    body = stream.read(length)
    return json.loads(body.decode()) if len(body) == length else None


def decision_to_wire(decision: Decision) -> dict[str, Any]:
    return {
        "state": decision.state,
        "questions": [[key, question_to_json(question)] for key, question in decision.questions.items()],
        "images": [_base64(image) for image in decision.images],
        "options": dict(zip(_OPTIONS, _of_options(decision.options), strict=True)),
    }


def _base64(image: bytes) -> str:
    return "".join([base64.b64encode(image[at : at + PIECE]).decode() for at in range(0, len(image), PIECE)])


def decision_from_wire(wire: Mapping[str, Any]) -> Decision:
    """What `decision_to_wire` wrote; the questions were checked when the request was read."""
    return Decision(
        state=wire["state"],
        questions={key: _question(raw) for key, raw in wire["questions"]},
        images=tuple(base64.b64decode(image) for image in wire["images"]),
        options=Options(**wire["options"]),
    )


def _question(raw: Mapping[str, Any]) -> Question:
    kind, instructions, criteria = raw["type"], raw["instructions"], raw["criteria"]
    if kind == "choice":
        return Choice(tuple(starmap(Option, criteria.items())), instructions)
    if kind == "score":
        return Score(tuple(criteria), instructions)
    return Noul(instructions, criteria.get("true", ABSENT), criteria.get("false", ABSENT))


def result_to_wire(result: Result) -> dict[str, Any]:
    wire = dict(zip(_RESULT, _of_result(result), strict=True))
    wire["readings"] = [[key, _reading_to_wire(reading)] for key, reading in result.readings.items()]
    return wire


def result_from_wire(wire: Mapping[str, Any]) -> Result:
    members = dict(wire)
    members["readings"] = {key: _reading(raw) for key, raw in members["readings"]}
    return Result(**members)


def _reading_to_wire(reading: Reading) -> dict[str, Any]:
    # Without what is None: a frame without a null needs no look for NaN.
    values = zip(_READING, _of_reading(reading), strict=True)
    return {name: value for name, value in values if value is not None}


def _reading(raw: Mapping[str, Any]) -> Reading:
    members = dict(raw)
    for name in _TUPLES:
        if name in members:
            members[name] = tuple(members[name])
    return Reading(**members)
