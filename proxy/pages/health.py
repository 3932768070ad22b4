"""True if the gateway lives, whether it can take calls, and its metrics."""

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse


def router(
    troubles: Callable[[], Sequence[str]],
    notes: Callable[[], Sequence[str]],
    metrics: Callable[[], bytes],
) -> APIRouter:
    """The routes for probes and Prometheus; they need no key and tell no secrets.

    Args:
        troubles: Why no calls can be taken.
        notes: What an operator should know though calls can be taken.
        metrics: Prometheus text.
    """
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """That the process answers."""
        return {"status": "ok"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        """True if calls can be taken, with notes if there are; 503 with what is not ready."""
        found = list(troubles())
        content = {"status": "not ready" if found else "ready", "troubles": found}
        if said := list(notes()):
            content["notes"] = said
        return JSONResponse(content, status_code=503 if found else 200)

    @routes.get("/metrics")
    async def metrics_page() -> Response:
        """Prometheus text."""
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
