"""The checks of `localdecide doctor`, each a line with a status and, where something is to be done, a hint."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from localdecide import __version__, paths
from localdecide import settings as table
from localdecide.cli import human
from localdecide.cli.card import engine_rows
from localdecide.cli.client import Client, DaemonError, Interrupted, Unreachable
from localdecide.cli.start import log_path
from localdecide.settings import Settings

Status = Literal["ok", "warn", "fail"]

PROBE = ("-m", "localdecide.engine.probe")
PROBE_SECONDS = 60.0
LITTLE_SPACE = 2 * 10**9
REINSTALL = (
    "reinstall it with `CMAKE_ARGS={} pip install --force-reinstall --no-cache-dir "
    "--no-binary llama-cpp-python llama-cpp-python`"
)
# What llama.cpp calls a set of instructions, and what the kernel calls it.
FLAGS = {
    "AVX": "avx",
    "AVX2": "avx2",
    "FMA": "fma",
    "F16C": "f16c",
    "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One line. hint: what to do about it."""

    name: str
    status: Status
    text: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Built:
    """What the probe's child said, or in `problem` how it ended without saying anything."""

    facts: Mapping[str, Any] | None
    problem: str = ""
    detail: str = ""


def installation() -> list[Check]:
    """Version of this program, its Python and its system."""
    folder = Path(__file__).parents[1]
    installed = folder.parent.name in ("site-packages", "dist-packages")
    kind = "bundle" if getattr(sys, "frozen", False) else "installed" if installed else "checkout"
    python = f"Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    found = [Check("version", "ok", f"localdecide {__version__} ({kind} at {folder}), {python}")]
    if platform.system() == "Darwin" and platform.machine() == "x86_64" and "Apple" in platform.processor():
        found.append(Check("python", "warn", "this Python is translated by Rosetta", "use a Python built for arm64"))
    return found


