"""Translates the model names in a batch of Messages calls to those of the batch's upstream.

A batch goes whole to one upstream. A team's alias becomes the upstream's name for its model. A
batch with an alias for a model that this upstream does not serve is refused: a request sent
elsewhere would be missing among its results. Names that are no aliases are sent even if the
catalog lists them for other upstreams alone.

Source: Anthropic API, create a message batch (2026-11).
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Upstream
from proxy.errors import CallerError
from proxy.prefix.prompts.objects import (
    Unplannable,
    elements,
    members,
    write_list,
    write_object,
)
from proxy.records.amounts import quantity
from proxy.records.call import MESSAGES, Call

BATCHES: Final = f"{MESSAGES}/batches"
_REQUESTS: Final = "requests"
_PARAMS: Final = "params"
_MAX_NAME_CHARS: Final = 100
#: Renamed models that a note lists; a batch may have one for each request.
_MAX_NOTED_NAMES: Final = 8


class _BatchedParams(msgspec.Struct):
    model: Any = None


class _BatchedRequest(msgspec.Struct):
    params: _BatchedParams


class _Batch(msgspec.Struct):
    requests: list[_BatchedRequest]


_batch: Final = msgspec.json.Decoder(_Batch).decode


async def with_batch_models(call: Call, catalog: Catalog, upstream: Upstream) -> Call:
    """The call; in a new batch, models have the upstream's names, and all else is unchanged.

    A batch that cannot be read is sent unmodified: its provider explains what is wrong.

    Args:
        catalog: As the call's team sees it.

    Raises:
        CallerError: If an alias in the batch means a model that the upstream does not serve.
    """
    if call.endpoint != BATCHES or call.method != "POST" or not upstream.speaks_messages:
        return call
    # A thread: a batch of many small requests takes milliseconds.
    return await asyncio.to_thread(_name_models, call, catalog, upstream)


def _name_models(call: Call, catalog: Catalog, upstream: Upstream) -> Call:
    requested = _requested_models(call.body)
    names = {name: _upstream_name(name, catalog, upstream) for name in {*requested}}
    changed = {
        name: upstream_name for name, upstream_name in names.items() if upstream_name != name
    }
    if "" in changed.values():
        places = [index for index, name in enumerate(requested) if changed.get(name) == ""]
        raise _refusal(requested[places[0]], places, catalog, upstream)
    if not changed:
        return call
    try:
        body = _with_names(call.body, requested, changed)
    except Unplannable:  # a key that is no text
        return call
    return msgspec.structs.replace(call, body=body, notes=(*call.notes, _note(changed)))


def _note(changed: Mapping[str, str]) -> str:
    first = sorted(changed.items())[:_MAX_NOTED_NAMES]
    names = ", ".join(
        f"{name[:_MAX_NAME_CHARS]} to {upstream_name}" for name, upstream_name in first
    )
    more = len(changed) - len(first)
    return f"renamed models: {names}" + (f", and {quantity(more, 'more name')}" if more else "")


def _requested_models(body: bytes) -> list[str]:
    """The model of each request, "" if it names none; an empty list for an unreadable body."""
    try:
        models = [request.params.model for request in _batch(body).requests]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return [name if isinstance(name, str) else "" for name in models]


def _upstream_name(name: str, catalog: Catalog, upstream: Upstream) -> str:
    """The name that is sent for a model; "" if it is an alias for a model served elsewhere.

    A listed model of another upstream keeps its name, because this upstream may serve it, too.
    """
    is_alias = catalog.aliases.target(name) not in {"", name}
    model = catalog.find(name) if name else None
    routes = model.routes if model is not None else ()
    route = next(
        (candidate for candidate in routes if candidate.upstream.name == upstream.name), None
    )
    if model is not None and route is not None:
        return route.model or (model.id if is_alias else name)
    return "" if is_alias else name


def _refusal(name: str, places: Sequence[int], catalog: Catalog, upstream: Upstream) -> CallerError:
    """The refusal of a batch with aliases for models that its upstream lacks; names the first."""
    param = f"{_REQUESTS}[{places[0]}].{_PARAMS}.model"
    more = f" Also affected: {quantity(len(places) - 1, 'more request')}." * (len(places) > 1)
    return CallerError(
        f"`{param}`: {name[:_MAX_NAME_CHARS]} is your team's alias for"
        f" {catalog.aliases.target(name)}, which {upstream.name} does not serve. All requests of a"
        f" batch are sent to {upstream.name}.{more} Name a model that {upstream.name} serves, or"
        f" send such requests to /v1/{MESSAGES}.",
        code="unsupported_endpoint",
        param=param,
    )


def _with_names(body: bytes, models: Sequence[str], changed: Mapping[str, str]) -> bytes:
    """The body with the upstream's names; every other value is byte for byte the caller's."""
    fields = members(body)
    requests = [
        _rename_model(raw, changed[name]) if name in changed else raw
        for name, raw in zip(models, elements(fields[_REQUESTS]), strict=True)
    ]
    return write_object({**fields, _REQUESTS: write_list(requests)})


def _rename_model(request: bytes, model: str) -> bytes:
    fields = members(request)
    params = {**members(fields[_PARAMS]), "model": msgspec.json.encode(model)}
    return write_object({**fields, _PARAMS: write_object(params)})
