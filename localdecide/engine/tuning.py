"""Sizes, threads and switches of an engine, each with the reason it was chosen."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from localdecide.engine.kernels import TILE, Kernels
from localdecide.engine.parts import Parts
from localdecide.engine.schedule import WAVE_TOKENS

DEFAULT_CONTEXT = 4096
GPU_UBATCH = 512
DEFAULT_STEP = 128
BRANCHES = 61
HYBRID_BRANCHES = 5
MOST_SEQUENCES = 256  # llama.cpp's own limit
OUTPUTS = 64
LARGEST_BATCH = 2048


@dataclass(frozen=True, slots=True)
class Tuning:
    """context: tokens of one prompt. parts: in which a state is read.

    parallel: requests that share decode calls. branches: of each of them. reasons: why, by name, for
    `show` and `doctor`.
    """

    context: int
    batch: int
    ubatch: int
    parts: Parts
    threads: int
    parallel: int
    branches: int
    flash_attention: str
    kv_type: str
    kernels: Kernels | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """KV cells: for each request a whole prompt, and a wave of branches on top of it."""
        return self.parallel * (self.context + 2 * WAVE_TOKENS)

    @property
    def sequences(self) -> int:
        """A state, a spine and branches for each request, and one for padding."""
        return self.parallel * (2 + self.branches) + 1

    @property
    def outputs(self) -> int:
        """Rows that one call may read."""
        return min(self.parallel * OUTPUTS, 4 * OUTPUTS)

    def padding(self, rows: int, depth: int) -> int:
        """Rows to add to a call of `rows` rows behind `depth` tokens, so that it takes the least time."""
        if self.kernels is None or self.flash_attention != "on":
            return 0
        padding = self.kernels.padding(rows, depth)
        return padding if rows + padding <= self.ubatch else 0


def choose(
    parameters: Mapping[str, Any],
    environment: Mapping[str, str],
    *,
    trained_context: int,
    hybrid: bool,
    whole: bool,
    gpu: bool,
    windowed: bool = False,
    parallel: int = 1,
    kernels: Kernels | None = None,
) -> Tuning:
    """parameters: PARAMETER values. trained_context: what the file says, 0 if nothing.

    whole: every prompt must fit one ubatch (bidirectional models). gpu: whether the build offers one.
    windowed: whether layers see the last tokens only.
    parallel: requests that may share decode calls. kernels: what was measured on the CPU, if anything.
    """
    reasons: dict[str, str] = {}
    if given := int(parameters.get("num_ctx") or 0):
        context = given
        reasons["num_ctx"] = "PARAMETER num_ctx"
    else:
        context = min(trained_context or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
        reasons["num_ctx"] = "the default" if context == DEFAULT_CONTEXT else "what the model was trained for"
    threads, reasons["num_thread"] = _threads(parameters, environment, kernels)
    flash, reasons["flash_attention"] = _flash_attention(parameters, gpu, hybrid, kernels)
    least = TILE if flash == "on" and not hybrid else 0
    if whole:
        step = ubatch = max(context, int(parameters.get("num_ubatch") or 0))
        reasons["num_ubatch"] = "a bidirectional prompt must be read in one piece"
    elif "num_ubatch" in parameters:
        ubatch = int(parameters["num_ubatch"])
        # The last part of a state may be longer than the others, by less than `least`.
        step = ubatch - least if ubatch >= 2 * least else ubatch
        reasons["num_ubatch"] = "PARAMETER num_ubatch"
    elif gpu:
        step = ubatch = GPU_UBATCH
        reasons["num_ubatch"] = "what llama.cpp takes on a GPU"
    else:
        step = kernels.ubatch if kernels else DEFAULT_STEP
        ubatch = max(WAVE_TOKENS, step + least)
        reasons["num_ubatch"] = kernels.reasons["num_ubatch"] if kernels else "the default"
    if hybrid or whole or windowed:
        parallel = 1
        reasons["parallel"] = "recurrent models, attention windows and reading both ways share no decode calls"
    else:
        parallel = max(1, min(parallel, MOST_SEQUENCES // 4))
        reasons["parallel"] = "LOCALDECIDE_NUM_PARALLEL"
    batch = max(ubatch, int(parameters.get("num_batch") or 0), min(parallel * ubatch, LARGEST_BATCH))
    kv_type = str(parameters.get("kv_cache_type", "f16"))
    given_type = "kv_cache_type" in parameters
    # Measured on a prefill of SmolLM2: f32 1.12 times the time; quantised ones 2 to 4 times, and refused.
    reasons["kv_cache_type"] = "PARAMETER kv_cache_type" if given_type else "half the memory of f32, and faster"
    reasons["openmp_wait"] = "threads that spin while they wait take the CPUs from each other on a busy machine"
    reasons["blas_threads"] = "the products of heads are too small to share out"
    branches = HYBRID_BRANCHES if hybrid else min(BRANCHES, (MOST_SEQUENCES - 1) // parallel - 2)
    least = least if step + least <= ubatch and not whole else 0
    # A state that is read in one piece, or by a GPU, has parts of one size.
    parts = Parts(step, least, kernels.doubling if kernels and not (whole or gpu) else 0)
    return Tuning(context, batch, ubatch, parts, threads, parallel, branches, flash, kv_type, kernels, reasons)


def _flash_attention(
    parameters: Mapping[str, Any], gpu: bool, hybrid: bool, kernels: Kernels | None
) -> tuple[str, str]:
    given = str(parameters.get("flash_attention", "auto"))
    if given != "auto":
        return given, "PARAMETER flash_attention"
    if gpu:
        return "auto", "llama.cpp decides on a GPU"
    if hybrid:
        return "off", "branches of a recurrent model are short, and the CPU's kernel for it needs many rows"
    if kernels is None:
        return "on", "the default"
    return "on" if kernels.flash_attention else "off", kernels.reasons["flash_attention"]


def _threads(parameters: Mapping[str, Any], environment: Mapping[str, str], kernels: Kernels | None) -> tuple[int, str]:
    given, reason = given_threads(parameters, environment)
    if given:
        return given, reason
    if kernels is not None:
        return kernels.threads, kernels.reasons["num_thread"]
    return default_threads(), "physical cores this process may use"


def given_threads(parameters: Mapping[str, Any], environment: Mapping[str, str]) -> tuple[int, str]:
    """Threads that somebody asked for, and where; 0 for nobody."""
    if given := int(parameters.get("num_thread") or 0):
        return given, "PARAMETER num_thread"
    if (text := environment.get("LOCALDECIDE_NUM_THREADS", "").strip()).isdigit() and int(text):
        return int(text), "LOCALDECIDE_NUM_THREADS"
    return 0, ""


def default_threads() -> int:
    """The cores this process may use, second threads of a core left out."""
    allowed = usable_cpus()
    return max(1, min(physical_cores() or allowed, allowed))


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
