"""`/openapi.json`: every route of the daemon, its body and every status it may answer with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localdecide import __version__
from localdecide.dialects import root, schemas, sglang, table, typesafe
from localdecide.dialects.base import Choose, Operation
from localdecide.server.output import JsonResponse

# What the guards and the router answer before a handler is asked.
EVERYWHERE = frozenset({400, 401, 403, 404, 405, 500})
NAMED: dict[str, Any] = {
    "type": "object",
    "required": ["model"],
    "properties": {"model": {"type": "string", "minLength": 1}},
}
STREAMED: dict[str, Any] = {
    **NAMED,
    "properties": {**NAMED["properties"], "stream": {"type": ["boolean", "null"]}},
}
LOAD_ONLY: dict[str, Any] = {
    **NAMED,
    "properties": {**NAMED["properties"], "keep_alive": schemas.KEEP_ALIVE},
    "description": "Without a prompt it loads the model, with keep_alive 0 it unloads it; text is not generated.",
}
ANY: dict[str, Any] = {"type": "object"}
FILED: dict[str, Any] = {"type": "object", "required": ["file"], "properties": {"file": {"type": "string"}}}
COPY: dict[str, Any] = {
    "type": "object",
    "required": ["source", "destination"],
    "properties": {"source": {"type": "string"}, "destination": {"type": "string"}},
}

# A 200 that says all there is to say.
EMPTY = ""

# Path, method, summary, request body (None where there is none), media type of the 200.
MANAGEMENT: tuple[tuple[str, str, str, dict[str, Any] | None, str], ...] = (
    ("/", "get", "Whether the daemon runs", None, "text/plain"),
    ("/healthz", "get", "Whether the scheduler and the runners answer", None, "application/json"),
    ("/readyz", "get", "Whether requests are welcome", None, "application/json"),
    ("/api/version", "get", "The daemon's version", None, "application/json"),
    ("/api/tags", "get", "Installed models", None, "application/json"),
    ("/api/ps", "get", "Loaded models", None, "application/json"),
    ("/api/show", "post", "What is known of a model", NAMED, "application/json"),
    ("/api/create", "post", "Make a model", STREAMED, "application/x-ndjson"),
    ("/api/pull", "post", "Get a model", STREAMED, "application/x-ndjson"),
    ("/api/copy", "post", "Give a model a second name", COPY, EMPTY),
    ("/api/delete", "delete", "Remove a model", NAMED, EMPTY),
    ("/api/generate", "post", "Load or unload a model", LOAD_ONLY, "application/json"),
    ("/api/chat", "post", "Load or unload a model", LOAD_ONLY, "application/json"),
    ("/api/push", "post", "Send a model to a registry", STREAMED, "application/x-ndjson"),
    ("/api/export", "post", "Write a model to one file of this machine", FILED, "application/x-ndjson"),
    ("/api/import", "post", "Read a model from such a file", FILED, "application/x-ndjson"),
    ("/api/verify", "post", "Compare files with their digests", ANY, "application/x-ndjson"),
    ("/api/prune", "post", "Remove what no model uses", ANY, "application/x-ndjson"),
    ("/api/du", "get", "What the models take on disk", None, "application/json"),
    ("/api/search", "get", "Models of the library", None, "application/json"),
    ("/api/ollama", "get", "Models of an Ollama on this machine", None, "application/json"),
    ("/api/shutdown", "post", "End the daemon in order", None, "application/json"),
)


def document() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    paths: dict[str, Any] = {path: {"post": decision(found)} for path, found in table.OPERATIONS.items()}
    for path, method, summary, body, media in MANAGEMENT:
        paths.setdefault(path, {})[method] = management(summary, body, media)
    for path in model_lists():
        paths[path] = {"get": management("Models", None, "application/json")}
    digest = {"name": "digest", "in": "path", "required": True, "schema": {"type": "string"}}
    blob = management("Upload a file under its digest", None, EMPTY)
    blob["responses"] = {**blob["responses"], "201": {"description": "stored"}}
    blob["requestBody"] = {"content": {"application/octet-stream": {}}}
    paths["/api/blobs/{digest}"] = {"post": {**blob, "parameters": [digest]}}
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    paths["/v1/models/{name}"] = {"get": {**management("One model", None, "application/json"), "parameters": [name]}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "localdecide",
            "version": __version__,
            "summary": "Typed questions, answered with probabilities",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
        },
        # The empty one: a daemon without LOCALDECIDE_API_KEY asks for none.
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def model_lists() -> list[str]:
    """Paths that list models."""
    prefixes = ("", *(f"/{name}" for name in table.PREFIXES))
    return [f"{prefix}/v1/models" for prefix in prefixes] + ["/v1/models/decision", "/requesty/v1/models/decision"]


def decision(found: Operation | Choose) -> dict[str, Any]:
    """The entry of a path that answers questions."""
    if isinstance(found, Choose):
        dialects = [found.dialect, sglang.DIALECT, typesafe.DIALECT]
        return entry("Decisions in the contract that the body's shape says", schemas.DECISIONS, dialects, False)
    return entry(found.summary, dict(found.schema), [found.dialect], found.multipart)


def entry(summary: str, schema: dict[str, Any], dialects: Iterable[Any], multipart: bool) -> dict[str, Any]:
    """Request and every status of a decision."""
    statuses = set(EVERYWHERE)
    for dialect in dialects:
        statuses |= set(dialect.statuses.values())
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if multipart:
        form = {"type": "object", "required": ["request"], "properties": {"request": schema}}
        content["multipart/form-data"] = {"schema": form}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": content},
        "responses": responses(statuses, "application/json"),
    }


def management(summary: str, body: dict[str, Any] | None, media: str) -> dict[str, Any]:
    """Request and every status of a management route."""
    statuses = EVERYWHERE | set(root.DIALECT.statuses.values())
    made: dict[str, Any] = {"summary": summary, "responses": responses(statuses, media)}
    if body is not None:
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return made


def responses(statuses: Iterable[int], media: str) -> Mapping[str, Any]:
    """A 200 and the errors."""
    found: dict[str, Any] = {"200": {"description": "the answer"}}
    if media != EMPTY:
        found["200"]["content"] = content_of(media)
    for status in sorted(statuses):
        why = "try again after Retry-After" if status in (429, 503) else "an error, in the contract's own shape"
        found[str(status)] = {"description": why, "content": content_of("application/json")}
    return found


def content_of(media: str) -> dict[str, Any]:
    """A body of a media type; JSON bodies are objects."""
    if media == "text/plain":
        return {media: {"schema": {"type": "string"}}}
    if media == "application/x-ndjson":
        # `"stream": false` asks for one object instead.
        return {media: {}, "application/json": {"schema": {"type": "object"}}}
    return {media: {"schema": {"type": "object"}}}


async def handle(request: Request) -> Response:
    """GET /openapi.json."""
    return JsonResponse(document())


ROUTES = [Route("/openapi.json", handle)]
