from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf

from localdecide.core.errors import (
    BadModelFile,
    Forbidden,
    InvalidModelfile,
    InvalidName,
    InvalidRequest,
    ModelNotFound,
    StoreFailed,
    StoreNotWritable,
)
from localdecide.core.model import Readout
from localdecide.core.modelfile import parse_modelfile
from localdecide.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store at a path with a space and a letter outside ASCII, and an empty library."""
    (tmp_path / "library").mkdir()
    return Store(tmp_path / "my mödels", tmp_path / "library")


def make(store: Store, name: str, modelfile: str, directory: Path, **more: Any) -> list[str]:
    """Create a model; gives the statuses."""
    request = {"model": name, "modelfile": modelfile, "directory": str(directory), **more}
    return [line["status"] for line in store.create(request)]


def test_create_from_a_file(store: Store, tmp_path: Path) -> None:
    """A Modelfile beside its GGUF becomes a model that has what the file says, in Ollama's layout."""
    path = tiny_gguf.write(tmp_path / "m ü.gguf", {"llama.context_length": 99})
    text = "FROM ./m ü.gguf\nPARAMETER num_ctx 64\nFAMILY lev\nREADOUT choice text TEMPERATURE 4\nSYSTEM Be brief.\n"

    statuses = make(store, "toy", text, tmp_path)

    model = store.resolve("toy")
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    assert statuses[:2] == ["parsing GGUF", f"creating new layer {digest}"]
    assert statuses[-2:] == ["writing manifest", "success"]
    assert model.spec.path == str(store.root / "blobs" / digest.replace(":", "-"))
    assert (model.spec.family, model.spec.system, model.spec.digest) == ("lev", "Be brief.", digest)
    assert model.spec.parameters == {"num_ctx": 64}
    assert model.spec.readouts == {"choice": Readout("text", 4.0)}
    written = (store.root / "manifests/registry.ollama.ai/library/toy/latest").read_bytes()
    manifest = json.loads(written)
    assert model.digest == hashlib.sha256(written).hexdigest()
    assert manifest["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json"
    assert manifest["layers"][0]["mediaType"] == "application/vnd.ollama.image.model"
    config = json.loads((store.root / "blobs" / manifest["config"]["digest"].replace(":", "-")).read_bytes())
    assert (config["model_format"], config["capabilities"]) == ("gguf", ["decision"])


def test_a_local_file_is_linked_not_copied(store: Store, tmp_path: Path) -> None:
    """The blob shares its bytes with the original, and outlives it."""
    path = tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf", tmp_path)
    blob = Path(store.resolve("toy").spec.path)
    shared = os.stat(blob).st_ino == os.stat(path).st_ino or os.stat(blob).st_nlink == 1

    data = path.read_bytes()
    path.unlink()

    assert shared
    assert not blob.is_symlink()
    assert blob.read_bytes() == data


def test_create_again_reuses_layers(store: Store, tmp_path: Path) -> None:
    """A second model of the same file adds nothing to the disk but its own small layers."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "one", "FROM ./m.gguf", tmp_path)

    statuses = make(store, "two", "FROM ./m.gguf", tmp_path)

    assert [s.split(" sha")[0] for s in statuses] == [
        "parsing GGUF",
        "using existing layer",
        "writing manifest",
        "success",
    ]
    assert store.resolve("one").spec.path == store.resolve("two").spec.path


def test_create_from_another_model(store: Store, tmp_path: Path) -> None:
    """FROM a name takes everything over; what the new Modelfile says wins."""
    tiny_gguf.write(tmp_path / "m.gguf")
    base = "FROM ./m.gguf\nPARAMETER num_ctx 64\nPARAMETER num_batch 8\nSYSTEM old\nLICENSE MIT\nREADOUT noul yesno\n"
    make(store, "base", base, tmp_path)

    make(store, "child", "FROM base\nPARAMETER num_ctx 32\nSYSTEM new\nREADOUT choice letters\n", tmp_path)

    child = store.resolve("child")
    assert child.spec.parameters == {"num_ctx": 32, "num_batch": 8}
    assert (child.spec.system, child.licenses) == ("new", ["MIT"])
    assert child.spec.readouts == {"noul": Readout("yesno"), "choice": Readout("letters")}
    assert child.details["parent_model"] == "base:latest"
    assert store.resolve("base").spec.system == "old"


def test_create_from_fields(store: Store, tmp_path: Path) -> None:
    """Ollama's own fields of /api/create do what the same Modelfile would."""
    path = tiny_gguf.write(tmp_path / "m.gguf")
    request = {
        "model": "toy",
        "from": str(path),
        "parameters": {"num_ctx": 8, "use_mmap": False, "stop": ["a", "b"]},
        "system": 'two\nlines "quoted" """thrice""" "',
        "license": ["MIT", "BSD"],
        "capabilities": ["decision"],
    }

    statuses = [line["status"] for line in store.create(request)]

    model = store.resolve("toy")
    assert statuses[0] == "warning: parameter 'stop' has no effect on decisions"
    assert model.spec.parameters == {"num_ctx": 8, "use_mmap": False}
    assert model.parameters["stop"] == ["a", "b"]
    assert model.spec.system == request["system"]
    assert model.licenses == ["MIT", "BSD"]


def test_create_from_an_uploaded_blob(store: Store, tmp_path: Path) -> None:
    """`files` names blobs that a client uploaded."""
    digest, _ = store.catalog.blobs.add(tiny_gguf.build())

    statuses = [line["status"] for line in store.create({"model": "toy", "files": {"m.gguf": digest}})]

    assert statuses[-1] == "success"
    assert store.resolve("toy").spec.digest == digest


def test_a_modelfile_may_name_uploads(store: Store, tmp_path: Path) -> None:
    """FROM and HEAD take digests of blobs: what a client on another machine sends."""
    digest, _ = store.catalog.blobs.add(tiny_gguf.build())
    head, _ = store.catalog.blobs.add(b"head")

    make(store, "toy", f"FROM {digest}\nHEAD {head}\n", tmp_path, remote=True)

    spec = store.resolve("toy").spec
    assert spec.digest == digest
    assert Path(spec.head or "").read_bytes() == b"head"
    with pytest.raises(InvalidRequest, match="there is no blob sha256:0+; POST it"):
        make(store, "new", f"FROM sha256:{'0' * 64}", tmp_path)


def test_show_round_trips(store: Store, tmp_path: Path) -> None:
    """The Modelfile that show prints makes the same model again."""
    tiny_gguf.write(tmp_path / "m.gguf", {"tokenizer.chat_template": "T", "llama.decision.type": "lev"})
    text = 'FROM ./m.gguf\nPARAMETER num_ctx 64\nTEMPLATE """a\n b"""\nLICENSE MIT\nTEMPERATURE choice.small 1.25\n'
    make(store, "one", text + "LABELS noul yes no\nMESSAGE user hi\n", tmp_path)
    first = store.show("one")

    make(store, "two", first["modelfile"], tmp_path)

    second = store.show("two")
    one, two = store.resolve("one"), store.resolve("two")
    assert parse_modelfile(first["modelfile"]).decision() == parse_modelfile(second["modelfile"]).decision()
    assert {k: first[k] for k in ("license", "parameters", "template", "details", "decision")} == {
        k: second[k] for k in ("license", "parameters", "template", "details", "decision")
    }
    assert {layer.digest for layer in one.manifest.layers} == {layer.digest for layer in two.manifest.layers}
    assert first["decision"]["family"] == "lev"


def test_show_body(store: Store, tmp_path: Path) -> None:
    """Ollama's fields are all there; long arrays are null unless asked for."""
    words = [f"w{i}" for i in range(2000)]
    tiny_gguf.write(tmp_path / "m.gguf", {"tokenizer.ggml.tokens": words, "tokenizer.chat_template": "T"})
    make(store, "toy", "FROM ./m.gguf\nPARAMETER num_ctx 64\nPARAMETER use_mmap false\n", tmp_path)

    body, verbose = store.show("toy"), store.show("toy", verbose=True)

    assert {"license", "modelfile", "parameters", "template", "system", "details", "model_info"} <= body.keys()
    assert body["capabilities"] == ["decision"]
    assert body["modified_at"].endswith("Z")
    assert body["template"] == "T"
    assert body["parameters"] == "num_ctx                        64\nuse_mmap                       false"
    assert body["model_info"]["tokenizer.ggml.tokens"] is None
    assert body["model_info"]["general.parameter_count"] == 2
    assert verbose["model_info"]["tokenizer.ggml.tokens"] == words
    assert verbose["tensors"] == [{"name": "output_norm.weight", "type": "F32", "shape": [2]}]


def test_names_fold_case(store: Store, tmp_path: Path) -> None:
    """A model is found, replaced and deleted under any spelling of its name."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "Toy", "FROM ./m.gguf", tmp_path)

    make(store, "tOY", "FROM ./m.gguf\nSYSTEM x", tmp_path)

    assert [str(model.name) for model in store.list()] == ["Toy:latest"]
    assert store.resolve("TOY:LATEST").spec.system == "x"
    assert str(store.delete("toy")) == "Toy:latest"
    assert store.list() == []


def test_delete_keeps_what_others_use(store: Store, tmp_path: Path) -> None:
    """A blob goes with the last model that names it, and empty folders go too."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "one", "FROM ./m.gguf\nSYSTEM only one", tmp_path)
    store.copy("one", "x/two:v1")
    path = Path(store.resolve("one").spec.path)

    store.delete("one")

    assert path.exists()
    assert store.resolve("x/two:v1").spec.system == "only one"
    assert not (store.root / "manifests/registry.ollama.ai/library").exists()
    store.delete("x/two:v1")
    assert list((store.root / "blobs").iterdir()) == []


def test_replacing_a_model_removes_what_only_it_used(store: Store, tmp_path: Path) -> None:
    """No orphan is left behind when a name gets new weights."""
    tiny_gguf.write(tmp_path / "a.gguf")
    tiny_gguf.write(tmp_path / "b.gguf", {"general.name": "other"})
    make(store, "toy", "FROM ./a.gguf", tmp_path)

    statuses = make(store, "toy", "FROM ./b.gguf", tmp_path)

    assert statuses[-2:] == ["removing unused layers", "success"]
    assert set(store.catalog.blobs.all()) == store.catalog.used()


def test_nothing_is_removed_while_a_model_is_written(store: Store, tmp_path: Path) -> None:
    """A delete during a create leaves the blob that the create has counted on."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "one", "FROM ./m.gguf", tmp_path)
    making = store.create({"model": "two", "from": str(tmp_path / "m.gguf")})
    while "existing layer" not in next(making)["status"]:
        pass

    store.delete("one")
    rest = list(making)

    assert rest[-1] == {"status": "success"}
    assert Path(store.resolve("two").spec.path).exists()


def test_nothing_is_removed_while_another_manifest_is_unreadable(store: Store, tmp_path: Path) -> None:
    """A damaged manifest may name any blob: it hides no other model and costs nobody a blob."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "one", "FROM ./m.gguf", tmp_path)
    make(store, "two", "FROM ./m.gguf\nSYSTEM x", tmp_path)
    (store.root / "manifests/registry.ollama.ai/library/bad").mkdir()
    (store.root / "manifests/registry.ollama.ai/library/bad/latest").write_text("{")
    before = store.catalog.blobs.all()

    store.delete("two")

    assert [str(model.name) for model in store.list()] == ["one:latest"]
    assert store.catalog.blobs.all() == before


def test_two_processes_agree(store: Store, tmp_path: Path) -> None:
    """A model made by another process is seen at once, and its deletion too."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf", tmp_path)
    assert store.resolve("toy").spec.system is None
    code = "import sys; from localdecide.store.store import Store; s = Store(sys.argv[1]);"
    change = code + "list(s.create({'model': 'toy', 'from': 'toy', 'system': 'changed'}))"
    subprocess.run([sys.executable, "-c", change, str(store.root)], check=True)

    assert store.resolve("toy").spec.system == "changed"
    subprocess.run([sys.executable, "-c", code + "s.delete('toy')", str(store.root)], check=True)
    assert store.find("toy") is None


def test_threads_share_a_store(store: Store, tmp_path: Path) -> None:
    """Eight threads that make, list and delete leave a consistent store."""
    tiny_gguf.write(tmp_path / "m.gguf")
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                make(store, f"m{number}", f"FROM ./m.gguf\nSYSTEM {turn}", tmp_path)
                store.list()
                if turn < 4:
                    store.delete(f"m{number}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert len(store.list()) == 8
    assert all(Path(model.spec.path).exists() and model.spec.system == "4" for model in store.list())


def test_missing_model(store: Store, tmp_path: Path) -> None:
    """Not found names the model as asked and the nearest one there is."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "smollm2", "FROM ./m.gguf", tmp_path)

    with pytest.raises(ModelNotFound) as caught:
        store.resolve("smolm2")

    assert caught.value.message == "model 'smolm2' not found"
    assert caught.value.details["suggestion"] == "smollm2:latest"


def test_bad_names(store: Store) -> None:
    """Each call says in Ollama's words which name is wrong."""
    for call, message in (
        (lambda: store.resolve("a b"), "invalid model name"),
        (lambda: list(store.create({"model": ""})), "invalid model name"),
        (lambda: store.delete("-"), 'name "-" is invalid'),
        (lambda: store.copy("-", "b"), 'source "-" is invalid'),
        (lambda: store.copy("a", "-"), 'destination "-" is invalid'),
    ):
        with pytest.raises(InvalidName) as caught:
            call()
        assert caught.value.message == message


def test_create_refuses(store: Store, tmp_path: Path) -> None:
    """Each bad request is refused in its own words, and leaves no model behind."""
    tiny_gguf.write(tmp_path / "m.gguf")
    (tmp_path / "cut.gguf").write_bytes(tiny_gguf.build()[:-40])
    tiny_gguf.write(tmp_path / "vocab.gguf", tensors={})
    tiny_gguf.write(tmp_path / "lora.gguf", {"general.type": "adapter"})
    (tmp_path / "empty folder").mkdir()
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    for text, kind, message in (
        ("FROM ./none.gguf", InvalidRequest, "no such file: "),
        ("FROM nobody", ModelNotFound, "model 'nobody' not found"),
        ("FROM ./cut.gguf", BadModelFile, "cut.gguf is cut off"),
        ("FROM ./vocab.gguf", BadModelFile, "vocab.gguf holds no weights"),
        ("FROM ./lora.gguf", BadModelFile, "lora.gguf is a LoRA adapter"),
        ("FROM ./m.gguf\nFROM ./m.gguf", BadModelFile, "m.gguf is a second model"),
        ("FROM ./empty folder", InvalidRequest, "holds no GGUF file"),
        ("FROM ./loop.gguf", InvalidRequest, "its links go round in a circle"),
        ("FROM package:../x", InvalidRequest, "is not package:NAME/path"),
        ("FROM package:json/../../x.gguf", InvalidRequest, "is not package:NAME/path"),
        ("FROM package:json/none.gguf", InvalidRequest, "holds no file none.gguf"),
        ("FROM package:no_such_pkg/x.gguf", ModelNotFound, "to get it: pip install 'no_such_pkg'"),
        ("SYSTEM x", InvalidModelfile, "no FROM line"),
        ("FROM ./m.gguf\nHEAD ./none", InvalidRequest, "no such file: "),
    ):
        with pytest.raises(kind) as caught:
            make(store, "toy", text, tmp_path)
        assert message in caught.value.message
    assert store.list() == []


def test_another_machine_names_no_file(store: Store, tmp_path: Path) -> None:
    """A request from elsewhere may use models and blobs, not paths, and does not learn what lies where."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf", tmp_path)
    for text in (f"FROM {tmp_path}/m.gguf", "FROM ./none.gguf", "FROM toy\nHEAD /etc/passwd", "FROM ~/x"):
        with pytest.raises(Forbidden, match="only a program on this machine"):
            make(store, "new", text, tmp_path, remote=True)
    make(store, "child", "FROM toy\nSYSTEM x", tmp_path, remote=True)

    assert {str(model.name) for model in store.list()} == {"toy:latest", "child:latest"}


def test_from_a_piece_of_a_file(store: Store, tmp_path: Path) -> None:
    """One shard stands for all of them; a model from elsewhere that is not here says how to get it."""
    for number in (0, 1):
        pairs = {"split.no": number, "split.count": 2, "split.tensors.count": 2}
        tiny_gguf.write(tmp_path / f"m-0000{number + 1}-of-00002.gguf", pairs, tensors={f"t{number}": [1.0]})

    make(store, "toy", "FROM ./m-00001-of-00002.gguf", tmp_path)

    assert store.resolve("toy").facts.parameter_count == 2
    with pytest.raises(ModelNotFound, match="`localdecide pull hf.co/o/r:Q8_0` gets it"):
        make(store, "new", "FROM hf.co/o/r:Q8_0", tmp_path)


def test_create_refuses_bad_fields(store: Store, tmp_path: Path) -> None:
    """Fields of the wrong type are named."""
    path = str(tiny_gguf.write(tmp_path / "m.gguf"))
    for fields, message in (
        ({"from": 3}, "from: must be a string"),
        ({"from": path, "parameters": []}, "must be an object"),
        ({"from": path, "parameters": {"num_ctx": "x"}}, "invalid int value [x]"),
        ({"from": path, "quantize": "q4_0"}, "quantize: is not supported"),
        ({"from": path, "directory": "relative"}, "directory: must be an absolute path"),
        ({"files": {"m": "sha256:12"}}, "invalid digest format"),
        ({}, "neither 'from' or 'files' was specified"),
    ):
        with pytest.raises(InvalidRequest) as caught:
            list(store.create({"model": "toy", **fields}))
        assert message in caught.value.message


def test_projector_beside_the_model(store: Store, tmp_path: Path) -> None:
    """A GGUF of a projector becomes the projector, in any order, also from a folder."""
    folder = tmp_path / "both"
    folder.mkdir()
    tiny_gguf.write(folder / "a-mmproj.gguf", {"general.architecture": "clip"})
    tiny_gguf.write(folder / "model.gguf")

    make(store, "toy", "FROM ./both", tmp_path)

    model = store.resolve("toy")
    assert model.capabilities == ("decision", "vision")
    assert model.spec.projector
    assert model.spec.projector != model.spec.path


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs a folder that nobody may write to")
def test_a_store_that_is_not_writable(tmp_path: Path) -> None:
    """It lists nothing, finds nothing, and says which setting moves it when asked to write."""
    path = tiny_gguf.write(tmp_path / "m.gguf")
    store = Store("/sys/kernel/localdecide store", tmp_path)

    assert store.list() == []
    with pytest.raises(StoreNotWritable, match="set LOCALDECIDE_MODELS to a folder"):
        list(store.create({"model": "toy", "from": str(path)}))


def test_damage_is_named(store: Store, tmp_path: Path) -> None:
    """A blob that has gone or shrunk is an error of that model, with what to do."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf", tmp_path)
    blob = Path(store.resolve("toy").spec.path)
    data = blob.read_bytes()

    blob.unlink()
    blob.write_bytes(data[:10])
    with pytest.raises(StoreFailed, match="have 10 bytes and should have"):
        str(Store(store.root, tmp_path).resolve("toy").spec)
    blob.unlink()
    with pytest.raises(StoreFailed, match="pull or create it again"):
        str(Store(store.root, tmp_path).resolve("toy").spec)


