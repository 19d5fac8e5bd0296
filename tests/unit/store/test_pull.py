# ruff: noqa: SIM117  the server first, what is expected of it second
from __future__ import annotations

import hashlib
import json
import random
import threading
from pathlib import Path
from typing import Any

import fake_registry
import pytest
import tiny_gguf
from crooked_server import Answer, Asked, serving
from fake_registry import FakeRegistry, digest_of, registry

from localdecide.core import names
from localdecide.core.errors import (
    BadModelFile,
    Cancelled,
    DiskFull,
    Forbidden,
    InvalidName,
    InvalidRequest,
    ModelNotFound,
    NotSupported,
    Offline,
    SourceFailed,
)
from localdecide.core.names import ModelName
from localdecide.store import fetch
from localdecide.store.depot import Depot
from localdecide.store.download.net import Patience
from localdecide.store.download.partial import PIECE, leftovers
from localdecide.store.sources.base import Context
from localdecide.store.store import Store

PATIENCE = Patience(tries=3, pause=0.01, longest=0.02, connect=5.0, stall=5.0, wait=5.0)
LARGE = tiny_gguf.build({"general.name": "large"}, {"t": [0.5] * (6 * PIECE // 4)})


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    (tmp_path / "library").mkdir()
    return Depot(Store(tmp_path / "models", tmp_path / "library"), patience=PATIENCE, ollama=())


def pull(depot: Depot, model: str, **more: Any) -> list[dict[str, Any]]:
    return list(depot.pull({"model": model, **more}, threading.Event()))


def test_a_renderer_tells_the_family(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ollama's tev1 carries no metadata of its family; its config's renderer is the sign."""
    config = json.loads(fake_registry.CONFIG)
    monkeypatch.setattr(fake_registry, "CONFIG", json.dumps({**config, "renderer": "tev1"}).encode())
    with registry() as reg:
        reg.add("me/tev1:v1")
        pull(depot, f"http://{reg.host}/me/tev1:v1", insecure=True)

    name = f"{reg.host}/me/tev1:v1"
    assert depot.store.resolve(name).spec.family == "tev1"
    assert depot.store.show(name)["decision"]["family"] == "tev1"


def test_from_a_registry(depot: Depot) -> None:
    """The lines are Ollama's, the manifest is the registry's to the byte, and the model can be loaded."""
    gguf = tiny_gguf.build()
    with registry() as reg:
        manifest = reg.add("me/toy:v1", gguf, system=b"Be brief.", params=b'{"num_ctx": 99, "stop": ["a"]}')
        lines = pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    name = f"{reg.host}/me/toy:v1"
    model = depot.store.resolve(name)
    digest = digest_of(gguf)
    assert lines[0] == {"status": "pulling manifest"}
    done = {"status": f"pulling {digest[7:19]}", "digest": digest, "total": len(gguf), "completed": len(gguf)}
    assert done in lines
    assert [line["status"] for line in lines[-3:]] == ["verifying sha256 digest", "writing manifest", "success"]
    assert model.digest == hashlib.sha256(manifest).hexdigest()
    assert (model.spec.system, model.spec.parameters, model.spec.digest) == ("Be brief.", {"num_ctx": 99}, digest)


def test_a_model_that_is_here_opens_no_connection(depot: Depot) -> None:
    """Pulling again, online or not, asks nobody; `refresh` asks and takes the new version."""
    with registry() as reg:
        name = f"http://{reg.host}/me/toy:v1"
        reg.add("me/toy:v1", system=b"one")
        pull(depot, name, insecure=True)
        before = len(reg.server.asked)
        again = pull(depot, name, insecure=True)
        quiet = len(reg.server.asked)
        reg.add("me/toy:v1", system=b"two")
        refreshed = pull(depot, name, insecure=True, refresh=True)

    assert before == quiet
    assert again[-1] == refreshed[-1] == {"status": "success"}
    assert {"status": "removing unused layers"} in refreshed
    assert depot.store.resolve(f"{reg.host}/me/toy:v1").spec.system == "two"


def test_a_private_registry(depot: Depot) -> None:
    """A 401 is answered with the token that its challenge describes, once for manifest and blobs."""
    with registry() as reg:
        reg.add("me/toy:v1")
        reg.token = "t0"
        pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    asked = [one.path for one in reg.server.asked if one.path.startswith("/token")]
    assert asked == ["/token?service=reg&scope=repository%3Ax%3Apull"]


def test_a_token_is_not_fetched_elsewhere(depot: Depot) -> None:
    """A challenge that points to another domain gets nothing."""
    with registry() as reg:
        reg.add("me/toy:v1")
        reg.token, reg.realm = "t0", "http://evil.example/token"
        with pytest.raises(SourceFailed, match=r"asks for a token at another place, evil\.example"):
            pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)


def test_a_refused_token(depot: Depot) -> None:
    """Without a token that helps, access is denied and said so."""
    with registry() as reg:
        reg.add("me/toy:v1")
        reg.token, reg.realm = "t0", f"{reg.server.url}/none"
        with pytest.raises(SourceFailed, match=r"access denied \(401\)"):
            pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)


def test_plain_http_must_be_allowed(depot: Depot) -> None:
    """A name with http:// is not contacted without `insecure`."""
    with registry() as reg, pytest.raises(SourceFailed, match="insecure"):
        pull(depot, f"http://{reg.host}/me/toy:v1")
    assert reg.server.asked == []


def test_a_name_the_registry_lacks(depot: Depot) -> None:
    """Not found, in Ollama's words."""
    with registry() as reg, pytest.raises(ModelNotFound, match="pull model manifest: file does not exist"):
        pull(depot, f"http://{reg.host}/me/none:v1", insecure=True)


def test_a_typing_error_finds_the_library(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that no registry has is compared with what the library knows."""
    (tmp_path / "library" / "nimble").mkdir()
    (tmp_path / "library" / "nimble" / "Modelfile").write_text("FROM hf.co/o/r\n")

    def nobody(name: ModelName, context: Context) -> None:
        raise ModelNotFound(f"model '{name}' not found")

    monkeypatch.setattr("localdecide.store.sources.registry.offer", nobody)
    with pytest.raises(ModelNotFound, match=r"model 'nimbl:latest' not found; did you mean nimble\?"):
        pull(depot, "nimbl")
    with pytest.raises(ModelNotFound, match=r"model 'wholly-other:latest' not found$"):
        pull(depot, "wholly-other")


def test_models_for_other_engines(depot: Depot) -> None:
    """Safetensors models and adapters are refused before a byte of them is fetched."""
    with registry() as reg:
        reg.add("me/lora:v1", adapter=b"x" * 10)
        reg.models["me/mlx:v1"] = reg.add("me/x:v1").replace(b"image.model", b"image.tensor")
        with pytest.raises(NotSupported, match="needs a LoRA adapter"):
            pull(depot, f"http://{reg.host}/me/lora:v1", insecure=True)
        with pytest.raises(BadModelFile, match="holds no GGUF"):
            pull(depot, f"http://{reg.host}/me/mlx:v1", insecure=True)
    assert not any("/blobs/" in asked.path for asked in reg.server.asked)


def test_from_an_url(depot: Depot) -> None:
    """A GGUF at an URL gets a name from its file; the digest after # is checked."""
    data = tiny_gguf.build()
    with serving({"/a/My Toy.gguf": data, "/a/My%20Toy.gguf": data}) as server:
        lines = pull(depot, f"{server.url}/a/My%20Toy.gguf#{digest_of(data).replace(':', '=')}")

    assert lines[-1] == {"status": "success"}
    assert depot.store.resolve("my-toy").spec.digest == digest_of(data)


def test_a_password_in_an_url_is_not_kept(depot: Depot) -> None:
    """It opens the door once; neither the model nor its Modelfile remembers it."""
    data = tiny_gguf.build()
    with serving({"/m.gguf": data}) as server:
        pull(depot, f"http://me:secret@{server.host}/m.gguf")

    model = depot.store.resolve("m")
    assert {asked.headers["authorization"] for asked in server.asked} == {"Basic bWU6c2VjcmV0"}
    assert model.decision["source"] == f"{server.url}/m.gguf"
    assert "secret" not in str(depot.store.show("m"))


def test_an_url_without_a_digest(depot: Depot) -> None:
    """The digest is what arrived; the name can be chosen."""
    data = tiny_gguf.build()
    with serving({"/m.gguf": data}) as server:
        pull(depot, f"{server.url}/m.gguf", **{"as": "mine:v2"})

    assert depot.store.resolve("mine:v2").spec.digest == digest_of(data)


def test_an_url_that_is_no_gguf(depot: Depot) -> None:
    """What arrived is looked at before it becomes a model; it is named as it was asked for, and nothing stays."""
    with serving({"/m.gguf": b"<html>sorry</html>"}) as server:
        with pytest.raises(BadModelFile, match=r"^m\.gguf is a web page"):
            pull(depot, f"{server.url}/m.gguf")
    assert depot.store.list() == []
    assert depot.store.catalog.blobs.all() == {}
    assert list(leftovers(depot.store.root / "partials")) == []


@pytest.mark.parametrize("content", [b"", b"hi", tiny_gguf.build()[:-40]], ids=["empty", "text", "cut off"])
def test_a_file_that_is_no_gguf(depot: Depot, tmp_path: Path, content: bytes) -> None:
    """A file of this machine is looked at before it is taken: the error has its name, the store has nothing."""
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(BadModelFile, match=r"^bad\.gguf is "):
        pull(depot, str(tmp_path / "bad.gguf"))
    assert depot.store.catalog.blobs.all() == {}


@pytest.mark.parametrize("fragment", ["md5=1", "sha256=12"])
def test_a_malformed_digest(depot: Depot, fragment: str) -> None:
    """A digest that is none is refused before anything is fetched."""
    with pytest.raises(InvalidRequest):
        pull(depot, f"http://127.0.0.1:9/m.gguf#{fragment}")


def test_from_files(depot: Depot, tmp_path: Path) -> None:
    """A path, a folder and a file: URL work without a network."""
    folder = tmp_path / "Some Folder"
    folder.mkdir()
    path = tiny_gguf.write(folder / "Toy.gguf")
    depot.offline = True

    pull(depot, str(path))
    pull(depot, str(folder))
    pull(depot, f"file://{path}", **{"as": "third"})

    assert {str(model.name) for model in depot.store.list()} == {"toy:latest", "some-folder:latest", "third:latest"}
    assert len({model.spec.path for model in depot.store.list()}) == 1


def test_another_machine_names_no_file(depot: Depot, tmp_path: Path) -> None:
    """A pull that came from elsewhere does not read this machine's files."""
    path = tiny_gguf.write(tmp_path / "m.gguf")
    for reference in (str(path), f"file://{path}", "./m.gguf"):
        with pytest.raises(Forbidden):
            pull(depot, reference, remote=True)


def test_from_the_library(depot: Depot, tmp_path: Path) -> None:
    """A plain name resolves through its Modelfile, which also says how the model is read."""
    data = tiny_gguf.build()
    with serving({"/far.gguf": data, "/big.gguf": data}) as server:
        entry = tmp_path / "library" / "far"
        entry.mkdir()
        entry.joinpath("Modelfile").write_text(
            f"FROM {server.url}/far.gguf#sha256={digest_of(data)[7:]}\nTAG big {server.url}/big.gguf\nFAMILY kev\n"
        )
        pull(depot, "far")
        pull(depot, "FAR:big")
        asked = len(server.asked)
        pull(depot, "far")

    assert depot.store.resolve("far").spec.family == depot.store.resolve("far:big").spec.family == "kev"
    assert len(server.asked) == asked
    assert depot.store.resolve("far").decision["source"].startswith(server.url)


def test_adopting_from_ollama(depot: Depot, tmp_path: Path) -> None:
    """A model that Ollama has is linked, not fetched, and keeps its digest; one that lacks a file is not offered."""
    other = Depot(Store(tmp_path / "ollama", tmp_path / "library"), patience=PATIENCE, ollama=())
    gguf = tiny_gguf.build()
    with registry() as reg:
        reg.add("library/nimble:9b", gguf)
        pull(other, f"http://{reg.host}/library/nimble:9b", insecure=True)
    other.store.copy(f"{reg.host}/library/nimble:9b", "nimble:9b")
    other.store.delete(f"{reg.host}/library/nimble:9b")
    other.store.copy("nimble:9b", "half:1b")
    half = other.store.catalog.manifests.path(names.parse("half:1b"))
    half.write_bytes(half.read_bytes().replace(digest_of(gguf).encode(), f"sha256:{'1' * 64}".encode()))
    depot.ollama, depot.offline = (tmp_path / "ollama",), True

    listed = [str(model.name) for model in depot.ollama_models()]
    pull(depot, "nimble:9b")

    theirs, ours = other.store.resolve("nimble:9b"), depot.store.resolve("nimble:9b")
    assert listed == ["nimble:9b"]
    assert theirs.digest == ours.digest
    assert Path(ours.spec.path).read_bytes() == gguf


def test_a_blob_that_ollama_has_is_not_fetched(depot: Depot, tmp_path: Path) -> None:
    """Any blob of a known digest is taken from Ollama's store if its bytes are right, else fetched."""
    gguf = tiny_gguf.build()
    blobs = tmp_path / "ollama" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / digest_of(gguf).replace(":", "-")).write_bytes(gguf)
    depot.ollama = (tmp_path / "ollama",)
    with registry() as reg:
        reg.add("me/toy:v1", gguf)
        pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)
        fetched = [one.path for one in reg.server.asked if digest_of(gguf) in one.path]
        reg.add("me/other:v1", LARGE)
        (blobs / digest_of(LARGE).replace(":", "-")).write_bytes(LARGE[:-1] + b"x")
        pull(depot, f"http://{reg.host}/me/other:v1", insecure=True)

    assert fetched == []
    assert Path(depot.store.resolve(f"{reg.host}/me/other:v1").spec.path).read_bytes() == LARGE


def test_offline(depot: Depot) -> None:
    """Every source that needs the network refuses with the setting's name, and nothing is written."""
    depot.offline = True
    for reference in ("nowhere", "a/b:c", "hf.co/o/r", "http://127.0.0.1:9/x.gguf", "https://h.example/n/m"):
        with pytest.raises(Offline, match="LOCALDECIDE_OFFLINE=1"):
            pull(depot, reference)
    assert depot.store.list() == []


def test_bad_requests(depot: Depot) -> None:
    """What cannot be a model is refused."""
    for request, kind in (({}, InvalidRequest), ({"model": "a b"}, InvalidName), ({"model": 3}, InvalidRequest)):
        with pytest.raises(kind):
            list(depot.pull(request, threading.Event()))
    with pytest.raises(InvalidName):
        pull(depot, "a", **{"as": "-"})


def test_room_for_all_parts(depot: Depot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sum of all parts is checked, not each on its own."""
    asked: list[int] = []

    def check(needed: int, folder: Path) -> None:
        asked.append(needed)
        raise DiskFull("no")

    monkeypatch.setattr(fetch, "check_room", check)
    with registry() as reg:
        manifest = json.loads(reg.add("me/toy:v1", LARGE, license=b"MIT"))
        with pytest.raises(DiskFull):
            pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    assert asked == [manifest["config"]["size"] + sum(layer["size"] for layer in manifest["layers"])]


def test_cancel_keeps_what_arrived(depot: Depot) -> None:
    """A pull that is stopped leaves no model, and its next try does not start over."""
    stop = threading.Event()
    with registry() as reg:
        reg.add("me/toy:v1", LARGE)

        def slow(asked: Asked, number: int) -> Answer:
            if asked.range in (None, (0, 0)):
                return Answer()
            return Answer(cut=PIECE + 9) if asked.range and asked.range[0] == 0 else Answer(stall=1.0)

        def stop_early() -> None:
            for line in depot.pull(request, stop):
                if line.get("completed", 0) >= PIECE:
                    stop.set()

        reg.then = slow
        request = {"model": f"http://{reg.host}/me/toy:v1", "insecure": True}
        with pytest.raises(Cancelled):
            stop_early()
        reg.then = lambda asked, number: Answer()
        assert depot.store.list() == []
        kept = sum(leftover.done for leftover in leftovers(depot.store.root / "partials"))
        reg.server.sent = 0
        pull(depot, **request)

    assert kept >= PIECE
    assert reg.server.sent < len(LARGE)


def test_two_pulls_share_one_download(depot: Depot, tmp_path: Path) -> None:
    """The second waits, reports the first one's progress, and fetches nothing again."""
    with registry() as reg:
        reg.add("me/toy:v1", LARGE)
        reg.then = lambda asked, number: Answer(stall=0.3)
        request = {"model": f"http://{reg.host}/me/toy:v1", "insecure": True}
        results: list[list[dict[str, Any]]] = []

        def work() -> None:
            other = Depot(Store(depot.store.root, tmp_path / "library"), patience=PATIENCE, ollama=())
            results.append(list(other.pull(request, threading.Event())))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        fetched = reg.server.sent

    assert [lines[-1] for lines in results] == [{"status": "success"}] * 2
    assert fetched < 1.1 * len(LARGE)
    assert Path(depot.store.resolve(f"{reg.host}/me/toy:v1").spec.path).read_bytes() == LARGE


def test_a_lying_registry_leaves_no_model(depot: Depot) -> None:
    """Wrong bytes for a digest never become a blob."""
    with registry() as reg:
        reg.add("me/toy:v1", LARGE)
        reg.then = lambda asked, number: Answer(flip=PIECE + 9 if digest_of(LARGE) in asked.path else None)
        with pytest.raises(Exception, match=f"digest mismatch: {reg.host} gave"):
            pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    assert depot.store.list() == []
    assert not depot.store.catalog.blobs.has(digest_of(LARGE))


def test_random_trouble_ends_well(depot: Depot) -> None:
    """A registry that drops lines, answers 503 and ignores ranges now and then still delivers."""
    rng = random.Random(3)

    def trouble(asked: Asked, number: int) -> Answer:
        kinds = (Answer(cut=rng.randrange(1, PIECE)), Answer(503, {"Retry-After": "0"}, b""), Answer(ranges=False))
        return rng.choice((*kinds, Answer(), Answer(), Answer()))

    depot.patience = Patience(tries=20, pause=0.01, longest=0.02, connect=5.0, stall=5.0)
    with registry() as reg:
        reg.add("me/toy:v1", LARGE)
        reg.then = trouble
        pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    assert Path(depot.store.resolve(f"{reg.host}/me/toy:v1").spec.path).read_bytes() == LARGE


def test_the_fake_is_asked_with_the_right_headers(depot: Depot) -> None:
    """The manifest is asked for by its media type, with our own agent's name."""
    with registry() as reg:
        reg.add("me/toy:v1")
        pull(depot, f"http://{reg.host}/me/toy:v1", insecure=True)

    first = reg.server.asked[0]
    assert isinstance(reg, FakeRegistry)
    assert first.headers["accept"] == "application/vnd.docker.distribution.manifest.v2+json"
    assert first.headers["user-agent"].startswith("localdecide/")
