from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import huggingface_hub
import pytest
import tiny_gguf
from crooked_server import Answer, Asked, CrookedServer, serving
from fake_registry import digest_of
from test_conditions import tls, tunnel

from localdecide.core.errors import BadModelFile, LocaldecideError, ModelNotFound, Offline, SourceFailed
from localdecide.core.names import is_valid, parse
from localdecide.store.depot import Depot
from localdecide.store.download.net import Patience
from localdecide.store.gguf_header import read_header
from localdecide.store.sources.hub import File, choose, quant_of
from localdecide.store.store import Store

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """The two routes of the hub that matter: a repository's files, and a file at a commit."""

    def __init__(self, server: CrookedServer) -> None:
        self.server = server
        self.repos: dict[str, dict[str, bytes]] = {}
        self.plain: set[str] = set()
        self.token: str | None = None
        self.gated = False
        server.behave = self.answer

    def answer(self, asked: Asked, number: int) -> Answer:
        path = asked.path.partition("?")[0]
        if path.startswith("/api/models/"):
            return self.info(path.removeprefix("/api/models/").partition("/revision/")[0], asked)
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return Answer(401, {}, b"")
        return Answer()

    def info(self, repo: str, asked: Asked) -> Answer:
        if self.gated:
            return Answer(403, {"X-Error-Code": "GatedRepo"}, b"{}")
        if repo not in self.repos or (self.token and asked.headers.get("authorization") != f"Bearer {self.token}"):
            return Answer(401, {"X-Error-Code": "RepoNotFound"}, b"{}")
        siblings: list[dict[str, Any]] = []
        for name, data in self.repos[repo].items():
            self.server.files[f"/{repo}/resolve/{COMMIT}/{name}"] = data
            lfs = {"sha256": digest_of(data)[7:], "size": len(data), "pointerSize": 130}
            more = {} if name in self.plain else {"lfs": lfs}
            siblings.append({"rfilename": name, "size": len(data), "blobId": "0" * 40, **more})
        body = {"id": repo, "modelId": repo, "sha": COMMIT, "siblings": siblings, "cardData": {"license": "mit"}}
        return Answer(200, {"Content-Type": "application/json"}, json.dumps(body).encode())


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeHub]:
    """A hub on the loopback that HF_ENDPOINT points to; no token and no cache of this user's."""
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
    with serving({}) as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield FakeHub(server)


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    (tmp_path / "library").mkdir()
    patience = Patience(tries=2, pause=0.01, connect=5.0, stall=5.0)
    return Depot(Store(tmp_path / "models", tmp_path / "library"), patience=patience, ollama=())


def pull(depot: Depot, model: str) -> list[dict[str, Any]]:
    return list(depot.pull({"model": model}, threading.Event()))


def gguf(name: str) -> bytes:
    return tiny_gguf.build({"general.name": name})


def test_the_preferred_quant(depot: Depot, hub: FakeHub) -> None:
    """Without a tag it is Q4_K_M; the digest is the hub's, the file is of one commit, the licence is kept."""
    data = gguf("q4")
    hub.repos["o/r"] = {"m-Q8_0.gguf": gguf("q8"), "m-Q4_K_M.gguf": data, "README.md": b"x"}

    pull(depot, "hf.co/o/r")

    model = depot.store.resolve("hf.co/o/r")
    assert (model.spec.digest, model.licenses) == (digest_of(data), ["mit"])
    assert f"/o/r/resolve/{COMMIT}/m-Q4_K_M.gguf" in {asked.path for asked in hub.server.asked}


@pytest.mark.parametrize("tag", ["Q8_0", "q8_0", "m-Q8_0.gguf"])
def test_a_named_quant(depot: Depot, hub: FakeHub, tag: str) -> None:
    """A quant in any case, or the file's own name; huggingface.co is the same place."""
    hub.repos["o/r"] = {"m-Q8_0.gguf": gguf("q8"), "m-Q4_K_M.gguf": gguf("q4")}

    pull(depot, f"huggingface.co/o/r:{tag}")

    assert depot.store.resolve(f"hf.co/o/r:{tag}").facts.name == "q8"


