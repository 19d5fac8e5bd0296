"""Whether the daemon can answer. Both routes ask the scheduler and the runners, not only the web server."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from localdecide.server.lifecycle import Lifecycle
from localdecide.server.output import JsonResponse
from localdecide.service import DecisionService

log = logging.getLogger(__name__)

# A scheduler that does not answer in this time would not answer a request either.
PATIENCE_SECONDS = 5.0


class Health:
    """`/healthz`: restart me if this fails. `/readyz`: send me nothing while this fails."""

    def __init__(self, service: DecisionService, lifecycle: Lifecycle) -> None:
        self.service = service
        self.lifecycle = lifecycle

    def routes(self) -> list[Route]:
        return [Route("/healthz", self.healthz), Route("/readyz", self.readyz)]

    async def healthz(self, request: Request) -> Response:
        found = await self.ask()
        return JsonResponse({"status": "ok" if found["ready"] else "failing", **found}, 200 if found["ready"] else 503)

    async def readyz(self, request: Request) -> Response:
        if self.lifecycle.closing:
            return JsonResponse({"status": "closing", "ready": False}, 503)
        return await self.healthz(request)

    async def ask(self) -> dict[str, Any]:
        """What the service says of itself; not ready where it does not answer."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                found = await self.service.health()
        except TimeoutError:
            return {"ready": False, "reason": f"no answer in {PATIENCE_SECONDS:g} s"}
        except Exception:
            log.exception("the health check failed")
            return {"ready": False, "reason": "the health check failed; the daemon's log has the details"}
        return {"ready": bool(found.get("ready")), **{name: found[name] for name in found if name != "ready"}}