def test_a_damaged_model_can_be_listed_and_removed(store: Store, tmp_path: Path) -> None:
    """A lost config hides nothing; a lost decision layer is an error and not another way to read; a manifest
    that is no JSON can still be deleted."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf\nFAMILY lev", tmp_path)
    manifest = store.resolve("toy").manifest
    store.catalog.blobs.path(manifest.config.digest).unlink()
    again = Store(store.root, tmp_path)
    assert again.list()[0].card()["details"]["family"] == ""
    assert again.resolve("toy").spec.family == "lev"

    store.catalog.blobs.path(manifest.layers[-1].digest).unlink()
    with pytest.raises(StoreFailed, match="is missing"):
        str(Store(store.root, tmp_path).resolve("toy").spec)

    (store.root / "manifests/registry.ollama.ai/library/toy/latest").write_text("{")
    assert str(Store(store.root, tmp_path).delete("toy")) == "toy:latest"
    assert Store(store.root, tmp_path).find("toy") is None


def test_links_in_circles_do_not_hang_the_list(store: Store, tmp_path: Path) -> None:
    """A loop of links among the manifests is skipped."""
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf", tmp_path)
    (store.root / "manifests/registry.ollama.ai/library/loop").symlink_to(store.root / "manifests")
    (store.root / "manifests/self").symlink_to(store.root / "manifests/self")

    assert "toy:latest" in [str(model.name) for model in store.list()]


def test_an_upload_becomes_a_blob(store: Store) -> None:
    """Pieces add up to the digest they were announced with; anything else leaves nothing."""
    data = tiny_gguf.build()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    blobs = store.catalog.blobs
    with blobs.upload(digest) as upload:
        upload.write(data[:50])
        upload.write(data[50:])
        upload.finish()
    message = r"digest mismatch, expected sha256:0+, got sha256:"
    with blobs.upload("sha256:" + "0" * 64) as wrong, pytest.raises(InvalidRequest, match=message):
        wrong.finish()
    with pytest.raises(InvalidRequest, match="invalid digest format"):
        blobs.upload("sha256:../x")

    assert blobs.path(digest).read_bytes() == data
    assert len(list(blobs.folder.iterdir())) == 1


@pytest.mark.skipif(os.name == "nt", reason="folders cannot be flushed there")
def test_what_is_written_survives_a_power_cut(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is flushed before it gets its name, every folder after; the manifest comes last of all."""
    events: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def flush(handle: int) -> None:
        events.append(("flush", os.readlink(f"/proc/self/fd/{handle}") if sys.platform == "linux" else ""))
        fsync(handle)

    def rename(source: Any, target: Any) -> None:
        events.append(("rename", str(target)))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", flush)
    monkeypatch.setattr(os, "replace", rename)
    tiny_gguf.write(tmp_path / "m.gguf")
    make(store, "toy", "FROM ./m.gguf\nSYSTEM x", tmp_path)

    renames = [index for index, (kind, _) in enumerate(events) if kind == "rename"]
    manifest = str(store.root / "manifests/registry.ollama.ai/library/toy/latest")
    assert events[renames[-1]] == ("rename", manifest)
    assert events[-1][0] == "flush"
    if sys.platform == "linux":
        assert events[-1] == ("flush", str(Path(manifest).parent))
        for folder in list(Path(manifest).parents)[1:5]:  # each new folder's name, too, down to the manifest
            assert ("flush", str(folder)) in events[: renames[-1]]
        for index in renames[1:]:  # the first one is the weights, whose bytes are the original's own
            assert events[index - 1][0] == "flush"
            assert events[index - 1][1].startswith(str(Path(events[index][1]).parent))
            assert events[index + 1] == ("flush", str(Path(events[index][1]).parent))
