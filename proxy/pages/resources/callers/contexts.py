"""/v1/thriftgate/contexts: texts that a team keeps here, to name them in its calls."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, ParamSpec, Protocol, TypeVar

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from proxy.errors import CallerError, Unready
from proxy.pages.receipts import Authenticate
from proxy.records.call import Key
from proxy.services.fast_path.contexts import ContextResolver
from proxy.store.errors import StoreError
from proxy.store.sql.settings.contexts import Contexts
from proxy.tokens.text_size import text_tokens

P = ParamSpec("P")
T = TypeVar("T")

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
MAX_TEXT_BYTES: Final = 1024 * 1024


class ContextStore(Protocol):
    """The texts of teams, and what asks them off the event loop."""

    @property
    def contexts(self) -> Contexts:
        """The texts; they block."""
        ...

    async def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a question off the event loop."""
        ...


def contexts_router(
    store: ContextStore,
    resolver: ContextResolver,
    authenticate: Authenticate,
    now: Callable[[], float],
) -> APIRouter:
    """The routes by which a team stores, lists, reads and deletes its texts."""
    routes = APIRouter(prefix="/v1/thriftgate/contexts")
    rows = store.contexts
    caller = Annotated[Key, Depends(authenticate)]

    @routes.get("")
    async def contexts(key: caller) -> dict[str, Any]:
        """Every version of the team's texts, without the texts."""
        return {"data": msgspec.to_builtins(await _ask(store, rows.versions, key.team))}

    @routes.put("/{name}")
    async def put(name: str, key: caller, request: Request) -> dict[str, Any]:
        """Store the body as the next version of a text; the same text again is the same version."""
        resolver.policy_of(key.team_name)
        text = await _read_text(_checked_name(name), request)
        tokens = text_tokens(text.encode(), has_parts=False)
        stored = await _ask(store, rows.put, key.team, name, text, tokens, now())
        return dict(msgspec.to_builtins(stored))

    @routes.get("/{name}/{version}")
    async def text(name: str, version: int, key: caller) -> Response:
        """One version of a text, as it was stored."""
        texts = await _ask(store, rows.texts, key.team, [(name, version)])
        if not texts:
            raise _not_found()
        return Response(texts[name, version], media_type="text/plain")

    @routes.delete("/{name}")
    @routes.delete("/{name}/{version}")
    async def delete(name: str, key: caller, version: int | None = None) -> dict[str, Any]:
        """Delete one version of a text, or all; other processes follow within a minute."""
        removed = await _ask(store, rows.remove, key.team, name, version)
        resolver.forget(key.team, name)
        if not removed:
            raise _not_found()
        return {"deleted": removed}

    return routes


async def _ask(store: ContextStore, question: Callable[..., Any], *args: object) -> Any:  # noqa: ANN401 - as asked
    """The database's answer.

    Raises:
        Unready: It is away.
        CallerError: The team has as many texts as it may have.
    """
    try:
        return await store.ask(question, *args)
    except StoreError as error:
        raise Unready(
            "The database is away; try again in a moment.",
            code="contexts_unavailable",
            retry_after=5.0,
        ) from error
    except ValueError as error:
        raise CallerError(str(error), code="too_many_contexts", status=409) from error


async def _read_text(name: str, request: Request) -> str:
    """The request's body as text.

    Raises:
        CallerError: If it is empty, too long or no UTF-8.
    """
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_TEXT_BYTES:
            raise CallerError(
                f"{name} is over {MAX_TEXT_BYTES:,} bytes. Store it in parts.",
                code="context_too_large",
                status=413,
            )
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise CallerError(f"{name} is not UTF-8.", code="invalid_context") from error
    if not text or "\0" in text:
        raise CallerError(f"{name} is empty or holds a NUL.", code="invalid_context")
    return text


def _checked_name(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    raise CallerError(
        "A context's name has up to 64 letters, digits, dots, dashes or underscores.",
        code="invalid_context",
    )


def _not_found() -> CallerError:
    return CallerError("The team has no such text.", code="unknown_context", status=404)
