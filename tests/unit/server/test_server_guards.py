"""Host, Origin, key and CORS."""

from __future__ import annotations

import pytest

from localdecide.core.errors import Forbidden, Unauthorized
from localdecide.server import guards


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "localhost:11436", "127.0.0.1:1", "[::1]:1", "::1", "192.168.1.5:80", "box.local", "a.localhost",
     "svc.internal:9", "LOCALHOST.", "0.0.0.0"],
)  # fmt: skip
def test_hosts_that_cannot_be_rebound(host):
    """Addresses and names that public DNS does not hand out are this machine."""
    guards.check_host(host)


@pytest.mark.parametrize(
    "host", ["evil.com", "evil.com:11436", "localhost.evil.com", "127.0.0.1.evil.com", "a@evil.com", "2130706433x"]
)
def test_other_hosts_are_refused(host):
    """A public name is refused and the sentence names the setting."""
    with pytest.raises(Forbidden, match="LOCALDECIDE_ORIGINS"):
        guards.check_host(host)


def test_a_listed_origin_is_also_a_host():
    """A name behind a proxy is served once its origin is listed."""
    guards.check_host("decide.example.com", ["https://decide.example.com"])


@pytest.mark.parametrize(
    "origin",
    [None, "http://localhost:3000", "https://127.0.0.1", "http://[::1]:5173", "http://0.0.0.0:1", "http://x.localhost",
     "app://obsidian.md", "tauri://localhost", "vscode-webview://abc", "file://", "http://10.0.0.2:11436"],
)  # fmt: skip
def test_origins_that_may_call(origin):
    """Loopback pages, desktop shells and the page that the daemon itself served."""
    guards.check_origin(origin, "10.0.0.2:11436")


@pytest.mark.parametrize(
    "origin",
    ["https://evil.com", "null", "chrome-extension://abc", "http://localhost.evil.com", "http://10.0.0.2:1", "http://[",
     "javascript://localhost", ""],
)  # fmt: skip
def test_other_origins_are_refused(origin):
    """Any other page is refused and the sentence names the setting."""
    with pytest.raises(Forbidden, match="LOCALDECIDE_ORIGINS"):
        guards.check_origin(origin, "10.0.0.2:11436")


@pytest.mark.parametrize("listed", ["*", "chrome-extension://*", "chrome-extension://abc/"])
def test_listed_origins(listed):
    """A user may allow an origin, with a wildcard if need be."""
    guards.check_origin("chrome-extension://abc", "localhost", [listed])


@pytest.mark.parametrize(
    ("authorization", "x_api_key"), [("Bearer k", None), ("bearer  k", None), (None, "k"), ("Bearer x", "k")]
)
def test_a_key_in_either_header(authorization, x_api_key):
    """Bearer and x-api-key are both read; one right key is enough."""
    guards.check_key("k", authorization, x_api_key, "/v1/systemone")


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "text"),
    [(None, None, "required"), ("Bearer x", None, "wrong"), ("Basic k", None, "required"), (None, "K", "wrong"),
     ("Bearer", None, "required"), ("Bearer ü", None, "wrong")],
)  # fmt: skip
def test_no_key_or_a_wrong_one(authorization, x_api_key, text):
    """A missing key and a wrong key are told apart."""
    with pytest.raises(Unauthorized, match=text):
        guards.check_key("k", authorization, x_api_key, "/v1/systemone")


def test_without_a_key_any_header_is_accepted(daemon, request_body):
    """With no key set, what clients send as one is ignored."""
    reply = daemon.http.post("/v1/systemone", json=request_body, headers={"authorization": "Bearer anything"})
    assert reply.status_code == 200


def test_a_foreign_host_and_origin_over_the_wire(daemon):
    """Both get a JSON 403."""
    for headers in ({"host": "evil.com"}, {"origin": "https://evil.com"}):
        reply = daemon.http.get("/api/tags", headers=headers)
        assert reply.status_code == 403
        assert "LOCALDECIDE_ORIGINS" in reply.json()["error"]
        assert "access-control-allow-origin" not in reply.headers


def test_preflight(daemon):
    """A browser that asks first hears what it may send."""
    headers = {
        "origin": "http://localhost:3000",
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type, x-custom",
        "access-control-request-private-network": "true",
    }
    reply = daemon.http.options("/v1/systemone", headers=headers)
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert reply.headers["access-control-allow-headers"] == "content-type, x-custom"
    assert "POST" in reply.headers["access-control-allow-methods"]
    assert reply.headers["access-control-allow-private-network"] == "true"
    assert reply.headers["vary"] == "Origin"


def test_preflight_needs_no_key_but_the_request_does(serve_with):
    """Browsers send no key with a preflight."""
    server = serve_with(api_key="sesame")
    headers = {"origin": "http://localhost:1", "access-control-request-method": "POST"}
    assert server.http.options("/v1/systemone", headers=headers).status_code == 204
    assert server.http.get("/api/tags").status_code == 401
    assert server.http.get("/api/tags").headers["www-authenticate"] == "Bearer"
    assert server.http.get("/api/tags", headers={"x-api-key": "sesame"}).status_code == 200
    assert server.http.get("/api/tags", headers={"authorization": "Bearer sesame"}).status_code == 200
    assert [server.http.get(path).status_code for path in ("/", "/healthz", "/readyz")] == [200, 200, 200]


def test_replies_to_pages_name_their_origin(daemon, request_body):
    """A page may read the reply and the ids in it, errors too."""
    for path, status in (("/v1/systemone", 200), ("/nowhere", 404)):
        reply = daemon.http.post(path, json=request_body, headers={"origin": "http://localhost:3000"})
        assert reply.status_code == status
        assert reply.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert "x-request-id" in reply.headers["access-control-expose-headers"]


def test_request_ids(daemon):
    """Every reply has an id: the caller's where it sent one that a header can hold, else a new one."""
    first, second = daemon.http.get("/"), daemon.http.get("/nowhere")
    assert first.headers["x-request-id"].startswith("req_")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    for name in ("x-request-id", "x-typesafe-request-id"):
        reply = daemon.http.get("/api/version", headers={name: "abc-1"})
        assert reply.headers["x-request-id"] == reply.headers["x-typesafe-request-id"] == "abc-1"
    assert daemon.http.get("/", headers={"x-request-id": "a b"}).headers["x-request-id"].startswith("req_")


def test_framework_errors_are_json(daemon):
    """An unknown path and a wrong method have the root's error body."""
    missing = daemon.http.get("/nowhere")
    assert (missing.status_code, missing.json()) == (404, {"error": "no such route: GET /nowhere"})
    wrong = daemon.http.get("/v1/systemone")
    assert (wrong.status_code, wrong.json()) == (405, {"error": "wrong method: GET /v1/systemone"})
    assert wrong.headers["allow"] == "POST"


def test_the_dialect_is_named(daemon, request_body):
    """Every reply says whose contract it follows."""
    assert daemon.http.post("/v1/systemone", json=request_body).headers["x-localdecide-dialect"] == "localdecide"
    refused = daemon.http.post("/v1/systemone", json=request_body, headers={"x-localdecide-dialect": "klingon"})
    assert refused.status_code == 400
    assert "klingon" in refused.json()["error"]
