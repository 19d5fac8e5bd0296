"""The daemon with its default model for client tests: `python serve_real.py [KEY]` prints its port and serves."""

from __future__ import annotations

import asyncio
import sys

from localdecide import settings
from localdecide.local import LocalService
from localdecide.server import run, sockets


async def main() -> None:
    """Serves until it is killed or told to end."""
    loaded = settings.load(None, host="127.0.0.1:0", api_key=sys.argv[1] if len(sys.argv) > 1 else "")
    listening = sockets.open_sockets(loaded, {})
    sys.stdout.write(f"{listening[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await run.run(LocalService(loaded), loaded, listening)


if __name__ == "__main__":
    asyncio.run(main())
