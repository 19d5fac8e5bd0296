"""The runner, with compute time as CPU seconds of the model's thread: what of its CPU is not the path around the model.

Started by `fake_daemon.py`.
"""

from __future__ import annotations

import time
from types import SimpleNamespace

from localdecide.runner import loaded, pipe

if __name__ == "__main__":
    assert loaded.time is time  # its clock, which the next line puts another in the place of
    loaded.time = SimpleNamespace(perf_counter=time.thread_time)  # type: ignore[assignment]
    pipe.main()