def test_an_url_of_a_file_in_the_hub(depot: Depot, hub: FakeHub) -> None:
    """The address of a file's page or bytes works as a reference."""
    hub.repos["o/r"] = {"sub/m-Q8_0.gguf": gguf("q8")}

    pull(depot, f"{hub.server.url}/o/r/resolve/main/sub/m-Q8_0.gguf")

    assert depot.store.resolve("m-q8_0").facts.name == "q8"


def test_shards_and_projector(depot: Depot, hub: FakeHub) -> None:
    """Shards are joined; the projector of the best type comes along."""
    parts = [
        tiny_gguf.build({"split.no": n, "split.count": 2, "split.tensors.count": 2}, {f"t{n}": [1.0]}) for n in (0, 1)
    ]
    projector = tiny_gguf.build({"general.architecture": "clip"})
    hub.repos["o/r"] = {
        "Q4_K_M/m-Q4_K_M-00002-of-00002.gguf": parts[1],
        "Q4_K_M/m-Q4_K_M-00001-of-00002.gguf": parts[0],
        "mmproj-F32.gguf": gguf("no"),
        "mmproj-F16.gguf": projector,
    }

    pull(depot, "hf.co/o/r")

    model = depot.store.resolve("hf.co/o/r")
    assert [tensor.name for tensor in read_header(model.path).tensors] == ["t0", "t1"]
    assert Path(model.spec.projector or "").read_bytes() == projector


def test_a_file_that_is_not_in_lfs(depot: Depot, hub: FakeHub) -> None:
    """Small files have no digest at the hub; they are fetched all the same."""
    hub.repos["o/r"] = {"m.gguf": gguf("small")}
    hub.plain.add("m.gguf")

    pull(depot, "hf.co/o/r")

    assert depot.store.resolve("hf.co/o/r").facts.name == "small"


