"""push, export, import, verify, prune, du, search and blobs over a real port."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localdecide.core.errors import DigestMismatch, DiskFull, Offline, SourceFailed, StoreNotWritable


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("push", {"model": "h/n/m", "insecure": True}),
        ("export", {"model": "m", "file": "/tmp/x"}),
        ("import", {"file": "/tmp/x"}),
        ("verify", {}),
        ("prune", {"apply": True}),
    ],
)
def test_jobs(daemon: Any, kind: str, body: dict[str, Any]) -> None:
    """The body reaches the service and its progress comes back as lines."""
    answer = daemon.http.post(f"/api/{kind}", json=body)

    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert lines == [{"status": f"{kind} {json.dumps(body, sort_keys=True)}"}, {"status": "success"}]


def test_an_empty_body_is_an_empty_request(daemon: Any) -> None:
    """verify and prune need nothing said."""
    assert daemon.http.post("/api/verify").status_code == 200


@pytest.mark.parametrize(
    ("kind", "body"), [("push", {}), ("export", {"model": "m"}), ("import", {}), ("export", {"file": "/x"})]
)
def test_missing_fields(daemon: Any, kind: str, body: dict[str, Any]) -> None:
    """What a job cannot do without is named."""
    answer = daemon.http.post(f"/api/{kind}", json=body)

    assert answer.status_code == 400
    assert "is required" in answer.json()["error"]


@pytest.mark.parametrize("error", [SourceFailed, DigestMismatch, DiskFull, Offline, StoreNotWritable])
def test_errors_have_a_status(daemon: Any, error: type[Exception]) -> None:
    """A failure before the first line is a JSON error, not a broken stream."""
    daemon.service.error = error("because")

    answer = daemon.http.post("/api/verify", json={})

    assert answer.status_code >= 400
    assert answer.json()["error"] == "because"


def test_looks(daemon: Any) -> None:
    """Questions about the store get one object; query parameters reach the service."""
    assert daemon.http.get("/api/search", params={"q": "a b"}).json() == {"kind": "search", "request": {"q": "a b"}}
    assert daemon.http.get("/api/du").json() == {"kind": "du", "request": {}}
    assert daemon.http.get("/api/ollama").json()["kind"] == "ollama"


def test_blobs(daemon: Any) -> None:
    """HEAD asks, POST stores: 404, 201, then 200."""
    path = "/api/blobs/sha256:00"

    answers = [daemon.http.head(path).status_code]
    answers += [daemon.http.post(path, content=b"x" * 100_000).status_code for _ in range(2)]
    answers += [daemon.http.head(path).status_code]

    assert answers == [404, 201, 200, 200]
    assert daemon.service.blobs == {"sha256:00": b"x" * 100_000}
