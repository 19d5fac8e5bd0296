"""Images by placeholder, inside the JSON and as parts of a multipart body."""

from __future__ import annotations

import base64
import json

import pytest

PATHS = [
    "/typesafe/v1/systemone",
    "/requesty/v1/systemone",
    "/api/v1/systemone",
    "/v1/systemone",
]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
JPEG = b"\xff\xd8\xff" + b"\r\n--B\r\n" + bytes(8)
BASE64 = base64.b64encode(PNG).decode()
FORM = "multipart/form-data; boundary=BOUNDARY"


def form(*parts: tuple[str, bytes], boundary: str = "BOUNDARY", ends: bool = True) -> bytes:
    """A multipart body."""
    lines = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"; filename="{name}"\r\n'.encode()
        + b"Content-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
        for name, data in parts
    ]  # fmt: skip
    return b"".join(lines) + (f"--{boundary}--\r\n".encode() if ends else b"")


def with_assets(body, **assets):
    """The request with a state that names two placeholders."""
    return {**body, "state": {"seen": "first <a> then <b>"}, "assets": assets}


INLINE = {"type": "image", "format": "png", "data_base64": BASE64}


@pytest.mark.parametrize("path", PATHS)
def test_inline_assets(post, body, path):
    """The images arrive in order; a placeholder becomes the number of its image."""
    request = with_assets(body, **{"<a>": INLINE, "<b>": INLINE})
    request["questions"]["urgent"]["instructions"] = "Is <b> a cat?"
    assert post(path, request).status == 200
    assert post.decision.images == (PNG, PNG)
    assert post.decision.state == {"seen": "first [image 1] then [image 2]"}
    assert post.decision.questions["urgent"].instructions == "Is [image 2] a cat?"


@pytest.mark.parametrize("path", PATHS)
def test_multipart_assets(post, body, path):
    """Parts are the images' bytes, even where they hold what looks like a boundary of another body."""
    assets = {
        "<a>": {"type": "image", "format": "jpg", "part": "asset-0"},
        "<b>": {"type": "image", "format": "png", "part": "asset-1"},
    }
    request = json.dumps(with_assets(body, **assets)).encode()
    raw = form(("request", request), ("asset-0", JPEG), ("asset-1", PNG))
    assert post(path, raw, content_type=FORM).status == 200
    assert post.decision.images == (JPEG, PNG)


def test_assets_beside_images(post, body):
    """At the root both ways to send an image may be used at once; the numbered ones come first."""
    request = {**with_assets(body, **{"<a>": INLINE}), "images": [base64.b64encode(JPEG).decode()]}
    assert post("/v1/systemone", request).status == 200
    assert post.decision.images == (PNG, JPEG)
    assert post.decision.state == {"seen": "first [image 1] then <b>"}


def test_multipart_without_assets(post, body):
    """A form with the request alone is a request."""
    assert post(PATHS[0], form(("request", json.dumps(body).encode())), content_type=FORM).status == 200


@pytest.mark.parametrize(
    "assets",
    [
        {},
        [],
        {"<a>": {**INLINE, "type": "audio"}},
        {"<a>": {**INLINE, "format": "gif"}},
        {"<a>": {**INLINE, "data_base64": "!"}},
        {"<a>": {**INLINE, "data_base64": base64.b64encode(b"GIF89a").decode()}},
        {"<a>": {"type": "image", "format": "png"}},
        {"<a>": {"type": "image", "format": "png", "part": "asset-0"}},
        {"<a>": 5},
        {"": INLINE},
    ],
)
def test_bad_assets(post, body, assets):
    """An asset that is not an image inside the request is a schema fault."""
    reply = post(PATHS[0], {**body, "assets": assets})
    assert reply.status == 422
    assert reply.body["detail"][0]["loc"][:2] == ["body", "assets"]


@pytest.mark.parametrize(
    ("raw", "content_type", "text"),
    [
        (form(("request", b"{}")), "multipart/form-data", "boundary"),
        (form(("request", b"{}")), f"multipart/form-data; boundary={'B' * 5000}", "length 5000"),
        (form(("other", b"{}")), FORM, "part named request"),
        (form(("request", b"{}"), ends=False), FORM, "too early"),
        (form(("request", b"{}"), ("request", b"{}")), FORM, "two parts"),
        (form(("request", b"{}"), boundary="OTHER"), FORM, "multipart body"),
        (form(*[(f"p{index}", b"") for index in range(300)]), FORM, "more than 256"),
        (form(("request", b'{"state":1,"state":2}')), FORM, "duplicate key"),
        (b"", FORM, "multipart body"),
    ],
)
def test_damaged_forms(post, raw, content_type, text):
    """Each is a schema fault that says what is wrong with the form."""
    reply = post(PATHS[0], raw, content_type=content_type)
    assert reply.status == 422
    assert text in reply.body["error"]


def test_parts_and_assets_belong_together(post, body):
    """A part that no asset claims and a part claimed twice are refused."""
    unclaimed = form(("request", json.dumps(body).encode()), ("asset-0", PNG))
    assert "no asset claims" in post(PATHS[0], unclaimed, content_type=FORM).body["error"]
    one = {"type": "image", "format": "png", "part": "asset-0"}
    twice = json.dumps(with_assets(body, **{"<a>": one, "<b>": one})).encode()
    reply = post(PATHS[0], form(("request", twice), ("asset-0", PNG)), content_type=FORM)
    assert reply.body["detail"][0]["loc"] == ["body", "assets", "<b>", "part"]


def test_openrouter_state_of_parts(post, body):
    """A state that is a list of text and image parts is its text and its images."""
    url = {"url": f"data:image/png;base64,{BASE64}"}
    body["state"] = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": url},
        {"type": "text", "text": "b"},
    ]
    assert post("/api/alpha/decisions", body).status == 200
    assert (post.decision.state, post.decision.images) == ("a\n\nb", (PNG,))
    body["state"] = [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]
    assert post("/api/alpha/decisions", body).status == 400
