"""The daemon with runners that open the fake engine whatever the model: everything but the model's own work.

Started by `path.py` as a child with the settings in its environment.
"""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

from localdecide import settings
from localdecide.core.model import ModelSpec
from localdecide.local import LocalService
from localdecide.scheduler.process import RunnerProcess
from localdecide.server import run, sockets
from localdecide.server.main import fast_loop, keep_turning


def fake_runner(spec: ModelSpec, options: dict[str, Any], **rest: Any) -> RunnerProcess:
    command = ("-m", "tests.bench.fake_runner")
    return RunnerProcess(dataclasses.replace(spec, path="fake:"), options, command=command, **rest)


async def serve(configured: settings.Settings) -> None:
    service = LocalService(configured, make_runner=fake_runner)
    keep_turning()
    await run.run(service, configured, sockets.open_sockets(configured))


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=fast_loop()) as runner:
        runner.run(serve(settings.load()))
