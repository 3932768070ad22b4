"""DELETE /v1/thriftgate/answers: a team purges answers that the gateway may give again."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query

from proxy.errors import CallerError, Unready
from proxy.fast_path.answer_cache.answer_purges import PurgeScope
from proxy.pages.receipts import Authenticate
from proxy.records.call import Key
from proxy.store.errors import StoreError

_MAX_NAME_CHARS: Final = 128

PurgeAnswers = Callable[[Key, PurgeScope, str], Awaitable[int]]
"""Purges a team's answers; returns how many of them this process kept."""


def answers_router(purge: PurgeAnswers, authenticate: Authenticate) -> APIRouter:
    """The route that purges."""
    routes = APIRouter(prefix="/v1/thriftgate/answers")
    caller = Annotated[Key, Depends(authenticate)]
    name = Annotated[str | None, Query(max_length=_MAX_NAME_CHARS)]

    @routes.delete("")
    async def purge_answers(
        caller_key: caller, feature: name = None, tag: name = None, key: name = None
    ) -> dict[str, Any]:
        """Purge the answers of a feature, with a tag or of a key; all of the team's without any.

        Other processes follow within seconds.

        Raises:
            CallerError: More than one of them is named.
            Unready: The database is away; the answers are purged in this process alone.
        """
        named = [
            (scope, text)
            for scope, text in (
                (PurgeScope.FEATURE, feature),
                (PurgeScope.TAG, tag),
                (PurgeScope.KEY, key),
            )
            if text is not None
        ]
        if len(named) > 1:
            raise CallerError(
                "Name one of feature, tag and key, or none for all answers of the team.",
                code="ambiguous_purge",
            )
        scope, text = named[0] if named else (PurgeScope.TEAM, "")
        try:
            purged = await purge(caller_key, scope, text)
        except StoreError as error:
            raise Unready(
                "The database is away, so other processes do not know of the purge; try again.",
                code="purge_not_stored",
                retry_after=5.0,
            ) from error
        return {"scope": scope.value, "name": text, "purged_here": purged}

    return routes
