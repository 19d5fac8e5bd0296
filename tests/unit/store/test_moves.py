from __future__ import annotations

import json
import os
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from crooked_server import Answer
from fake_registry import FakeRegistry, digest_of, registry

from localdecide.core.errors import (
    BadModelFile,
    Cancelled,
    DigestMismatch,
    DiskFull,
    InvalidName,
    InvalidRequest,
    LocaldecideError,
    ModelNotFound,
    SourceFailed,
)
from localdecide.store import bundle
from localdecide.store.depot import Depot
from localdecide.store.derived import weights_bytes
from localdecide.store.download.net import Patience
from localdecide.store.download.origin import FileOrigin
from localdecide.store.download.partial import PIECE
from localdecide.store.store import Store

PATIENCE = Patience(tries=3, pause=0.01, longest=0.02, connect=5.0, stall=5.0, wait=5.0)
LARGE = tiny_gguf.build({"general.name": "large"}, {"t": [0.5] * (6 * PIECE // 4)})
GO = threading.Event()


def depot_at(folder: Path) -> Depot:
    (folder.parent / "library").mkdir(exist_ok=True)
    return Depot(Store(folder, folder.parent / "library"), patience=PATIENCE, ollama=())


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    """A store with one model, `toy`, that says a lot about itself."""
    depot = depot_at(tmp_path / "models")
    path = tiny_gguf.write(tmp_path / "m.gguf")
    text = f'FROM {path}\nSYSTEM Be brief.\nLICENSE """MIT\nlong"""\nTEMPERATURE choice 1.5\nPARAMETER num_ctx 64\n'
    list(depot.store.create({"model": "toy", "modelfile": text}))
    return depot


@pytest.fixture
def reg() -> Iterator[FakeRegistry]:
    with registry() as registry_:
        yield registry_


def statuses(lines: Iterator[dict[str, Any]]) -> list[str]:
    return [line["status"] for line in lines]


# push


def test_push_and_pull_back(depot: Depot, tmp_path: Path, reg: FakeRegistry) -> None:
    """What was pushed to a registry is pulled from it as the same model."""
    name = f"http://{reg.host}/me/toy:v1"
    depot.store.copy("toy", name)

    said = statuses(depot.push({"model": name, "insecure": True}, GO))
    other = depot_at(tmp_path / "other")
    list(other.pull({"model": name, "insecure": True}, GO))

    assert said[0] == "retrieving manifest"
    assert said[-2:] == ["pushing manifest", "success"]
    assert other.store.resolve(name).digest == depot.store.resolve("toy").digest
    assert other.store.resolve(name).spec.temperatures == {"choice": 1.5}


def test_push_sends_only_what_is_missing(depot: Depot, reg: FakeRegistry) -> None:
    """A blob that the registry has is not sent again."""
    name = f"http://{reg.host}/me/toy:v1"
    depot.store.copy("toy", name)
    list(depot.push({"model": name, "insecure": True}, GO))
    before = len(reg.server.asked)

    list(depot.push({"model": name, "insecure": True}, GO))

    assert {asked.method for asked in reg.server.asked[before:]} == {"HEAD", "PUT"}


def test_push_with_a_token(depot: Depot, reg: FakeRegistry) -> None:
    """A registry that wants a token gets it on every request that follows."""
    reg.token = "t0"
    name = f"http://{reg.host}/me/toy:v1"
    depot.store.copy("toy", name)

    assert statuses(depot.push({"model": name, "insecure": True}, GO))[-1] == "success"


def test_push_refusals(depot: Depot, reg: FakeRegistry) -> None:
    """A missing model, a bad name, a registry that takes no uploads."""
    with pytest.raises(ModelNotFound):
        list(depot.push({"model": "none"}, GO))
    with pytest.raises(InvalidName):
        list(depot.push({"model": "a b"}, GO))
    reg.server.behave = lambda asked, number: Answer(404, {}, b"")
    name = f"http://{reg.host}/me/toy:v1"
    depot.store.copy("toy", name)
    with pytest.raises(SourceFailed, match="takes no uploads of me/toy"):
        list(depot.push({"model": name, "insecure": True}, GO))


# export and import


def test_a_bundle_moves_a_model(depot: Depot, tmp_path: Path) -> None:
    """One file carries weights, Modelfile, calibration and licence to another store, offline."""
    file = tmp_path / "toy bundle.tar"
    said = statuses(depot.export({"model": "toy", "file": str(file)}, GO))
    other = depot_at(tmp_path / "other")
    other.offline = True

    list(other.import_({"file": str(file)}, GO))

    here, there = depot.store.resolve("toy"), other.store.resolve("toy")
    assert said[-1] == "success"
    assert here.raw == there.raw
    assert Path(there.spec.path).read_bytes() == Path(here.spec.path).read_bytes()
    assert (there.licenses, there.spec.temperatures) == (["MIT\nlong"], {"choice": 1.5})
    with tarfile.open(file) as tar:
        assert tar.getnames()[:4] == ["localdecide.json", "manifest.json", "Modelfile", "LICENSE"]


def test_import_under_another_name(depot: Depot, tmp_path: Path) -> None:
    """The name of an imported model can be chosen."""
    file = tmp_path / "b.tar"
    list(depot.export({"model": "toy", "file": str(file)}, GO))

    list(depot.import_({"file": str(file), "model": "me/mine:v2"}, GO))

    assert depot.store.resolve("me/mine:v2").digest == depot.store.resolve("toy").digest


def test_a_damaged_bundle(depot: Depot, tmp_path: Path) -> None:
    """Cut off, spoiled or no bundle at all: each is refused, and nothing is installed."""
    file = tmp_path / "b.tar"
    list(depot.export({"model": "toy", "file": str(file)}, GO))
    whole = file.read_bytes()
    other = depot_at(tmp_path / "other")
    place = whole.index(tiny_gguf.build())
    cases = (
        (whole[: place + 10], BadModelFile, "cut off"),
        (whole[:100], BadModelFile, "not a bundle"),
        (b"", BadModelFile, "not a bundle"),
        (tiny_gguf.build(), BadModelFile, "not a bundle"),
        (whole[:place] + b"X" + whole[place + 1 :], DigestMismatch, "digest mismatch: b.tar gave"),
    )
    for data, kind, message in cases:
        file.write_bytes(data)
        with pytest.raises(kind, match=message):
            list(other.import_({"file": str(file)}, GO))
    assert other.store.list() == []


def test_an_import_goes_on_where_it_stopped(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second try copies only what is missing."""
    path = tmp_path / "large.gguf"
    path.write_bytes(LARGE)
    list(depot.store.create({"model": "large", "from": str(path)}))
    file = tmp_path / "b.tar"
    list(depot.export({"model": "large", "file": str(file)}, GO))
    other, stop = depot_at(tmp_path / "other"), threading.Event()
    read, taken = FileOrigin._read, [0]

    def watched(self: FileOrigin, source: Any, left: int) -> Iterator[bytes]:
        for data in read(self, source, left):
            taken[0] += len(data)
            yield data
            if taken[0] > 2 * PIECE:
                stop.set()

    monkeypatch.setattr(FileOrigin, "_read", watched)
    with pytest.raises(Cancelled):
        list(other.import_({"file": str(file)}, stop))
    stop = threading.Event()
    first, taken[0] = taken[0], 0
    list(other.import_({"file": str(file)}, GO))

    assert Path(other.store.resolve("large").spec.path).read_bytes() == LARGE
    assert first >= 2 * PIECE
    assert taken[0] <= len(LARGE) - PIECE
    assert list((other.store.root / "partials").iterdir()) == []


def test_export_of_the_weights(depot: Depot, tmp_path: Path) -> None:
    """A name that ends in .gguf gets the very file that came in."""
    file = tmp_path / "out.gguf"

    said = statuses(depot.export({"model": "toy", "file": str(file)}, GO))

    assert file.read_bytes() == (tmp_path / "m.gguf").read_bytes()
    assert f"byte-identical to {digest_of(file.read_bytes())}" in said


def test_export_refusals(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No relative path, no missing folder, no file overwritten unasked, no disk overfilled; no rest left behind."""
    (tmp_path / "there").write_text("x")
    for file, message in (
        ("relative.tar", "must be an absolute path"),
        (str(tmp_path / "none" / "x.tar"), "does not exist"),
        (str(tmp_path / "there"), "exists already"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            list(depot.export({"model": "toy", "file": file}, GO))
    list(depot.export({"model": "toy", "file": str(tmp_path / "there"), "overwrite": True}, GO))
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Cancelled):
        list(depot.export({"model": "toy", "file": str(tmp_path / "new.tar")}, stopped))
    monkeypatch.setattr("localdecide.store.blobs.free_bytes", lambda folder: 5)
    with pytest.raises(DiskFull):
        list(depot.export({"model": "toy", "file": str(tmp_path / "new.tar")}, GO))
    assert {path.name for path in tmp_path.iterdir()} == {"there", "m.gguf", "models", "library"}


def test_a_bundle_of_a_later_version(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A format that this version does not know is refused by its number."""
    file = tmp_path / "b.tar"
    monkeypatch.setattr(bundle, "FORMAT", 2)
    list(depot.export({"model": "toy", "file": str(file)}, GO))
    monkeypatch.setattr(bundle, "FORMAT", 1)

    with pytest.raises(BadModelFile, match="a bundle of version 2; this localdecide reads up to 1"):
        list(depot.import_({"file": str(file)}, GO))


# verify


def test_verify_of_a_sound_store(depot: Depot) -> None:
    """Everything is read, nothing is changed, no source is asked."""
    depot.offline = True

    *lines, last = depot.verify({}, GO)

    assert last == {"status": "success", "checked": len(depot.store.resolve("toy").manifest.digests), "repaired": 0}
    assert all(line["completed"] <= line["total"] for line in lines)


def spoil(path: Path, at: int) -> None:
    """Change a byte, and leave size and time as they were."""
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def test_verify_repairs_from_the_source(depot: Depot, reg: FakeRegistry) -> None:
    """A spoiled blob is fetched again, and a missing one too."""
    reg.add("me/large:v1", LARGE, license=b"MIT")
    name = f"http://{reg.host}/me/large:v1"
    list(depot.pull({"model": name, "insecure": True}, GO))
    model = depot.store.resolve(name)
    spoil(Path(model.spec.path), PIECE + 7)
    license = model.blobs.path(model.manifest.layers[1].digest)
    license.unlink()

    *_, last = depot.verify({"insecure": True}, GO)

    assert last["repaired"] == 2
    assert Path(model.spec.path).read_bytes() == LARGE
    assert license.read_bytes() == b"MIT"


def test_verify_repairs_a_library_model(depot: Depot, tmp_path: Path, reg: FakeRegistry) -> None:
    """What the library pulled is repaired from there: only the spoiled part is replaced."""
    reg.server.files["/large.gguf"] = LARGE
    entry = tmp_path / "library" / "large"
    entry.mkdir()
    url = f"{reg.server.url}/large.gguf#sha256={digest_of(LARGE)[7:]}"
    entry.joinpath("Modelfile").write_text(f"FROM {url}\n")
    list(depot.pull({"model": "large"}, GO))
    path = Path(depot.store.resolve("large").spec.path)
    spoil(path, PIECE + 7)

    *lines, last = depot.verify({"model": "large"}, GO)

    assert f"damaged: {digest_of(LARGE)} of large:latest" in [line["status"] for line in lines]
    assert last["repaired"] == 1
    assert path.read_bytes() == LARGE


def test_verify_says_what_cannot_be_repaired(depot: Depot) -> None:
    """A model made by hand has no source: it is named, and left as it is if no repair was asked for."""
    model = depot.store.resolve("toy")
    path = Path(model.spec.path)
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1] + b"x")
    depot.offline = True

    for request in ({"repair": False}, {}):
        with pytest.raises(DigestMismatch, match="still damaged: toy:latest: sha256:"):
            list(depot.verify(request, GO))
    assert path.read_bytes() == data[:-1] + b"x"


# prune and du


def test_prune_tells_then_removes(depot: Depot) -> None:
    """Dry by default; with `apply` unused blobs go, unfinished downloads only when asked for."""
    orphan, size = depot.store.catalog.blobs.add(b"nobody's")
    root = depot.store.root
    (root / "partials").mkdir()
    (root / "partials" / "sha256-00").write_bytes(b"x" * 5000)
    old = root / "blobs" / ".write-crashed"
    old.write_bytes(b"y")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    (root / "blobs" / ".write-young").write_bytes(b"z")

    dry = list(depot.prune({}, GO))
    still_there = depot.store.catalog.blobs.has(orphan)
    wet = list(depot.prune({"apply": True}, GO))
    last = list(depot.prune({"apply": True, "partials": True}, GO))

    assert dry[-1] == {"status": "success", "freed": size + 1, "applied": False}
    assert still_there
    assert wet[-1] == {"status": "success", "freed": size + 1, "applied": True}
    assert [line["status"] for line in wet[:-1]] == [
        f"unused {orphan}",
        "left behind .write-crashed",
        "unfinished sha256-00",
    ]
    assert wet[2]["age"] >= 0
    assert last[-1]["freed"] >= 5000
    assert not (root / "partials" / "sha256-00").exists()
    assert (root / "blobs" / ".write-young").exists()
    assert depot.store.resolve("toy").spec.path


def test_prune_spares_young_downloads(depot: Depot) -> None:
    """`older` keeps what somebody may still want."""
    (depot.store.root / "partials").mkdir()
    (depot.store.root / "partials" / "url-1").write_bytes(b"x")

    list(depot.prune({"apply": True, "partials": True, "older": 3600}, GO))

    assert (depot.store.root / "partials" / "url-1").exists()


def test_prune_spares_what_a_writer_claims(depot: Depot) -> None:
    """A blob that a pull has just got is no orphan."""
    with depot.store.catalog.locks.writing() as claim:
        digest, _ = depot.store.catalog.blobs.add(b"coming", claim)
        list(depot.prune({"apply": True}, GO))
        assert depot.store.catalog.blobs.has(digest)
    list(depot.prune({"apply": True}, GO))
    assert not depot.store.catalog.blobs.has(digest)


def test_prune_refuses_beside_a_damaged_manifest(depot: Depot) -> None:
    """A manifest that cannot be read may name any blob: nothing is removed."""
    orphan, _ = depot.store.catalog.blobs.add(b"nobody's")
    (depot.store.root / "manifests/registry.ollama.ai/library/toy/bad").write_text("{")

    with pytest.raises(LocaldecideError, match="not a model manifest"):
        list(depot.prune({"apply": True}, GO))
    assert depot.store.catalog.blobs.has(orphan)


def test_du(depot: Depot) -> None:
    """Shared bytes belong to no model alone."""
    depot.store.copy("toy", "twin")
    list(depot.store.create({"model": "child", "from": "toy", "system": "other"}))
    _, orphan = depot.store.catalog.blobs.add(b"nobody's")

    found = depot.du()

    rows = {row["name"]: row for row in found["models"]}
    assert rows["toy:latest"]["size"] == depot.store.resolve("toy").size
    assert rows["toy:latest"]["own"] == 0
    assert 0 < rows["child:latest"]["own"] < rows["child:latest"]["size"]
    assert found["unused"] == orphan
    assert found["blobs"] == sum(depot.store.catalog.blobs.all().values())
    assert found["free"] > 0
    assert json.dumps(found)


def test_faster_copies_go_with_their_blob(depot: Depot) -> None:
    """A derived file is counted, kept while its blob is used, and pruned when nothing uses it; no other is."""
    blob = Path(depot.store.resolve("toy").spec.path)
    folder = depot.store.root / "derived"
    folder.mkdir()
    (folder / f"{blob.name}-F16.gguf").write_bytes(b"12345")
    (folder / f"{blob.name}.json").write_text("{}")
    (folder / "kernels-0.json").write_text("{}")
    assert depot.du()["derived"] == 7
    assert weights_bytes(depot.store.root, blob) == 5

    list(depot.prune({"apply": True}, GO))
    assert len(list(folder.iterdir())) == 3

    depot.store.delete("toy")
    assert list(depot.prune({}, GO))[-1]["freed"] >= 7
    list(depot.prune({"apply": True}, GO))
    assert list(folder.iterdir()) == [folder / "kernels-0.json"]


# search


def test_search(depot: Depot, tmp_path: Path) -> None:
    """Every word must be somewhere in an entry; what is installed is said."""
    for name, text in (("kev", "FROM hf.co/o/kev\nTAG q8_0 hf.co/o/kev:Q8_0 5GB\n"), ("lev", "FROM hf.co/o/lev\n")):
        (tmp_path / "library" / name).mkdir()
        (tmp_path / "library" / name / "Modelfile").write_text(f"{text}DESCRIPTION Decides {name} fast.\nLICENSE MIT\n")
    depot.store.copy("toy", "kev:q8_0")

    assert [entry["name"] for entry in depot.search("")] == ["kev", "lev"]
    assert [entry["name"] for entry in depot.search("FAST mit")] == ["kev", "lev"]
    (found,) = depot.search("kev q8")
    assert found["tags"][1] == {"name": "kev:q8_0", "source": "hf.co/o/kev:Q8_0", "size": 5 * 10**9}
    assert found["installed"] == ["kev:q8_0"]
    assert depot.search("nothing") == []
