"""An Ollama-style registry on the loopback: manifests, blobs, uploads and, if told so, tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tiny_gguf
from crooked_server import Answer, Asked, CrookedServer, serving

CONFIG = b'{"model_format":"gguf","model_family":"llama","model_type":"2","file_type":"F32"}'


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}


class FakeRegistry:
    """models: manifest bytes by `namespace/model:tag`. token: what requests must carry, None for no token."""

    def __init__(self, server: CrookedServer) -> None:
        self.server = server
        self.models: dict[str, bytes] = {}
        self.uploads: dict[str, bytes] = {}
        self.token: str | None = None
        self.realm = f"{server.url}/token"
        self.then = server.behave
        server.behave = self.answer

    @property
    def host(self) -> str:
        return self.server.host

    def add(self, name: str, gguf: bytes | None = None, **more: bytes) -> bytes:
        """Publish a model; `more`: other layers by the last part of their media type."""
        gguf = tiny_gguf.build() if gguf is None else gguf
        layers = [("model", gguf), *more.items()]
        path = name.partition(":")[0]
        for data in (CONFIG, *(data for _, data in layers)):
            self.server.files[f"/v2/{path}/blobs/{digest_of(data)}"] = data
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": layer("application/vnd.docker.container.image.v1+json", CONFIG),
            "layers": [layer(f"application/vnd.ollama.image.{kind}", data) for kind, data in layers],
        }
        self.models[name] = json.dumps(manifest).encode()
        return self.models[name]

    def answer(self, asked: Asked, number: int) -> Answer:
        path = asked.path.partition("?")[0]
        if path == "/token":
            return Answer(200, {}, json.dumps({"token": self.token}).encode())
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            challenge = f'Bearer realm="{self.realm}",service="reg",scope="repository:x:pull"'
            return Answer(401, {"WWW-Authenticate": challenge}, b"")
        parts = path.removeprefix("/v2/").split("/")
        if len(parts) >= 4 and parts[2] == "manifests":
            name = f"{parts[0]}/{parts[1]}:{parts[3]}"
            if asked.method == "PUT":
                self.models[name] = asked.body
                return Answer(201, {}, b"")
            return Answer(200, {}, self.models[name]) if name in self.models else Answer(404, {}, b"")
        if asked.method == "POST" and path.endswith("/blobs/uploads/"):
            return Answer(202, {"Location": f"{path}some-upload?state=1"}, b"")
        if asked.method in ("PUT", "PATCH") and "/blobs/uploads/" in path:
            return self.upload(asked, path)
        return self.then(asked, number)

    def upload(self, asked: Asked, path: str) -> Answer:
        data = self.uploads[path] = self.uploads.get(path, b"") + asked.body
        if asked.method == "PATCH":
            return Answer(202, {"Location": asked.path, "Range": f"0-{len(data) - 1}"}, b"")
        digest = asked.path.partition("digest=")[2].replace("%3A", ":")
        del self.uploads[path]
        if digest_of(data) != digest:
            return Answer(400, {}, b"digest mismatch")
        self.server.files[f"{path.partition('/uploads/')[0]}/{digest}"] = data
        return Answer(201, {}, b"")


@contextmanager
def registry() -> Iterator[FakeRegistry]:
    with serving({}) as server:
        yield FakeRegistry(server)
