from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
import tiny_gguf
from fake_registry import digest_of, registry

from localdecide.core.errors import BadModelFile, DiskFull
from localdecide.store.depot import Depot
from localdecide.store.download.net import Patience
from localdecide.store.gguf_header import Header, read_header
from localdecide.store.gguf_split import needs_split
from localdecide.store.store import Store

GO = threading.Event()
WORDS = [f"word{i}" for i in range(3000)]


def numbers(start: float, count: int = 7) -> list[float]:
    return [start + i / 8 for i in range(count)]


def block(index: int, start: float) -> dict[str, list[float]]:
    return {f"blk.{index}.{name}": numbers(start + i) for i, name in enumerate(("attn_norm.weight", "ffn_up.bias"))}


KEV = tiny_gguf.build(
    {
        "general.architecture": "qwen35",
        "general.name": "Kev 4B",
        "qwen35.block_count": 2,
        "qwen35.embedding_length": 8,
        "qwen35.embedding_length_out": 512,
        "qwen35.decision.type": "kev",
        "qwen35.decision.temperature.choice": 2.5,
        "tokenizer.ggml.tokens": WORDS,
        "tokenizer.chat_template.systemone": "T",
    },
    {
        "token_embd.weight": numbers(1),
        **block(0, 2),
        "cls.output.weight": numbers(30, 9),
        **block(1, 4),
        "cls.output.bias": numbers(40, 3),
        "output_norm.weight": numbers(6),
    },
)
LAYA = tiny_gguf.build(
    {
        "general.architecture": "modern-bert",
        "general.name": "ModernBERT large",
        "modern-bert.block_count": 4,
        "modern-bert.feed_forward_length": [16, 16, 32, 32],
        "modern-bert.attention.head_count": 2,
        "modern-bert.attention.layer_norm_epsilon": 1e-5,
        "modern-bert.decision.type": "laya",
        "modern-bert.decision.block_count": 2,
        "tokenizer.ggml.pre": "mmbert",
        "tokenizer.ggml.token_type_count": 3,
        "tokenizer.ggml.tokens": WORDS,
    },
    {
        "token_embd.weight": numbers(1),
        **block(0, 2),
        **block(1, 4),
        **block(2, 6),
        **block(3, 8),
        "token_types.weight": numbers(10, 3),
        "cls.norm.weight": numbers(11),
        "cls.weight": numbers(12),
        "cls.output.weight": numbers(13),
    },
)
OMNI = tiny_gguf.build(
    {
        "general.architecture": "lfm2",
        "lfm2.block_count": 3,
        "lfm2.feed_forward_length": [16, 16, 32],
        "lfm2.attention.head_count_kv": [0, 2, 4],
        "lfm2.decision.type": "lfm2-d1-omni",
        "lfm2.decision.block_count": 1,
    },
    {**block(0, 2), **block(1, 4), **block(2, 6), "token_types.weight": numbers(9), "cls.output.bias": numbers(10, 1)},
)
CLEF = tiny_gguf.build(
    {
        "general.architecture": "clef",
        "clef.block_count": 1,
        "clef.context_length": 4096,
        "clef.decision.type": "clef",
        "clef.decision.block_count": 4,
        "clef.decision.head_count": 16,
        "clef.attention.layer_norm_epsilon": 1e-5,
        "clef.attention.recurrent_layers": [True],
        "general.alignment": 64,
    },
    {
        **block(0, 2),
        "decision.hidden_norm.weight": numbers(5),
        "decision.scales": numbers(6, 3),
        "dec.blk.0.ffn_up.weight": numbers(7),
        "token_types.weight": numbers(8),
        "output.weight": numbers(9),
    },
    alignment=64,
)
OLLAMA_CLEF = tiny_gguf.build(
    {"general.architecture": "qwen35", "qwen35.block_count": 1, "qwen35.decision.type": "clef"},
    {**block(0, 2), "clef.hidden_norm.weight": numbers(5), "clef.layers.0.norm1.bias": numbers(6)},
)
FILES = {"kev": KEV, "laya": LAYA, "omni": OMNI, "clef": CLEF, "ollama": OLLAMA_CLEF}
HEADS = {
    "kev": {"cls.output.weight", "cls.output.bias"},
    "laya": {*block(2, 0), *block(3, 0), "token_types.weight", "cls.norm.weight", "cls.weight", "cls.output.weight"},
    "omni": {*block(2, 0), "token_types.weight", "cls.output.bias"},
    "clef": {"decision.hidden_norm.weight", "decision.scales", "dec.blk.0.ffn_up.weight", "token_types.weight"},
    "ollama": {"clef.hidden_norm.weight", "clef.layers.0.norm1.bias"},
}


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    (tmp_path / "library").mkdir()
    patience = Patience(tries=2, pause=0.01, connect=5.0, stall=5.0)
    return Depot(Store(tmp_path / "models", tmp_path / "library"), patience=patience, ollama=())


