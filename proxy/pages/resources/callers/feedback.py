"""POST /v1/thriftgate/feedback: how callers rate answers that a small model gave."""

from typing import Annotated, Any, Final, Literal

import msgspec
from fastapi import APIRouter, Depends, Request

from proxy.errors import CallerError
from proxy.pages.receipts import Authenticate
from proxy.records.call import Key
from proxy.services.fast_path.small_first import SmallFirstRouting

_MAX_BYTES: Final = 4_096


class Feedback(msgspec.Struct, frozen=True):
    """The rating of one call."""

    call_id: str
    rating: Literal["up", "down"]


_decode: Final = msgspec.json.Decoder(Feedback).decode


def feedback_router(small_first: SmallFirstRouting, authenticate: Authenticate) -> APIRouter:
    """The route that takes ratings of a team's own calls."""
    routes = APIRouter()
    caller = Annotated[Key, Depends(authenticate)]

    @routes.post("/v1/thriftgate/feedback")
    async def feedback(key: caller, request: Request) -> dict[str, Any]:
        """Learn a rating; only answers of the small model, of the latest 20,000, can be rated."""
        given = await _read_feedback(request)
        is_good = given.rating == "up"
        if not small_first.record_feedback(key.team, given.call_id, is_good=is_good):
            raise CallerError(
                "No small model answered a call of this id for your team of late.",
                code="call_not_found",
                status=404,
            )
        return {"id": given.call_id, "rating": given.rating}

    return routes


async def _read_feedback(request: Request) -> Feedback:
    """The rating in a request's body.

    Raises:
        CallerError: It is none.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _MAX_BYTES:
            break
    try:
        return _decode(body[: _MAX_BYTES + 1])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CallerError(
            'Write {"call_id": "call_…", "rating": "up"}, or "down".', code="invalid_feedback"
        ) from error
