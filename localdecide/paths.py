"""Where things lie: models, state, logs, run. Every folder comes from platformdirs or a setting."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs


def models() -> Path:
    """The model store: LOCALDECIDE_MODELS or the user's data folder."""
    given = os.environ.get("LOCALDECIDE_MODELS", "").strip()
    return Path(given).expanduser() if given else Path(platformdirs.user_data_path("localdecide")) / "models"


def state() -> Path:
    """What the daemon remembers between runs (benchmarks of this machine, history)."""
    return Path(platformdirs.user_state_path("localdecide"))


def logs() -> Path:
    """Log files of a daemon that a command started."""
    return Path(platformdirs.user_log_path("localdecide"))


def run() -> Path:
    """Pid files and locks of running daemons.

    Not the runtime folder of the platform: containers and services often have none, which costs a warning a call.
    """
    return state() / "run"


def library() -> Path:
    """The folder `modelfiles/`: beside the package in a checkout, inside it when installed."""
    inside = Path(__file__).parent / "modelfiles"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "modelfiles"
