"""A daemon without a model for client tests: `python serve_fake.py [KEY]` prints its port and serves.

Its answers are fixed, so a client's own reading of them can be compared to the last digit.
"""

from __future__ import annotations

import asyncio
import sys

from localdecide import settings
from localdecide.server import run, sockets
from localdecide.server.fake_service import FakeService

READINGS = {
    "Which team?": (0.9, 0.1),
    "Needs a reply today.": (0.8, 0.2),
    "How angry?": (0.3, 0.7),
}


async def main() -> None:
    """Serves until it is killed or told to end."""
    loaded = settings.load({}, host="127.0.0.1:0", api_key=sys.argv[1] if len(sys.argv) > 1 else "")
    listening = sockets.open_sockets(loaded, {})
    sys.stdout.write(f"{listening[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await run.run(FakeService(readings=READINGS, names=["m", "n"]), loaded, listening)


if __name__ == "__main__":
    asyncio.run(main())
