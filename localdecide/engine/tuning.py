"""Sizes, threads and switches of an engine, each with the reason it was chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_CONTEXT = 4096
DEFAULT_UBATCH = 256
SEQUENCES = 64
HYBRID_SEQUENCES = 8
OUTPUTS = 64


@dataclass(frozen=True, slots=True)
class Tuning:
    """context: tokens of one prompt. reasons: why, by name, for `show` and `doctor`."""

    context: int
    batch: int
    ubatch: int
    threads: int
    sequences: int
    outputs: int
    flash_attention: str
    kv_type: str
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """KV cells: a whole prompt, and a wave of branches on top of it."""
        return self.context + 2 * self.ubatch


def choose(
    parameters: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    trained_context: int,
    hybrid: bool,
    whole: bool,
    gpu: bool,
) -> Tuning:
    """parameters: PARAMETER values. trained_context: what the file says, 0 if nothing.

    whole: every prompt must fit one ubatch (bidirectional models). gpu: whether the build offers one.
    """
    reasons: dict[str, str] = {}
    if given := int(parameters.get("num_ctx") or 0):
        context = given
        reasons["num_ctx"] = "PARAMETER num_ctx"
    else:
        context = min(trained_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        reasons["num_ctx"] = "the default" if context == DEFAULT_CONTEXT else "what the model was trained for"
    if whole:
        ubatch = max(context, int(parameters.get("num_ubatch") or 0))
        reasons["num_ubatch"] = "a bidirectional prompt must be read in one piece"
    else:
        ubatch = int(parameters.get("num_ubatch") or DEFAULT_UBATCH)
        reasons["num_ubatch"] = "PARAMETER num_ubatch" if "num_ubatch" in parameters else "fastest prefill on CPUs"
    batch = max(ubatch, int(parameters.get("num_batch") or 0))
    threads, reasons["num_thread"] = _threads(parameters, environment)
    flash, reasons["flash_attention"] = _flash_attention(parameters, gpu)
    kv_type = str(parameters.get("kv_cache_type", "f16"))
    reasons["kv_cache_type"] = "PARAMETER kv_cache_type" if "kv_cache_type" in parameters else "the default"
    sequences = HYBRID_SEQUENCES if hybrid else SEQUENCES
    return Tuning(context, batch, ubatch, threads, sequences, OUTPUTS, flash, kv_type, reasons)


def _flash_attention(parameters: Mapping[str, Any], gpu: bool) -> tuple[str, str]:
    given = str(parameters.get("flash_attention", "auto"))
    if given != "auto":
        return given, "PARAMETER flash_attention"
    if gpu:
        return "auto", "llama.cpp decides on a GPU"
    # Its CPU kernel is fast from 64 rows on and slow below; a question on a state that is decoded
    # already has fewer. Measured at 1000 tokens of state: 16 rows 4.1 times slower with it, 40 rows 4.6,
    # 64 rows 0.9, and a prefill 0.87.
    return "off", "questions have fewer rows than the CPU's kernel for it needs"


def _threads(parameters: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[int, str]:
    if given := int(parameters.get("num_thread") or 0):
        return given, "PARAMETER num_thread"
    if (text := environment.get("LOCALDECIDE_NUM_THREADS", "").strip()).isdigit() and int(text):
        return int(text), "LOCALDECIDE_NUM_THREADS"
    allowed = usable_cpus()
    cores = physical_cores() or allowed
    return max(1, min(cores, allowed)), "physical cores this process may use"


def usable_cpus() -> int:
    """CPUs this process may run on, a container's quota included."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return count
    return count if quota == "max" else max(1, min(count, round(int(quota) / int(period))))


def physical_cores() -> int:
    """Cores without their second threads; 0 where the system does not say."""
    pairs: set[tuple[str, str]] = set()
    for topology in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology"):
        try:
            package = (topology / "physical_package_id").read_text().strip()
            pairs.add((package, (topology / "core_id").read_text().strip()))
        except OSError:
            return 0
    if pairs:
        return len(pairs)
    return 0 if os.cpu_count() is None else (os.cpu_count() or 2) // (2 if os.name == "nt" else 1)
