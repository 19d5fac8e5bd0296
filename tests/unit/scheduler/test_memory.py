"""The estimate of a model's memory and the reading of the machine's."""

from __future__ import annotations

from pathlib import Path

import pytest

from localdecide.scheduler import machine, memory
from localdecide.scheduler.machine import Reading
from localdecide.scheduler.memory import Shape

MIB = 2**20


def test_an_attention_model_by_hand():
    """SmolLM2-135M: 30 layers of 3 KV heads of 64; 4096 + 512 cells of f16 take 101.25 MiB."""
    shape = Shape(weights=91 * MIB, kv_heads=(3,) * 30, key_length=64, value_length=64, context_train=8192)
    estimate = memory.estimate(shape, {})
    assert (estimate.context, estimate.weights, estimate.kv) == (4096, 91 * MIB, (4096 + 512) * 30 * 3 * 128 * 2)
    assert estimate.total == estimate.weights + estimate.kv + estimate.recurrent + estimate.compute + memory.PROCESS


@pytest.mark.parametrize(
    ("parameters", "trained", "context", "number"),
    [
        ({}, 2048, 2048, 2),
        ({}, 0, 4096, 2),
        ({"num_ctx": 32768}, 2048, 32768, 2),
        ({"kv_cache_type": "f32"}, 8192, 4096, 4),
    ],
)
def test_parameters_change_the_cache(parameters, trained, context, number):
    """The context is what num_ctx says, else what was trained, at most 4096; f32 doubles the cache."""
    estimate = memory.estimate(
        Shape(weights=0, kv_heads=(1,), key_length=1, value_length=1, context_train=trained), parameters
    )
    assert (estimate.context, estimate.kv) == (context, (context + 512) * 2 * number)


def test_recurrent_layers_keep_a_state_per_sequence_and_no_cache():
    """A hybrid with one attention layer in four: 8 states, and KV for the one."""
    shape = Shape(weights=0, kv_heads=(0, 0, 0, 2), key_length=256, value_length=256, recurrent_bytes=MIB)
    estimate = memory.estimate(shape, {"num_ctx": 1000, "num_ubatch": 100})
    assert (estimate.recurrent, estimate.kv) == (8 * MIB, 1512 * 2 * 512 * 2)


def test_requests_that_share_decode_calls_each_need_a_cache():
    """Four of them, four caches; a recurrent model shares none."""
    attention = Shape(weights=0, kv_heads=(2,), key_length=1, value_length=1)
    hybrid = Shape(weights=0, kv_heads=(2, 0), key_length=1, value_length=1, recurrent_bytes=MIB)
    one, four = (memory.estimate(attention, {"num_ctx": 1000}, parallel).kv for parallel in (1, 4))
    assert (1512 * 8, 4 * one) == (one, four)
    assert memory.estimate(hybrid, {"num_ctx": 1000}, 4).kv == one


def test_requests_over_what_an_engine_takes_need_nothing():
    """64 caches and 256 outputs are the most, however many requests the setting names."""
    shape = Shape(weights=0, kv_heads=(2,), key_length=1, value_length=1, vocabulary=1000)
    few, most, more = (memory.estimate(shape, {"num_ctx": 1000}, parallel) for parallel in (2, 64, 5000))
    assert (2 * 64 * 4000, 256 * 4000, 64 * 1512 * 8) == (few.compute, most.compute, most.kv)
    assert most == more


def test_an_encoder_needs_one_big_ubatch_and_no_cache():
    """Its prompt is read at once: compute grows with the context."""
    encoder = Shape(weights=0, kv_heads=(12,), key_length=64, value_length=64, embedding_length=768, causal=False)
    small, large = (memory.estimate(encoder, {"num_ctx": tokens}) for tokens in (512, 4096))
    assert (small.kv, large.kv, large.compute > 7 * small.compute) == (0, 0, True)


def test_attention_scores_take_room_without_flash_attention():
    """Heads x cells x ubatch rows of float32, also where the load decides whether it is used."""
    shape = Shape(weights=0, kv_heads=(1,), heads=9, context_train=1024)
    on, off, auto = (memory.estimate(shape, {"flash_attention": value}).compute for value in ("on", "off", "auto"))
    assert off - on == auto - on == 4 * 256 * 9 * (1024 + 512)


def test_what_may_be_used():
    """The setting if there is one; else what is free and what runners hold, at most nine tenths of the machine."""
    assert memory.usable(5, Reading(1000, 1), 0) == 5
    assert memory.usable(0, Reading(1000, 300), 200) == 500
    assert memory.usable(0, Reading(1000, 800), 700) == 900
    assert memory.usable(0, Reading(1000, 0), 0) == 0


def test_a_small_machine_gets_a_small_state_cache():
    """An eighth of what there is, or what was set."""
    assert (memory.cache_bytes(512, 10_000), memory.cache_bytes(512, 800)) == (512, 100)


def test_meminfo():
    """KiB become bytes; MemAvailable, not MemFree, is what can be had."""
    text = "MemTotal:       1000 kB\nMemFree:   1 kB\nMemAvailable:    400 kB\nHugePages_Total:   0\n"
    assert machine.from_meminfo(text) == Reading(1000 * 1024, 400 * 1024)


def group(folder: Path, **files: str):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_cgroup_version_2(tmp_path):
    """Every group up to the root counts; "max" is none; the cache of files is available."""
    (tmp_path / "self").write_text("0::/outer/inner\n")
    root = tmp_path / "fs"
    stat = "anon 600\ninactive_file 150\n"
    group(root, memory__max="max\n")
    group(root / "outer", memory__max="1000\n", memory__current="700\n", memory__stat=stat)
    group(root / "outer" / "inner", memory__max="800\n", memory__current="100\n")
    assert machine.cgroups(tmp_path / "self", root) == [Reading(800, 700), Reading(1000, 450)]


def test_cgroup_version_1_inside_a_container(tmp_path):
    """The host's path is not there: the container's own limit lies at the root of the memory controller."""
    (tmp_path / "self").write_text("4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n")
    root = tmp_path / "fs"
    limit = {"memory__limit_in_bytes": "900\n", "memory__usage_in_bytes": "300\n"}
    group(root / "memory", **limit, memory__stat="total_inactive_file 100\n")
    assert machine.cgroups(tmp_path / "self", root) == [Reading(900, 700)]


def test_cgroup_without_a_limit(tmp_path):
    """Version 1 writes none as a huge number; a machine without cgroups has none either."""
    (tmp_path / "self").write_text("4:memory:/\n")
    group(tmp_path / "fs" / "memory", memory__limit_in_bytes="9223372036854771712\n")
    assert machine.cgroups(tmp_path / "self", tmp_path / "fs") == []
    assert machine.cgroups(tmp_path / "nothing", tmp_path / "fs") == []


def test_this_machine():
    """Some memory is there, and no more of it is available than there is."""
    reading = machine.read()
    assert 0 < reading.available <= reading.total
