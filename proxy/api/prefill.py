"""Warming: the engine replica that will get a call reads its prompt while it is still being typed.

``POST /v1/thriftgate/prefill`` takes the body of a chat, Responses or Messages call as it is so
far. It is served as one for a single token that only the engine's own replicas may answer, so that
budgets hold it, the ledger keeps it, and routing sends the call itself to the same replica. A newer
one of the same conversation cancels the earlier one. Live calls come first, see `prefill_replicas`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import msgspec

from proxy.calls.eligibility.eligibility import CHAT, RESPONSES
from proxy.calls.ports import Dependencies
from proxy.catalog.catalog import Catalog
from proxy.errors import CallerError
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import parse_request_fields

#: Path below ``/v1/``.
PREFILL: Final = "thriftgate/prefill"
#: Bytes of prompts that a team may have warmed in a minute, about a million tokens, and those that
#: may be warmed at once by all.
MAX_BYTES_PER_MINUTE: Final = 4 * 1024 * 1024
MAX_AT_ONCE: Final = 16
#: Of these, those of one team.
MAX_AT_ONCE_OF_TEAM: Final = 4
_MINUTE_S: Final = 60.0
_MAX_TEAMS: Final = 10_000
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class PrefillRequests:
    """The prompts that are being warmed, and how much each team warmed in the last minute."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        self._ticks = ticks
        self._newest: dict[tuple[str, str, str], asyncio.Event] = {}
        self._spent: dict[str, tuple[float, int]] = {}

    @contextmanager
    def admit(self, call: Call) -> Iterator[asyncio.Event]:
        """A block in which a prompt is warmed; yields what is set once a newer one comes.

        Raises:
            CallerError: If the team has warmed too much, or too many are warmed at once.
        """
        self._spend(call)
        place = (call.key.team, call.key.id, call.conversation or call.session)
        superseded = asyncio.Event()
        if earlier := self._newest.get(place):
            earlier.set()
        elif len(self._newest) >= MAX_AT_ONCE:
            raise _refusal("Too many prompts are being warmed at once.", 1.0)
        elif sum(team == call.key.team for team, *_ in self._newest) >= MAX_AT_ONCE_OF_TEAM:
            raise _refusal("Your team has too many prompts warmed at once.", 1.0)
        self._newest[place] = superseded
        try:
            yield superseded
        finally:
            if self._newest.get(place) is superseded:
                del self._newest[place]

    def _spend(self, call: Call) -> None:
        now, size = self._ticks(), len(call.body)
        began, spent = self._spent.pop(call.key.team, (now, 0))
        if now - began >= _MINUTE_S:
            began, spent = now, 0
        is_over = spent + size > MAX_BYTES_PER_MINUTE
        self._spent[call.key.team] = (began, spent if is_over else spent + size)
        if len(self._spent) > _MAX_TEAMS:
            del self._spent[next(iter(self._spent))]
        if is_over:
            what = f"Your team warmed {MAX_BYTES_PER_MINUTE >> 20} MiB of prompts in this minute."
            raise _refusal(what, began + _MINUTE_S - now)


def call_of_prompt(call: Call) -> Call:
    """The call whose prompt a body of this endpoint is: of chat, Responses or Messages.

    A Messages body has a ``system`` field, or comes with the header ``anthropic-version``.

    Raises:
        CallerError: If the body cannot be read.
    """
    if call.method != "POST":
        raise CallerError("Send a POST.", code="method_not_allowed", status=405)
    parse_request_fields(call.body)  # says what is wrong with it
    fields = _fields(call.body)
    endpoint = MESSAGES if call.speaks_messages or "system" in fields else CHAT
    if "input" in fields and "messages" not in fields:
        endpoint = RESPONSES
    return msgspec.structs.replace(call, endpoint=endpoint)


def engine_dependencies(deps: Dependencies, model: str) -> Dependencies:
    """Dependencies with which only engines' replicas answer the model.

    Raises:
        CallerError: If no engine serves it: a provider would be paid for nothing.
    """
    catalog: Catalog = deps.catalog
    entry = catalog.find(model)
    routes = tuple(route for route in entry.routes if route.upstream.engine) if entry else ()
    if entry is None or not routes:
        raise CallerError(
            f"No engine of this gateway serves the model {model[:100]}, so nothing is warmed."
            " Send the name of a model that an engine profile serves.",
            code="not_an_engine",
            param="model",
        )
    only = replace(entry, routes=routes, fallbacks=(), when_too_long=())
    return replace(
        deps, catalog=replace(catalog, models={**catalog.models, entry.id: only}), router=None
    )


def until_gone_or_superseded(
    gone: Callable[[], Coroutine[Any, Any, object]], superseded: asyncio.Event
) -> Callable[[], Coroutine[Any, Any, None]]:
    """A wait that ends once the caller has left, or a newer prompt has come."""

    async def wait() -> None:
        tasks = [asyncio.ensure_future(gone()), asyncio.ensure_future(superseded.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    return wait


def superseded_error() -> CallerError:
    """Answers a prompt that a call or a newer prompt took the place of."""
    return CallerError(
        "A call at its replica, or a newer prompt, took the place of this one.",
        code="superseded",
        status=409,
    )


def _refusal(what: str, retry_after: float) -> CallerError:
    return CallerError(
        f"{what} Send the call itself, or try again later.",
        code="warming_limit",
        status=429,
        retry_after=retry_after,
    )
