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

ASSETS: Schema = {
    "type": ["object", "null"],
    "minProperties": 1,
    "additionalProperties": {
        "type": "object",
        "required": ["type"],
        "properties": {
            "type": {"const": "image"},
            "format": {"enum": ["png", "jpg", "jpeg"]},
            "data_base64": {"type": "string"},
            "part": {"type": "string"},
        },
    },
}
TYPESAFE: Schema = {
    "type": "object",
    "required": ["state", "questions"],
    "properties": {"model": {"type": "string"}, "state": TEXT, "questions": QUESTIONS, "assets": ASSETS},
}
ROOT: Schema = {**SYSTEMONE, "properties": {**SYSTEMONE["properties"], "assets": ASSETS}}
SGLANG_SYSTEMONE: Schema = {
    "type": "object",
    "required": ["state", "questions"],
    "properties": {
        "model": {"type": "string"},
        "state": TEXT,
        "questions": QUESTIONS,
        "images": IMAGES,
        "chat_template_kwargs": {"type": ["object", "null"]},
    },
}
VLLM_SYSTEMONE: Schema = {
    "type": "object",
    "required": ["state", "questions"],
    "properties": {
        "model": {"type": ["string", "null"]},
        "state": {},
        "questions": QUESTIONS,
        "instructions": {"type": ["string", "null"]},
        "images": IMAGES,
        "audio": {"type": ["array", "null"], "maxItems": 0},
        "videos": {"type": ["array", "null"], "maxItems": 0},
        "chat_template_kwargs": {"type": ["object", "null"]},
        "joint": {"type": ["boolean", "null"]},
        "cache_salt": {"type": ["string", "null"]},
        "priority": {"type": ["integer", "null"]},
        "request_id": {"type": ["string", "null"]},
    },
    "additionalProperties": False,
}
OPENAI_QUESTION: Schema = {
    "type": "object",
    "required": ["type", "instructions"],
    "properties": {
        "type": {"enum": ["predicate", "choice", "score"]},
        "name": {"type": ["string", "null"]},
        "instructions": {"type": ["string", "array"]},
        "choices": {
            "type": "array",
            "minItems": 2,
            "maxItems": 255,
            "items": {
                "type": "object",
                "required": ["value"],
                "properties": {"value": {"type": ["string", "boolean"]}, "description": {"type": ["string", "null"]}},
            },
        },
        "levels": {
            "type": "array",
            "minItems": 2,
            "maxItems": 10,
            "items": {
                "type": "object",
                "required": ["label"],
                "properties": {"label": {"type": "string"}, "description": {"type": ["string", "null"]}},
            },
        },
    },
}
OPENAI: Schema = {
    "type": "object",
    "required": ["model", "input", "questions"],
    "properties": {
        "model": {"type": "string"},
        "input": {"type": ["string", "array"]},
        "questions": {"type": "array", "minItems": 1, "maxItems": 256, "items": OPENAI_QUESTION},
        "safety_identifier": {"type": ["string", "null"], "maxLength": 128},
    },
}
SGLANG_QUESTION: Schema = {
    "type": "object",
    "required": ["id", "type", "question"],
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "type": {"enum": ["choice", "score", "yes_no"]},
        "question": TEXT,
        "options": {
            "type": "array",
            "minItems": 2,
            "maxItems": 26,
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "description": NULLABLE_TEXT},
            },
        },
        "levels": {"type": "array", "minItems": 2, "maxItems": 10, "items": TEXT},
        "yes": NULLABLE_TEXT,
        "no": NULLABLE_TEXT,
    },
}
SGLANG_DECISIONS: Schema = {
    "type": "object",
    "required": ["input", "questions"],
    "properties": {
        "model": {"type": ["string", "null"]},
        "input": TEXT,
        "images": IMAGES,
        "questions": {"type": "array", "minItems": 1, "maxItems": 256, "items": SGLANG_QUESTION},
        "temperature": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "chat_template_kwargs": {"type": ["object", "null"]},
        "prompt_format_version": {"type": ["integer", "null"], "enum": [1, None]},
        "return_prompt_token_ids": {"type": ["boolean", "null"]},
    },
    "additionalProperties": False,
}
# The three contracts of the shared path; the body decides.
DECISIONS: Schema = {"anyOf": [TYPESAFE, SGLANG_DECISIONS, OPENAI]}
TOKENS: Schema = {"type": "array", "items": {"type": "integer", "minimum": 0}}
SCORING: Schema = {
    "type": "object",
    "required": ["query", "items", "label_token_ids"],
    "properties": {
        "model": {"type": ["string", "null"]},
        "query": {"anyOf": [{"type": "string"}, TOKENS]},
        "items": {
            "anyOf": [
                {"type": "string"},
                {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, TOKENS]}},
            ]
        },
        "label_token_ids": {"anyOf": [TOKENS, {"type": "array", "items": TOKENS}]},
        "apply_softmax": {"type": ["boolean", "null"]},
        "temperature": {"type": ["number", "null"], "exclusiveMinimum": 0},
        "return_token_logprobs": {"type": ["boolean", "null"]},
        "item_first": {"type": ["boolean", "null"]},
    },
}
PERMUTE: Schema = {
    "type": "object",
    "required": ["request", "question"],
    "properties": {
        "request": SYSTEMONE,
        "question": {"type": "string"},
        "n_perm": {"type": ["integer", "null"], "minimum": 1, "maximum": 64},
        "seed": {"type": ["integer", "null"]},
    },
}
FORMAT: Schema = {
    "type": "object",
    "required": ["type", "questions"],
    "properties": {"type": {"const": "questions"}, "questions": QUESTIONS},
}
USER_MESSAGES: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["role", "content"],
        "properties": {"role": {"const": "user"}, "content": {"type": ["string", "array"]}},
    },
}
CHAT: Schema = {
    "type": "object",
    "required": ["model", "messages", "response_format"],
    "properties": {"model": {"type": "string"}, "messages": USER_MESSAGES, "response_format": FORMAT},
}
MESSAGES: Schema = {
    "type": "object",
    "required": ["model", "messages", "output_config"],
    "properties": {
        "model": {"type": "string"},
        "max_tokens": {"type": "integer"},
        "messages": USER_MESSAGES,
        "output_config": {"type": "object", "required": ["format"], "properties": {"format": FORMAT}},
    },
}
RESPONSES: Schema = {
    "type": "object",
    "required": ["model", "input", "text"],
    "properties": {
        "model": {"type": "string"},
        "input": {"anyOf": [{"type": "string"}, USER_MESSAGES]},
        "text": {"type": "object", "required": ["format"], "properties": {"format": FORMAT}},
    },
}
