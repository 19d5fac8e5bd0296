"""The OpenAPI document says what the daemon does."""

from __future__ import annotations

from starlette.routing import Route

from localdecide import settings
from localdecide.dialects import table
from localdecide.server.app import create_app
from localdecide.server.fake_service import FakeService
from localdecide.server.openapi import document


def test_every_route_is_described():
    """Each path of the app stands in the document with its method; only repeats under prefixes do not."""
    described = {(path, method.upper()) for path, item in document()["paths"].items() for method in item}
    app = create_app(FakeService(), settings.load({}))
    served = {
        (route.path.replace("{name:path}", "{name}"), method)
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    repeats = {
        (path, method)
        for path, method in served
        if path.startswith("/ollama/api/") or (path.endswith("/{name}") and path != "/v1/models/{name}")
    }
    assert served - repeats - {("/openapi.json", "GET"), ("/api/v1/models", "GET")} == described


def test_every_status_of_a_dialect_is_documented():
    """The table of errors and the document cannot drift apart."""
    paths = document()["paths"]
    for path, found in table.OPERATIONS.items():
        documented = {int(status) for status in paths[path]["post"]["responses"]}
        assert set(found.dialect.statuses.values()) <= documented


def test_the_document_is_served(daemon):
    """GET /openapi.json is that document."""
    assert daemon.http.get("/openapi.json").json() == document()
