"""The management routes, by hand and with Ollama's own client."""

from __future__ import annotations

import json

import ollama
import pytest

from localdecide import __version__
from localdecide.core.errors import SourceFailed


def test_alive_and_version(daemon):
    """The routes that tools probe answer GET and HEAD."""
    assert daemon.http.get("/").text == "localdecide is running"
    assert daemon.http.head("/").status_code == 200
    assert daemon.http.get("/api/version").json() == {"version": __version__}
    assert daemon.http.head("/api/version").status_code == 200


def test_ollama_client_manages_models(daemon):
    """list, show, ps, copy, delete, create and pull of the official client work."""
    with ollama.Client(host=daemon.url) as client:
        assert [item.model for item in client.list().models] == ["m"]
        assert client.show("m").capabilities == ["decision"]
        assert client.ps().models[0].model == "m"
        assert client.copy("m", "n").status == "success"
        assert [item.model for item in client.list().models] == ["m", "n"]
        assert client.delete("n").status == "success"
        with pytest.raises(ollama.ResponseError, match="model 'n' not found"):
            client.delete("n")
        assert client.create("made", from_="m").status == "success"
        assert [step.status for step in client.pull("made", stream=True)] == ["pulling manifest", "success"]


def test_progress_as_lines(daemon):
    """A stream is one JSON object a line; stream false is the last of them."""
    streamed = daemon.http.post("/api/create", json={"model": "a", "from": "m"})
    assert streamed.headers["content-type"].startswith("application/x-ndjson")
    assert [json.loads(line) for line in streamed.text.splitlines()] == [
        {"status": "writing manifest"},
        {"status": "success"},
    ]
    whole = daemon.http.post("/api/create", json={"name": "b", "from": "m", "stream": False})
    assert whole.json() == {"status": "success"}
    assert daemon.service.names == ["m", "a", "b"]


def test_an_error_before_and_after_the_first_line(daemon):
    """Before the first line an error has its status; after it, it is the last line."""
    refused = daemon.http.post("/api/create", json={"model": "a"})
    assert (refused.status_code, refused.json()) == (400, {"error": "from: is required"})
    daemon.service.error = SourceFailed("the registry answered 500")
    streamed = daemon.http.post("/api/pull", json={"model": "a"})
    assert streamed.status_code == 200
    assert json.loads(streamed.text.splitlines()[-1]) == {"error": "the registry answered 500"}
    whole = daemon.http.post("/api/pull", json={"model": "a", "stream": False})
    assert (whole.status_code, whole.json()) == (500, {"error": "the registry answered 500"})


def test_generate_and_chat_refuse_politely(daemon):
    """Text is not generated here, and the sentence says what is."""
    for path, body in (("generate", {"prompt": "hi"}), ("chat", {"messages": [{"role": "user", "content": "hi"}]})):
        reply = daemon.http.post(f"/api/{path}", json={"model": "m", **body})
        assert reply.status_code == 400
        assert "/v1/systemone" in reply.json()["error"]


def test_an_empty_prompt_loads_and_keep_alive_zero_unloads(daemon):
    """The two calls by which Ollama's tools preload and stop a model."""
    loaded = daemon.http.post("/api/generate", json={"model": "m"}).json()
    assert (loaded["done"], loaded["done_reason"], loaded["response"]) == (True, "load", "")
    stopped = daemon.http.post("/api/chat", json={"model": "m", "messages": [], "keep_alive": 0}).json()
    assert (stopped["done"], stopped["done_reason"]) == (True, "unload")
    missing = daemon.http.post("/api/generate", json={"model": "x", "keep_alive": 0})
    assert missing.status_code == 404


@pytest.mark.parametrize("path", ["show", "create", "pull", "generate", "chat"])
@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b'{"model":5}', b'{"model":" "}', b"nonsense"])
def test_bad_management_bodies(daemon, path, raw):
    """A body that names no model is a 400."""
    reply = daemon.http.post(f"/api/{path}", content=raw)
    assert reply.status_code == 400
    assert list(reply.json()) == ["error"]


def test_the_merged_model_list(daemon):
    """/v1/models reads as OpenAI's list and as TypeSafe's; one model is found by name."""
    body = daemon.http.get("/v1/models").json()
    assert body["object"] == "list"
    assert [item["id"] for item in body["data"]] == ["m"]
    assert body["models"] == [{"name": "m", "description": "fake model 1M", "release_date": "2026-01-02"}]
    assert daemon.http.get("/v1/models/m").json() == body["data"][0]
    assert body["data"][0]["architecture"] == {"input_modalities": ["text"], "output_modalities": ["decisions"]}
    assert daemon.http.get("/v1/models/x").json() == {"error": "model 'x' not found"}


def test_health_follows_the_service(daemon):
    """A service that is not ready fails both probes."""
    assert daemon.http.get("/healthz").json() == {"status": "ok", "ready": True, "queued": 0}
    daemon.service.ready = False
    assert daemon.http.get("/healthz").status_code == 503
    assert daemon.http.get("/readyz").status_code == 503
