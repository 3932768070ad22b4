"""Whether the gateway lives, whether it can take calls, and its metrics."""

from collections.abc import Callable, Sequence

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse


def router(troubles: Callable[[], Sequence[str]], metrics: Callable[[], bytes]) -> APIRouter:
    """The routes for probes and Prometheus; they need no key and tell no secrets."""
    routes = APIRouter()

    @routes.get("/healthz")
    async def healthz() -> dict[str, str]:
        """That the process answers."""
        return {"status": "ok"}

    @routes.get("/readyz")
    async def readyz() -> JSONResponse:
        """Whether calls can be taken; 503 with what is not ready otherwise."""
        found = list(troubles())
        content = {"status": "not ready" if found else "ready", "troubles": found}
        return JSONResponse(content, status_code=503 if found else 200)

    @routes.get("/metrics")
    async def metrics_page() -> Response:
        """Prometheus text."""
        return Response(metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return routes