def create(depot: Depot, tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    path = tmp_path / f"{kind}.gguf"
    path.write_bytes(FILES[kind])
    return list(depot.store.create({"model": kind, "from": str(path)}))


def parts(depot: Depot, kind: str) -> tuple[Header, Header]:
    spec = depot.store.resolve(kind).spec
    assert spec.head
    return read_header(spec.path), read_header(spec.head)


def bytes_of(header: Header) -> dict[str, bytes]:
    data = header.path.read_bytes()
    return {tensor.name: data[header.data_offset + tensor.offset :][: tensor.size] for tensor in header.tensors}


@pytest.mark.parametrize("kind", FILES)
def test_every_tensor_is_in_one_part(depot: Depot, tmp_path: Path, kind: str) -> None:
    """Backbone and head hold the original's tensors, each once, bit for bit, with no gap between them."""
    said = create(depot, tmp_path, kind)
    whole = read_header(tmp_path / f"{kind}.gguf")

    backbone, head = parts(depot, kind)

    assert {tensor.name for tensor in head.tensors} == HEADS[kind]
    assert not {tensor.name for tensor in backbone.tensors} & HEADS[kind]
    assert {**bytes_of(backbone), **bytes_of(head)} == bytes_of(whole)
    assert any(line["status"] == "splitting into backbone and head" for line in said)
    for header in (backbone, head):
        expected = 0
        for tensor in header.tensors:
            assert tensor.offset == expected
            expected += tensor.size + (-tensor.size % header.alignment)
    assert not needs_split(backbone)


@pytest.mark.parametrize("kind", FILES)
def test_export_gives_the_original_back(depot: Depot, tmp_path: Path, kind: str) -> None:
    """Byte for byte, and said so, with the digest that the manifest keeps."""
    create(depot, tmp_path, kind)
    target = tmp_path / "back.gguf"

    said = [line["status"] for line in depot.export({"model": kind, "file": str(target)}, GO)]

    digest = digest_of(FILES[kind])
    assert target.read_bytes() == FILES[kind]
    assert f"byte-identical to {digest}" in said
    assert {layer.annotations.get("origin") for layer in depot.store.resolve(kind).manifest.layers} == {digest}


def test_kev_backbone(depot: Depot, tmp_path: Path) -> None:
    """The width of the head's output is no business of the backbone's; everything else stays where it was."""
    create(depot, tmp_path, "kev")

    backbone, head = parts(depot, "kev")

    assert "qwen35.embedding_length_out" not in backbone.metadata
    assert head.metadata["qwen35.embedding_length_out"] == 512
    assert head.metadata["localdecide.head.family"] == "kev"
    assert head.metadata["qwen35.decision.temperature.choice"] == 2.5
    assert backbone.metadata["qwen35.decision.type"] == "kev"
    assert backbone.metadata["tokenizer.chat_template.systemone"] == "T"
    assert backbone.array("tokenizer.ggml.tokens") == WORDS
    assert "tokenizer.ggml.tokens" not in head.metadata
    assert depot.store.resolve("kev").facts.decision_type == "kev"


def test_laya_backbone(depot: Depot, tmp_path: Path) -> None:
    """Head blocks leave the count and the list of widths; the pre-tokenizer gets a name the bindings know."""
    create(depot, tmp_path, "laya")

    backbone, head = parts(depot, "laya")

    assert (backbone.arch("block_count"), backbone.arch("feed_forward_length")) == (2, 16)
    assert backbone.metadata["general.name"] == "ModernBERT large"
    assert backbone.metadata["tokenizer.ggml.pre"] == "gemma4"
    assert backbone.metadata["localdecide.tokenizer.pre"] == "mmbert"
    assert "tokenizer.ggml.token_type_count" not in backbone.metadata
    assert head.metadata["modern-bert.block_count"] == 4
    assert head.metadata["modern-bert.attention.head_count"] == 2


def test_omni_backbone(depot: Depot, tmp_path: Path) -> None:
    """Lists by layer are cut to the backbone's layers."""
    create(depot, tmp_path, "omni")

    backbone, _ = parts(depot, "omni")

    assert backbone.arch("feed_forward_length") == 16
    assert backbone.arch("attention.head_count_kv") == [0, 2]


def test_clef_backbone(depot: Depot, tmp_path: Path) -> None:
    """The architecture clef is qwen35 to the bindings, in every key; the head keeps its own."""
    create(depot, tmp_path, "clef")

    backbone, head = parts(depot, "clef")

    assert backbone.architecture == "qwen35"
    assert (backbone.arch("context_length"), backbone.arch("decision.type")) == (4096, "clef")
    assert backbone.arch("attention.recurrent_layers") == [True]
    assert not any(key.startswith("clef.") for key in backbone.metadata)
    assert head.metadata["clef.decision.head_count"] == 16
    assert head.alignment == backbone.alignment == 64


def test_plain_models_are_left_alone(depot: Depot, tmp_path: Path) -> None:
    """No decision type, or one without a head inside: the file stays as it is."""
    for name, pairs, tensors in (
        ("reranker", {}, {"cls.weight": numbers(1), "t": numbers(2)}),
        ("lev", {"llama.decision.type": "lev"}, {"t": numbers(2)}),
    ):
        path = tiny_gguf.write(tmp_path / f"{name}.gguf", pairs, tensors=tensors)
        list(depot.store.create({"model": name, "from": str(path)}))
        assert depot.store.resolve(name).spec.head is None
        assert depot.store.resolve(name).spec.digest == digest_of(path.read_bytes())


def test_senseless_heads_are_refused(depot: Depot, tmp_path: Path) -> None:
    """A file that claims more head blocks than blocks, or holds a head alone."""
    pairs = {"general.architecture": "lfm2", "lfm2.decision.type": "lfm2-d1-omni", "lfm2.block_count": 2}
    cases = (
        (pairs | {"lfm2.decision.block_count": 2}, {**block(0, 1), "cls.x": [1.0]}),
        ({"llama.decision.type": "kev"}, {"cls.x": [1.0]}),
    )
    for metadata, tensors in cases:
        path = tiny_gguf.write(tmp_path / "m.gguf", metadata, tensors=tensors)
        with pytest.raises(BadModelFile):
            list(depot.store.create({"model": "bad", "from": str(path)}))


def test_a_pulled_file_is_not_kept_twice(depot: Depot) -> None:
    """The original goes once its parts are in place; pulling again fetches nothing; show names both parts."""
    with registry() as reg:
        reg.server.files["/kev.gguf"] = KEV
        url = f"{reg.server.url}/kev.gguf#sha256={digest_of(KEV)[7:]}"
        list(depot.pull({"model": url, "as": "kev"}, GO))
        asked = len(reg.server.asked)
        list(depot.pull({"model": url, "as": "kev"}, GO))

    assert not depot.store.catalog.blobs.has(digest_of(KEV))
    assert len(reg.server.asked) == asked
    assert set(depot.store.catalog.blobs.all()) == depot.store.resolve("kev").manifest.digests
    modelfile = depot.store.show("kev")["modelfile"]
    assert f"HEAD {depot.store.resolve('kev').spec.head}" in modelfile


def test_the_parts_are_kept_when_the_original_is_asked_for_again(depot: Depot, tmp_path: Path) -> None:
    """`refresh` of a split model fetches nothing of what its parts were cut from; a changed library entry neither."""
    with registry() as reg:
        reg.server.files["/kev.gguf"] = KEV
        entry = tmp_path / "library" / "kev"
        entry.mkdir()
        url = f"{reg.server.url}/kev.gguf#sha256={digest_of(KEV)[7:]}"
        entry.joinpath("Modelfile").write_text(f"FROM {url}\n")
        list(depot.pull({"model": "kev"}, GO))
        before, sent = depot.store.resolve("kev"), reg.server.sent
        list(depot.pull({"model": "kev", "refresh": True}, GO))
        entry.joinpath("Modelfile").write_text(f"FROM {url}\nTEMPERATURE choice 1.5\n")
        list(depot.pull({"model": "kev"}, GO))
        after = depot.store.resolve("kev")

    assert reg.server.sent == sent
    assert (after.spec.digest, after.spec.head) == (before.spec.digest, before.spec.head)
    assert after.spec.temperatures == {"choice": 1.5}
    assert not depot.store.catalog.blobs.has(digest_of(KEV))


def test_a_registry_model_is_split_too(depot: Depot) -> None:
    """Ollama's layout arrives by manifest; its other layers stay."""
    with registry() as reg:
        reg.add("me/clef:v1", OLLAMA_CLEF, system=b"S")
        name = f"http://{reg.host}/me/clef:v1"
        list(depot.pull({"model": name, "insecure": True}, GO))
        list(depot.pull({"model": name, "insecure": True, "refresh": True}, GO))
        model = depot.store.resolve(f"{reg.host}/me/clef:v1")

    assert model.spec.head
    assert model.spec.system == "S"
    assert model.facts.decision_type == "clef"


def test_verify_repairs_a_part(depot: Depot, tmp_path: Path) -> None:
    """A damaged head is cut anew from the original, fetched again."""
    with registry() as reg:
        reg.server.files["/kev.gguf"] = KEV
        entry = tmp_path / "library" / "kev"
        entry.mkdir()
        url = f"{reg.server.url}/kev.gguf#sha256={digest_of(KEV)[7:]}"
        entry.joinpath("Modelfile").write_text(f"FROM {url}\nPARAMETER num_ctx 99\n")
        list(depot.pull({"model": "kev"}, GO))
        head = Path(depot.store.resolve("kev").spec.head or "")
        good = head.read_bytes()
        os.truncate(head, 10)

        list(depot.verify({"model": "kev"}, GO))

    assert head.read_bytes() == good
    assert depot.store.resolve("kev").spec.parameters == {"num_ctx": 99}


def test_a_bundle_carries_the_parts(depot: Depot, tmp_path: Path) -> None:
    """Exported and imported elsewhere, a split model still gives the original back."""
    create(depot, tmp_path, "clef")
    list(depot.export({"model": "clef", "file": str(tmp_path / "b.tar")}, GO))
    other = Depot(Store(tmp_path / "other", tmp_path / "library"), offline=True, ollama=())

    list(other.import_({"file": str(tmp_path / "b.tar")}, GO))
    list(other.export({"model": "clef", "file": str(tmp_path / "back.gguf")}, GO))

    assert (tmp_path / "back.gguf").read_bytes() == CLEF


def test_room_for_the_parts(depot: Depot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A split that does not fit is refused before it begins."""
    monkeypatch.setattr("localdecide.store.blobs.free_bytes", lambda folder: 100)
    with pytest.raises(DiskFull):
        create(depot, tmp_path, "kev")


def shard(number: int, count: int, total: int, tensors: dict[str, list[float]]) -> bytes:
    pairs = {"split.no": number, "split.count": count, "split.tensors.count": total}
    return tiny_gguf.build(pairs | ({"general.name": "Sharded"} if number == 0 else {}), tensors)


def test_shards_become_one_file(depot: Depot, tmp_path: Path) -> None:
    """A folder of shards is one model with all their tensors and no trace of the cut."""
    folder = tmp_path / "big"
    folder.mkdir()
    (folder / "big-00001-of-00002.gguf").write_bytes(shard(0, 2, 3, {"a": numbers(1), "b": numbers(2)}))
    (folder / "big-00002-of-00002.gguf").write_bytes(shard(1, 2, 3, {"c": numbers(3)}))

    list(depot.pull({"model": str(folder)}, GO))

    header = read_header(depot.store.resolve("big").spec.path)
    assert [tensor.name for tensor in header.tensors] == ["a", "b", "c"]
    assert header.metadata["general.name"] == "Sharded"
    assert not any(key.startswith("split.") for key in header.metadata)
    assert set(depot.store.catalog.blobs.all()) == depot.store.resolve("big").manifest.digests


def test_missing_shards_are_named(depot: Depot, tmp_path: Path) -> None:
    """A piece of another cut, or fewer tensors than there should be."""
    folder = tmp_path / "big"
    folder.mkdir()
    (folder / "big-00001-of-00002.gguf").write_bytes(shard(0, 2, 4, {"a": numbers(1)}))
    for second, message in (
        (shard(0, 2, 4, {"b": numbers(2)}), "says it is piece 0 of 2, not 1 of 2"),
        (shard(1, 2, 4, {"b": numbers(2)}), "the pieces hold 2 tensors of 4"),
    ):
        (folder / "big-00002-of-00002.gguf").write_bytes(second)
        with pytest.raises(BadModelFile, match=message):
            list(depot.pull({"model": str(folder)}, GO))
