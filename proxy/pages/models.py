"""GET /v1/models: the models that a caller may ask for and that can answer now."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request

from proxy.api.messages_api import speaks_messages
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.errors import CallerError
from proxy.records.call import Key

#: Models on a page of Anthropic's list, and the most that one may ask for.
#: Source: Anthropic API, list models (2026-11).
_USUAL_PAGE, _LARGEST_PAGE = 20, 1000
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_YES: Final = frozenset({"1", "true", "yes"})

Authenticate = Callable[[Request], Awaitable[Key]]


def router(
    catalog: Callable[[], Catalog], authenticate: Authenticate, can_answer: Callable[[Model], bool]
) -> APIRouter:
    """The routes that list the models of the catalog in force."""
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.get("/v1/models")
    async def models(request: Request, key: caller) -> dict[str, Any]:
        """The models that can answer now, in the catalog's order; ``?all=1`` lists the rest too."""
        wants_all = request.query_params.get("all", "0").lower() in _YES
        visible = catalog().for_team(key.team_name)
        names = dict.fromkeys((*visible.models, *visible.aliases.names))
        listed = [
            _as_named(entry, name, visible)
            for name in names
            if (entry := visible.find(name)) is not None
            and (wants_all or can_answer(entry))
            and (key.models is None or entry.id in key.models)
        ]
        if speaks_messages(request.scope):
            return _messages_page(listed, request.query_params)
        return {"object": "list", "data": [_model_object(model) for model in listed]}

    @routes.get("/v1/models/{name:path}")
    async def model(name: str, request: Request, key: caller) -> dict[str, Any]:
        """One model."""
        visible = catalog().for_team(key.team_name)
        entry = visible.find(name)
        if entry is None:
            raise CallerError(
                f"The model `{name[:100]}` is not in the gateway's catalog."
                " GET /v1/models?all=1 lists what is.",
                code="model_not_found",
                param="model",
                status=404,
            )
        entry = _as_named(entry, name, visible)
        return _messages_model(entry) if speaks_messages(request.scope) else _model_object(entry)

    return routes


def _as_named(model: Model, name: str, catalog: Catalog) -> Model:
    """The model under the name of the alias by which it was found."""
    return replace(model, id=name) if catalog.aliases.target(name) else model


def _model_object(model: Model) -> dict[str, Any]:
    """A model as OpenAI shows one.

    Source: OpenAI API reference, the model object (2026-11).
    """
    shown: dict[str, Any] = {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.routes[0].upstream.provider or model.routes[0].upstream.name,
    }
    if assumed := model.routes[0].assumed_price_of:
        shown["price_assumed_from"] = assumed
    return shown


def _messages_model(model: Model) -> dict[str, Any]:
    """A model as Anthropic shows one.

    A model whose end is announced is deprecated; when that was announced is not known.

    Source: Anthropic API, get a model; anthropic 2.11, ModelInfo (2026-11).
    """
    route, end = model.routes[0], model.retires
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.id,
        "created_at": datetime.fromtimestamp(model.created, UTC).strftime(_TIME),
        "lifecycle": "active" if end is None else "deprecated",
        "deprecated_at": None,
        "retires_at": end and datetime(end.year, end.month, end.day, tzinfo=UTC).strftime(_TIME),
        "line": None,
        "capabilities": None,
        "max_input_tokens": route.window,
        "max_tokens": route.max_output,
    }


def _messages_page(models: Sequence[Model], params: Mapping[str, str]) -> dict[str, Any]:
    """A page of models as Anthropic lists them, behind ``after_id`` or before ``before_id``.

    Source: Anthropic API, list models (2026-11).
    """
    limit = params.get("limit", str(_USUAL_PAGE))
    if not limit.isdecimal() or not 1 <= int(limit[:5]) <= _LARGEST_PAGE:
        raise CallerError(
            f"`limit` must be a number from 1 to {_LARGEST_PAGE}.",
            code="invalid_value",
            param="limit",
        )
    names = [model.id for model in models]
    size, after, before = int(limit), params.get("after_id"), params.get("before_id")
    if before in names:
        end = names.index(before)
        start, has_more = max(0, end - size), end > size
    else:
        start = names.index(after) + 1 if after in names else 0
        end = start + size
        has_more = end < len(names)
    shown = models[start:end]
    return {
        "data": [_messages_model(model) for model in shown],
        "has_more": has_more,
        "first_id": shown[0].id if shown else None,
        "last_id": shown[-1].id if shown else None,
    }
