"""GET /v1/models: what a caller may ask for."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request

from proxy.call import Key
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import NotFound

Authenticate = Callable[[Request], Awaitable[Key]]


def router(catalog: Catalog, authenticate: Authenticate) -> APIRouter:
    """The routes that list the catalog's models."""
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.get("/v1/models")
    async def models(key: caller) -> dict[str, Any]:
        """All models, in the catalog's order."""
        return {"object": "list", "data": [_shown(model) for model in catalog.models.values()]}

    @routes.get("/v1/models/{name:path}")
    async def model(name: str, key: caller) -> dict[str, Any]:
        """One model."""
        found = catalog.find(name)
        if found is None:
            raise NotFound(
                f"The model `{name[:100]}` is not in the gateway's catalog."
                " GET /v1/models lists what is.",
                code="model_not_found",
                param="model",
            )
        return _shown(found)

    return routes


def _shown(model: Model) -> dict[str, Any]:
    """A model as OpenAI shows one.

    Source: OpenAI API reference, the model object (2026-11).
    """
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.routes[0].upstream.provider or model.routes[0].upstream.name,
    }
