"""GET /v1/models: what a caller may ask for, and what of it can answer now."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import CallerError
from proxy.records.call import Key

_YES: Final = frozenset({"1", "true", "yes"})

Authenticate = Callable[[Request], Awaitable[Key]]


def router(
    catalog: Callable[[], Catalog], authenticate: Authenticate, can_answer: Callable[[Model], bool]
) -> APIRouter:
    """The routes that list the models of the catalog in force.

    Args:
        catalog: The models there are now.
        authenticate: Finds who asks.
        can_answer: True if a call to the model can be answered now.
    """
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.get("/v1/models")
    async def models(request: Request, key: caller) -> dict[str, Any]:
        """The models that can answer now, in the catalog's order; ``?all=1`` lists the rest too."""
        wants_all = request.query_params.get("all", "0").lower() in _YES
        listed = (model for model in catalog().models.values() if wants_all or can_answer(model))
        return {"object": "list", "data": [_model_object(model) for model in listed]}

    @routes.get("/v1/models/{name:path}")
    async def model(name: str, key: caller) -> dict[str, Any]:
        """One model."""
        found = catalog().find(name)
        if found is None:
            raise CallerError(
                f"The model `{name[:100]}` is not in the gateway's catalog."
                " GET /v1/models?all=1 lists what is.",
                code="model_not_found",
                param="model",
                status=404,
            )
        return _model_object(found)

    return routes


def _model_object(model: Model) -> dict[str, Any]:
    """A model as OpenAI shows one.

    Source: OpenAI API reference, the model object (2026-11).
    """
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.routes[0].upstream.provider or model.routes[0].upstream.name,
    }
