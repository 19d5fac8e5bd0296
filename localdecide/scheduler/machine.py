"""What memory this machine, or the container this process is in, has and has free."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

# Where the system tells only how much there is, this part of it counts as free.
FREE_GUESS = 0.75
# cgroup v1 writes "no limit" as a number near 2**63.
UNLIMITED = 1 << 60


@dataclass(frozen=True, slots=True)
class Reading:
    """Bytes. available: what can be had without swapping."""

    total: int
    available: int

    def within(self, other: Reading) -> Reading:
        """Both bounds at once."""
        return Reading(min(self.total, other.total), min(self.available, other.available))


def read() -> Reading:
    """The reading of this machine, now."""
    if sys.platform == "win32":
        return _windows()
    try:
        reading = from_meminfo(Path("/proc/meminfo").read_text())
    except (OSError, KeyError, ValueError):
        return _posix()
    for limit in cgroups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")):
        reading = reading.within(limit)
    return reading


def from_meminfo(text: str) -> Reading:
    """The reading in the text of /proc/meminfo, whose numbers are KiB. Raises KeyError, ValueError."""
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    total, available = (int(fields[name].split()[0]) * 1024 for name in ("MemTotal", "MemAvailable"))
    return Reading(total, available)


def cgroups(membership: Path, root: Path) -> list[Reading]:
    """The limits that hold for a process, from its group up to the root; both versions of cgroups.

    membership: its /proc/<pid>/cgroup. root: where cgroups are mounted. Memory that only holds the cache
    of files counts as available: the kernel takes it back before it refuses any.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return []
    readings: list[Reading] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            readings += _walk(root, path, "memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            v1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            readings += _walk(root / "memory", path, *v1)
    return readings


def _walk(root: Path, path: str, limit_file: str, usage_file: str, cache_key: str) -> list[Reading]:
    folder = root / path.strip("/")
    # Inside a container the path may be the host's, which is not there; the container's own group is the root.
    folders = [folder, *folder.parents] if folder.is_dir() else [root]
    readings = []
    for group in folders:
        if (limit := _number(group / limit_file)) is not None and limit < UNLIMITED:
            usage = (_number(group / usage_file) or 0) - _statistic(group / "memory.stat", cache_key)
            readings.append(Reading(limit, max(0, limit - max(0, usage))))
        if group == root:
            break
    return readings


def _number(path: Path) -> int | None:
    try:
        text = path.read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _statistic(path: Path, key: str) -> int:
    try:
        fields = dict(line.split(" ", 1) for line in path.read_text().splitlines() if " " in line)
    except OSError:
        return 0
    return int(fields.get(key, "0"))


def _posix() -> Reading:
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return Reading(total, int(total * FREE_GUESS))


def _windows() -> Reading:
    class Status(ctypes.Structure):
        # MEMORYSTATUSEX of the Windows API.
        _fields_ = (
            ("length", ctypes.c_uint32),
            ("load", ctypes.c_uint32),
            ("total", ctypes.c_uint64),
            ("available", ctypes.c_uint64),
            ("rest", ctypes.c_uint64 * 5),
        )

    status = Status(length=ctypes.sizeof(Status))
    windll = ctypes.windll  # type: ignore[attr-defined,unused-ignore]
    if not windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):
        raise OSError("GlobalMemoryStatusEx failed")
    return Reading(int(status.total), int(status.available))
