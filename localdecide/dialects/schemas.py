"""JSON Schemas of request bodies, for the OpenAPI document. The parsers decide; these describe."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": ["string", "object", "array"]}
NULLABLE_TEXT: Schema = {"type": ["string", "object", "array", "null"]}
KEEP_ALIVE: Schema = {"type": ["string", "number", "null"], "examples": ["5m", -1, 0]}
IMAGES: Schema = {
    "type": ["array", "null"],
    "items": {"type": ["string", "object"]},
    "description": "base64, data URLs, or objects with such a url; PNG or JPEG",
}

CHOICE: Schema = {
    "type": "object",
    "required": ["type", "criteria"],
    "properties": {
        "type": {"const": "choice"},
        "instructions": NULLABLE_TEXT,
        "criteria": {"type": "object", "minProperties": 1, "maxProperties": 255, "additionalProperties": NULLABLE_TEXT},
    },
}
NOUL: Schema = {
    "type": "object",
    "required": ["type"],
    "properties": {
        "type": {"const": "noul"},
        "instructions": NULLABLE_TEXT,
        "criteria": {
            "type": ["object", "null"],
            "properties": {"true": NULLABLE_TEXT, "false": NULLABLE_TEXT},
            "additionalProperties": False,
        },
    },
}
SCORE: Schema = {
    "type": "object",
    "required": ["type", "criteria"],
    "properties": {
        "type": {"const": "score"},
        "instructions": NULLABLE_TEXT,
        "criteria": {"type": "array", "minItems": 1, "maxItems": 10, "items": TEXT},
    },
}
QUESTIONS: Schema = {
    "type": "object",
    "minProperties": 1,
    "maxProperties": 256,
    "additionalProperties": {"oneOf": [CHOICE, NOUL, SCORE]},
}
SYSTEMONE: Schema = {
    "type": "object",
    "required": ["state", "questions"],
    "properties": {
        "model": {"type": ["string", "null"]},
        "state": TEXT,
        "questions": QUESTIONS,
        "images": IMAGES,
        "keep_alive": KEEP_ALIVE,
        "options": {
            "type": ["object", "null"],
            "properties": {"exact": {"type": "boolean"}, "confidence": {"type": "boolean"}},
            "additionalProperties": False,
        },
    },
}
