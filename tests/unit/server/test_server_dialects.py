"""Dialects over a real port: headers, keys, model lists and what each prefix refuses."""

from __future__ import annotations

import json

import ollama
import pytest
import zstandard

from localdecide.dialects import table

UNAUTHORIZED = {
    "/v1/systemone": lambda body: isinstance(body["error"], str),
    "/typesafe/v1/systemone": lambda body: body["detail"]["error_type"] == "authentication_error",
    "/ollama/v1/systemone": lambda body: isinstance(body["error"], str),
    "/openai/v1/decisions": lambda body: body["error"]["code"] == "invalid_api_key",
    "/sglang/v1/decisions": lambda body: body == {"error": "Unauthorized"},
    "/vllm/v1/systemone": lambda body: body == {"error": "Unauthorized"},
    "/localai/v1/systemone": lambda body: body["error"]["type"] == "invalid_request",
    "/requesty/v1/messages": lambda body: body["error"]["type"] == "authentication_error",
    "/v1/messages": lambda body: body["type"] == "error",
    "/v1/chat/completions": lambda body: body["error"]["code"] == "invalid_api_key",
    "/api/alpha/decisions": lambda body: body["error"]["code"] == 401,
}


def test_a_missing_key_in_every_dialect(serve_with):
    """401 in the shape of the path; either header opens it."""
    server = serve_with(api_key="k")
    for path, fits in UNAUTHORIZED.items():
        reply = server.http.post(path, json={})
        assert reply.status_code == 401
        assert fits(reply.json())
        for headers in ({"authorization": "Bearer k"}, {"x-api-key": "k"}):
            assert server.http.post(path, json={}, headers=headers).status_code in (400, 422)


@pytest.mark.parametrize("path", list(table.OPERATIONS))
def test_every_reply_names_its_dialect(daemon, path):
    """A refused request, too, says whose contract it met."""
    reply = daemon.http.post(path, json={})
    assert reply.status_code in (400, 422)
    assert reply.headers["x-localdecide-dialect"] == table.dialect_of(path).name
    assert daemon.http.get(path).status_code == 405
    assert daemon.http.get(path).headers["allow"] == "POST"


def test_the_header_forces_a_dialect(daemon, request_body):
    """The same body at the same path, answered by another contract."""
    forced = daemon.http.post("/v1/systemone", json=request_body, headers={"x-localdecide-dialect": "typesafe"})
    strict = daemon.http.post("/typesafe/v1/systemone", json=request_body)
    assert forced.json() == strict.json()
    assert forced.headers["x-localdecide-dialect"] == "typesafe"
    assert daemon.http.post("/v1/messages", json={}, headers={"x-localdecide-dialect": "vllm"}).status_code == 400


def test_the_shared_path_names_what_it_chose(daemon, request_body):
    """The header of a reply from /v1/decisions follows the body."""
    assert daemon.http.post("/v1/decisions", json=request_body).headers["x-localdecide-dialect"] == "typesafe"
    openai = {"model": "m", "input": "s", "questions": [{"type": "predicate", "instructions": "i"}]}
    assert daemon.http.post("/v1/decisions", json=openai).headers["x-localdecide-dialect"] == "openai"


def test_typesafe_reads_zstd(daemon, request_body):
    """The SDK's compressed bodies are read under its prefix too."""
    packed = zstandard.ZstdCompressor().compress(json.dumps(request_body).encode())
    reply = daemon.http.post("/typesafe/v1/systemone", content=packed, headers={"content-encoding": "zstd"})
    assert reply.status_code == 200
    unknown = daemon.http.post("/typesafe/v1/systemone", content=packed, headers={"content-encoding": "br"})
    assert (unknown.status_code, unknown.json()["detail"]["error_type"]) == (415, "unsupported_media_type")


def test_model_lists(daemon):
    """Each prefix lists models in its own shape."""
    models, data = ["m"], ["m"]
    merged = daemon.http.get("/v1/models/decision").json()
    assert ([item["name"] for item in merged["models"]], [item["id"] for item in merged["data"]]) == (models, data)
    assert daemon.http.get("/requesty/v1/models/decision").json() == merged
    assert list(daemon.http.get("/typesafe/v1/models").json()) == ["models"]
    for name in ("openai", "ollama", "sglang", "vllm", "localai"):
        body = daemon.http.get(f"/{name}/v1/models").json()
        assert set(body) == {"object", "data"}
        assert daemon.http.get(f"/{name}/v1/models/m").json()["id"] == "m"
    missing = daemon.http.get("/openai/v1/models/x")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")


def test_ollama_client_below_the_prefix(daemon):
    """OLLAMA_HOST may end in /ollama: management and decisions are both there."""
    with ollama.Client(host=f"{daemon.url}/ollama") as client:
        assert [item.model for item in client.list().models] == ["m"]
        reply = client.systemone(model="m", state="s", questions={"q": {"type": "noul", "instructions": "i"}})
        assert 0 < reply.answers["q"].noul < 1


@pytest.mark.parametrize(
    ("path", "fits"),
    [
        ("/typesafe/x", lambda body: body["detail"]["error_type"] == "not_found"),
        ("/openai/v1/embeddings", lambda body: body["error"]["type"] == "invalid_request_error"),
        ("/sglang/generate", lambda body: body["object"] == "error"),
        ("/vllm/x", lambda body: body["error"]["code"] == 404),
        ("/localai/x", lambda body: body["error"]["type"] == "invalid_request"),
        ("/v1/embeddings", lambda body: isinstance(body["error"], str)),
    ],
)
def test_unknown_routes_in_every_dialect(daemon, path, fits):
    """A 404 that the prefix's clients can read."""
    reply = daemon.http.post(path, json={})
    assert reply.status_code == 404
    assert fits(reply.json())