def test_a_private_repository(depot: Depot, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """HF_TOKEN opens it; without it the error says so."""
    hub.repos["o/r"] = {"m.gguf": gguf("secret")}
    hub.token = "hf_secret"
    with pytest.raises(ModelNotFound, match="set HF_TOKEN or run `hf auth login`"):
        pull(depot, "hf.co/o/r")

    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull(depot, "hf.co/o/r")

    assert depot.store.resolve("hf.co/o/r").facts.name == "secret"


def test_a_gated_repository(depot: Depot, hub: FakeHub) -> None:
    """What to do is said: accept the licence, then give a token."""
    hub.gated = True
    with pytest.raises(SourceFailed, match="is gated: accept its licence on its page"):
        pull(depot, "hf.co/o/r")


def test_wrong_bytes(depot: Depot, hub: FakeHub) -> None:
    """The hub's digest is checked: a file that changed on its way is refused with the hub's name."""
    hub.repos["o/r"] = {"m.gguf": gguf("good")}
    answer = hub.answer

    def spoil(asked: Asked, number: int) -> Answer:
        given = answer(asked, number)
        return Answer(flip=100) if given.body is None and given.status == 0 else given

    hub.server.behave = spoil
    with pytest.raises(LocaldecideError, match=f"digest mismatch: {hub.server.host}"):
        pull(depot, "hf.co/o/r")


def test_offline(depot: Depot, hub: FakeHub, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOCALDECIDE_OFFLINE and HF_HUB_OFFLINE both keep every connection closed."""
    depot.offline = True
    with pytest.raises(Offline, match="LOCALDECIDE_OFFLINE"):
        pull(depot, "hf.co/o/r")
    depot.offline = False
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(Offline, match="HF_HUB_OFFLINE"):
        pull(depot, "hf.co/o/r")
    assert hub.server.asked == []


def test_a_hub_that_is_down(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection is an error that names the place."""
    with serving({}) as server:
        pass
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    with pytest.raises(SourceFailed, match=server.url):
        pull(depot, "hf.co/o/r")


def files(*names: str) -> list[File]:
    return [File(name, 1, None) for name in names]


def test_choosing() -> None:
    """The choice among many files, and what is said when there is none."""
    assert [one.name for one in choose(files("a-F16.gguf"), "latest", "o/r")] == ["a-F16.gguf"]
    with pytest.raises(ModelNotFound, match="holds several models; name one of: F16, Q8_0"):
        choose(files("a-F16.gguf", "a-Q8_0.gguf"), "latest", "o/r")
    with pytest.raises(ModelNotFound, match="holds no Q2_K; it has: F16"):
        choose(files("a-F16.gguf"), "Q2_K", "o/r")
    with pytest.raises(BadModelFile, match="holds no GGUF; convert it with gguf_convert"):
        choose([], "latest", "o/r", files("model.safetensors"))
    with pytest.raises(BadModelFile, match="holds no GGUF$"):
        choose(files("mmproj-F16.gguf"), "latest", "o/r", files("mmproj-F16.gguf"))
    with pytest.raises(SourceFailed, match="holds 1 of the 2 pieces"):
        choose(files("a-00001-of-00002.gguf"), "latest", "o/r")


@pytest.mark.parametrize(
    ("name", "quant"),
    [
        ("Model-Q4_K_M.gguf", "Q4_K_M"),
        ("folder/model.q8_0.gguf", "Q8_0"),
        ("Q8_0/model.gguf", "Q8_0"),
        ("m-UD-Q2_K_XL.gguf", "UD-Q2_K_XL"),
        ("m-IQ4_XS-00001-of-00003.gguf", "IQ4_XS"),
        ("m-bf16.gguf", "BF16"),
        ("Qwen3-4B.gguf", None),
        ("model.gguf", None),
    ],
)
def test_quants_in_names(name: str, quant: str | None) -> None:
    """The type is read from the name as people write it."""
    assert quant_of(name) == quant


def test_every_library_entry_can_be_pulled(hub: FakeHub, tmp_path: Path) -> None:
    """Each tag of each entry resolves: to the hub, to Ollama's registry (played by its store), or to a package."""
    ollama = Store(tmp_path / "ollama", tmp_path)
    depot = Depot(Store(tmp_path / "models"), ollama=(ollama.root,))
    path = tiny_gguf.write(tmp_path / "m.gguf")
    pulled = []
    for entry in depot.store.library():
        for tag, (source, _) in entry.tags.items():
            name = parse(source) if is_valid(source) else None
            if name is None:
                continue
            if name.host == "hf.co":
                files = hub.repos.setdefault(f"{name.namespace}/{name.model}", {})
                files[f"{name.model}-{name.tag}.gguf"] = gguf(source)
            elif not ollama.find(source):
                list(ollama.create({"model": source, "from": str(path)}))
            pull(depot, f"{entry.name}:{tag}")
            model = depot.store.resolve(f"{entry.name}:{tag}")
            assert (model.spec.family, model.decision["library"]) == (entry.family, entry.stamp)
            assert model.licenses or name.host != "hf.co"
            pulled.append(entry.name)

    assert set(pulled) == {entry.name for entry in depot.store.library()} - {"smollm2"}


def test_the_hub_behind_a_proxy(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's own requests and our downloads both use HTTPS_PROXY and trust SSL_CERT_FILE."""
    huggingface_hub.close_session()
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    with tls(tmp_path, {}) as (server, certificate), tunnel() as (proxy, asked):
        hub = FakeHub(server)
        hub.repos["o/r"] = {"m.gguf": gguf("far")}
        port = server.host.rpartition(":")[2]
        monkeypatch.setenv("HF_ENDPOINT", f"https://models.example:{port}")
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        pull(depot, "hf.co/o/r")
        huggingface_hub.close_session()

    assert depot.store.resolve("hf.co/o/r").facts.name == "far"
    assert set(asked) == {f"models.example:{port}"}
