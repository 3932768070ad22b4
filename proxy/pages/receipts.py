"""/v1/thriftgate/calls/{id}, for the key that made the call: its usage and cost, and its end."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, Final, Protocol

import msgspec
from fastapi import APIRouter, Depends, Request

from proxy.api.connections.calls_under_way import CallsUnderWay
from proxy.errors import CallerError
from proxy.records.call import Key
from proxy.records.receipt import Receipt, dollars, total_nanos

#: Nothing else is looked for: it would cost a search of the journal.
_CALL_ID: Final = re.compile(r"call_[0-9a-f]{32}")

Authenticate = Callable[[Request], Awaitable[Key]]


class ReceiptReader(Protocol):
    """Finds receipts."""

    async def receipts(self, call_id: str, team: str) -> Sequence[Receipt]:
        """The receipts of a team's call, by attempt; none if it made no such call."""
        ...


def router(reader: ReceiptReader, authenticate: Authenticate) -> APIRouter:
    """The route that shows a receipt."""
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.get("/v1/thriftgate/calls/{call_id}")
    async def call(call_id: str, key: caller) -> dict[str, Any]:
        """The receipts of one call, and what it cost so far; another key's call is not found.

        The cost is null where that of one attempt is unknown.
        """
        team_receipts = (
            await reader.receipts(call_id, key.team) if _CALL_ID.fullmatch(call_id) else ()
        )
        receipts = [receipt for receipt in team_receipts if receipt.key_id == key.id]
        if not receipts:
            raise _no_call("This key made no call with this id.")
        cost = total_nanos(receipt.spent_nanos for receipt in receipts)
        return {
            "id": call_id,
            "cost_usd": None if cost is None else dollars(cost),
            "attempts": [_receipt_object(receipt) for receipt in receipts],
        }

    return routes


def ending_router(under_way: CallsUnderWay, authenticate: Authenticate) -> APIRouter:
    """The route that ends a call under way."""
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.delete("/v1/thriftgate/calls/{call_id}")
    async def end_call(call_id: str, key: caller) -> dict[str, Any]:
        """End a call as if its caller had left: what ran is billed.

        A call of another key, or of another process of the gateway, is not found.
        """
        if not under_way.end(call_id, key.id):
            raise _no_call("This key has no call with this id under way here.")
        return {"id": call_id, "ended": True}

    return routes


def _no_call(message: str) -> CallerError:
    return CallerError(message, code="call_not_found", status=404)


def _receipt_object(receipt: Receipt) -> dict[str, Any]:
    """A receipt with its money in dollars; null where the price is unknown."""
    shown: dict[str, Any] = msgspec.to_builtins(receipt)
    shown.pop("prompt", None)
    shown.pop("upstream_error", None)  # it may tell of the gateway's own account
    for name in ("list", "cost", *(["miss"] if receipt.miss else [])):
        nanos = getattr(receipt, f"{name}_nanos")
        shown.pop(f"{name}_nanos", None)
        shown[f"{name}_usd"] = None if nanos is None else dollars(nanos)
    return shown