def probe(command: tuple[str, ...] = PROBE, seconds: float = PROBE_SECONDS) -> Built:
    """Runs the probe. A library for another CPU ends its process, a driver may hang: both are told apart."""
    environment = dict(os.environ)
    home = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [home, environment.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, env=environment, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return Built(None, f"it did not answer in {seconds:.0f} s")
    if done.returncode < 0:
        name = signal.Signals(-done.returncode).name if -done.returncode in {*signal.Signals} else "a signal"
        reason = ": it was built for another CPU" if name == "SIGILL" else ""
        return Built(None, f"it crashed with {name} (signal {-done.returncode}){reason}")
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return Built(None, "it could not be loaded", last[0])
    return Built(json.loads(done.stdout))


def build(built: Built, cpu: frozenset[str] | None = None, gpu: str | None = None) -> list[Check]:
    """The binding, its backends and devices, and the CPU it was built for. cpu, gpu: instead of this machine's."""
    facts = built.facts
    if facts is None:
        said = f"llama.cpp: {built.problem}" + (f" ({built.detail})" if built.detail else "")
        return [Check("binding", "fail", said, REINSTALL.format("-DGGML_NATIVE=on"))]
    found = [
        Check("binding", "ok", f"llama-cpp-python {facts['binding']}, ggml {facts['ggml']}, {facts['library']}"),
    ]
    for device in facts["devices"]:
        room = f"{human.size(device['free'])} free of {human.size(device['total'])}"
        found.append(Check("backend", "ok", f"{device['type']}: {device['description']} ({device['name']}), {room}"))
    gpu = _gpu() if gpu is None else gpu
    if gpu and not facts["offload"]:
        name, flag = gpu.split("|")
        hint = REINSTALL.format(f"-D{flag}=on")
        found.append(Check("gpu", "warn", f"{name} is here, but this build computes on the CPU only", hint))
    return [*found, *_flags(facts["flags"], _cpu_flags() if cpu is None else cpu)]


def _flags(built: list[str], machine: frozenset[str]) -> list[Check]:
    if not machine:
        return [Check("cpu", "ok", f"the build uses {' '.join(built)}; what this CPU has is not known")]
    known = [name for name in FLAGS if name in built]
    foreign = [name for name in known if FLAGS[name] not in machine]
    unused = [name for name in FLAGS if name not in built and FLAGS[name] in machine]
    if foreign:
        text = f"the build uses {' '.join(foreign)}, which this CPU does not have: models will crash"
        return [Check("cpu", "fail", text, REINSTALL.format("-DGGML_NATIVE=on"))]
    if unused:
        text = f"the build does not use this CPU's {' '.join(unused)}: models are slower than they could be"
        return [Check("cpu", "warn", text, REINSTALL.format("-DGGML_NATIVE=on"))]
    return [Check("cpu", "ok", f"the build uses what this CPU has: {' '.join(known)}")]


def _cpu_flags() -> frozenset[str]:
    """What the kernel says of the first CPU; empty where it says nothing (no Linux, no x86)."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return frozenset()
    return frozenset(next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), []))


def _gpu() -> str:
    """A GPU that is here, and the build switch for it, as `name|switch`; empty for none that shows."""
    if Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi"):
        return "an NVIDIA GPU|GGML_CUDA"
    if Path("/dev/kfd").exists():
        return "an AMD GPU|GGML_HIP"
    if platform.system() == "Darwin" and platform.machine() == "arm64":
        return "an Apple GPU|GGML_METAL"
    return ""


def daemon(client: Client) -> list[Check]:
    """Whether it answers, in which version, and what it holds."""
    try:
        version = client.get("/api/version", timeout=5.0)["version"]
        loaded = [model["name"] for model in client.get("/api/ps", timeout=5.0)["models"]]
        shown = {name: client.post("/api/show", {"model": name}, timeout=30.0) for name in loaded}
    except Unreachable:
        text = f"none answers at {client.address}"
        return [Check("daemon", "warn", text, "commands start one, or run `localdecide serve`")]
    except (Interrupted, DaemonError, TypeError, KeyError, AttributeError) as error:
        text = f"{client.address} answers, but not as localdecide does: {error}"
        return [Check("daemon", "fail", text, "choose another address in `LOCALDECIDE_HOST`")]
    found = [Check("daemon", "ok", f"version {version} at {client.address}")]
    if version != __version__:
        text = f"the daemon at {client.address} is version {version}, this program is {__version__}"
        found = [Check("daemon", "warn", text, "`localdecide shutdown` ends it; the next command starts the new one")]
    for name, each in shown.items():
        # What was chosen for this model on this machine, and why.
        chosen = "; ".join(f"{choice} {value}" for choice, value in engine_rows(each))
        found.append(Check("loaded", "ok", f"{name}: {chosen}" if chosen else name))
    if not loaded:
        found.append(Check("loaded", "ok", "none"))
    return [*found, Check("log", "ok", str(log_path()))]


def folders(configured: str) -> list[Check]:
    """The model store: where it is, whether it can be written, what is free there."""
    folder = paths.models()
    there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    source = "LOCALDECIDE_MODELS" if configured else "the default"
    text = f"{folder} ({source})"
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return [Check("models", "fail", f"{text} cannot be written", "set `LOCALDECIDE_MODELS` to a folder of yours")]
    free = shutil.disk_usage(there).free
    if free < LITTLE_SPACE:
        text = f"{text}: only {human.size(free)} free"
        return [Check("models", "warn", text, "`localdecide rm` removes models, `LOCALDECIDE_MODELS` moves the store")]
    partials = folder / "partials"
    waiting = sum(1 for _ in partials.glob("*.journal")) if partials.is_dir() else 0
    broken = f", {waiting} unfinished download{'s' if waiting > 1 else ''}" if waiting else ""
    return [Check("models", "ok", f"{text}: {human.size(free)} free{broken}")]


def changed(configured: Settings) -> list[Check]:
    """Settings that differ from their defaults, and where each came from."""
    found = []
    for setting in table.TABLE:
        name = setting.name.lower()
        value = configured.values[name]
        if value != setting.parse(setting.default):
            shown = "set" if name == "api_key" else os.environ.get(setting.variable, str(value))
            source = configured.sources.get(name, "default")
            text = f"{setting.variable}={shown} (from the {source}; the default is {setting.default or 'empty'})"
            found.append(Check("setting", "ok", text))
    return found or [Check("settings", "ok", "all at their defaults")]
