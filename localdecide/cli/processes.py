"""CPU time of a server on this machine, seen from outside: the process that listens on a port and its children.

Read from /proc; where there is none, or the process is another user's, nothing is known.
"""

from __future__ import annotations

import os
from pathlib import Path

PROC = Path("/proc")
_LISTENING = "0A"


def listener(port: int) -> int | None:
    """The process that listens on TCP `port`, of those this user may look into."""
    inodes = set()
    for table in ("tcp", "tcp6"):
        for line in _text(PROC / "net" / table).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                inodes.add(f"socket:[{fields[9]}]")
    if not inodes:
        return None
    for process in _numbered(PROC):
        for link in _numbered(process / "fd"):
            try:
                if os.readlink(link) in inodes:
                    return int(process.name)
            except OSError:
                continue
    return None


def tree(root: int) -> list[int]:
    """`root` and all processes that descend from it."""
    parents: dict[int, int] = {}
    for process in _numbered(PROC):
        # The name in brackets may hold spaces and brackets of its own.
        fields = _text(process / "stat").rpartition(")")[2].split()
        if fields:
            parents[int(process.name)] = int(fields[1])
    found = [root]
    for process_id in found:  # grows while it is walked
        found += [child for child, parent in parents.items() if parent == process_id]
    return found


def cpu_seconds(root: int) -> float:
    """CPU seconds that the living threads of `root` and its descendants have used."""
    return sum(_seconds(PROC / str(process_id)) for process_id in tree(root))


def _seconds(process: Path) -> float:
    """Nanoseconds of the scheduler where it keeps them; `stat` counts in hundredths of a second."""
    spent = [_text(task / "schedstat").split()[:1] for task in _numbered(process / "task")]
    if any(spent):
        return sum(int(first[0]) for first in spent if first) / 1e9
    fields = _text(process / "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def _numbered(folder: Path) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if entry.name.isdigit()]
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
