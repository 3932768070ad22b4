"""Puts a team's stored texts and fetched pages in place of the references in its calls.

::

    references ─┬─ stored text: memory, else the database ────────────▶ body with the texts
                └─ page: allowed by a policy, asked for again each time (ETag),
                   all at once and within the policy's deadline
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

import msgspec
import orjson

from proxy.app_context import AppContext
from proxy.catalog.entries import Upstream
from proxy.configuration import Snapshot
from proxy.errors import CallerError, Unready, UpstreamError
from proxy.fast_path.context_references import (
    ContextReference,
    FetchedPage,
    StoredText,
    prefix_of,
    read_references,
)
from proxy.providers.port import PreparedRequest
from proxy.records.call import Call
from proxy.records.lru_cache import LruCache
from proxy.store.errors import StoreError
from proxy.upstream.port import Transport
from slo.budgets.budget import EVERY
from slo.policies.contexts import ContextPolicy, LateRule

_MAX_TEXT_BYTES: Final = 64 * 1024 * 1024
_MAX_PAGE_BYTES: Final = 1024 * 1024
#: Pages whose content is read at once, so that all buffers together are bounded.
_MAX_PAGES_READ: Final = 32
#: Bytes of a text's key and its place in memory.
_ENTRY_BYTES: Final = 512
#: Seconds after which a stored text is read again, as it may have been deleted.
_RECHECK_S: Final = 60.0
_STORE_DEADLINE_S: Final = 2.0
#: Larger bodies are read and written on a thread.
_MAX_INLINE_BYTES: Final = 256 * 1024
_TEXT_TYPES: Final = ("text/", "application/json", "application/xml", "application/xhtml")


class ContextRows(Protocol):
    """Reads stored texts; blocks."""

    def texts(self, team: str, names: Iterable[tuple[str, int]]) -> dict[tuple[str, int], str]:
        """The texts of these names and versions; what the team does not have is left out."""
        ...


class _Text(msgspec.Struct, frozen=True):
    """A text as a string in JSON, when it was read, and its ETag; "" where it has none."""

    json: bytes
    read_at: float
    etag: str = ""


_Texts = dict[ContextReference, _Text]


class _HeldMemory:
    """Memory of one call: its body, and the texts for it from the moment they are here.

    Args:
        reserve: Reserves memory for so many bytes; raises where there is none.
    """

    def __init__(self, body_bytes: int, reserve: Callable[[int], None]) -> None:
        self._size = body_bytes
        self._reserve = reserve

    def add(self, texts: Iterable[_Text]) -> None:
        """Reserve memory for more texts."""
        self._size += sum(len(text.json) for text in texts)
        self._reserve(self._size)


class ContextResolver:
    """Resolves the references to texts and pages in calls.

    Args:
        ask: Runs a question to the database off the event loop.
        ticks: Seconds of a clock that goes forward.
    """

    def __init__(
        self,
        rows: ContextRows,
        ask: Callable[..., Awaitable[Any]],
        transport: Transport,
        ticks: Callable[[], float],
        policies: Sequence[ContextPolicy] = (),
    ) -> None:
        self._rows = rows
        self._ask = ask
        self._transport = transport
        self._ticks = ticks
        self._policies = tuple(policies)
        self._texts: LruCache[tuple[str, ContextReference], _Text] = LruCache(
            _MAX_TEXT_BYTES, lambda text: len(text.json) + _ENTRY_BYTES
        )
        self._database_turn = asyncio.Lock()
        self._page_turns = asyncio.Semaphore(_MAX_PAGES_READ)

    def update(self, policies: Sequence[ContextPolicy]) -> None:
        """Follow these policies from now on."""
        self._policies = tuple(policies)

    @property
    def is_enabled(self) -> bool:
        """True if any team may name texts or pages."""
        return bool(self._policies)

    def policy_of(self, team_name: str) -> ContextPolicy:
        """The first policy about a team.

        Raises:
            CallerError: There is none.
        """
        for policy in self._policies:
            if policy.team in {EVERY, team_name}:
                return policy
        raise CallerError(
            f"No [[contexts]] policy lets team {team_name} name stored texts or pages.",
            code="contexts_disabled",
            status=403,
        )

    def forget(self, team: str, name: str) -> None:
        """Forget what is in memory of a stored text; ``team`` is the team's id."""
        for owner, reference in [key for key, _ in self._texts.items()]:
            if owner == team and isinstance(reference, StoredText) and reference.name == name:
                self._texts.drop((owner, reference))

    async def resolve(self, call: Call, reserve: Callable[[int], None]) -> Call:
        """The call with texts in place of its references; the same where it has none.

        Args:
            reserve: Reserves memory for a body of so many bytes; raises where there is none.

        Raises:
            CallerError: If a reference is malformed, unknown or not allowed, or one is late and
                the policy says to refuse.
            Unready: If the database does not answer.
        """
        if len(call.body) > _MAX_INLINE_BYTES:
            body = await asyncio.to_thread(read_references, call.body, call.endpoint)
        else:
            body = read_references(call.body, call.endpoint)
        if body is None:
            return call
        policy, team = self.policy_of(call.key.team_name), call.key.team
        stored = [each for each in body.references if isinstance(each, StoredText)]
        pages = [each for each in body.references if isinstance(each, FetchedPage)]
        sources = {page: _allowing_prefix(page, policy) for page in pages}
        texts, memory = await self._stored_texts(team, stored), _HeldMemory(len(call.body), reserve)
        memory.add(texts.values())
        fetched = await self._fetch_all(team, policy, sources, memory)
        late = tuple(f"left out {page}: late or failed" for page in pages if page not in fetched)
        literals = {reference: text.json for reference, text in (texts | fetched).items()}
        reserve(size := len(call.body) + body.size_with(literals))
        if size > _MAX_INLINE_BYTES:
            resolved = await asyncio.to_thread(body.resolve, literals)
        else:
            resolved = body.resolve(literals)
        return msgspec.structs.replace(call, body=resolved, notes=(*call.notes, *late))

    async def _stored_texts(self, team: str, references: Sequence[StoredText]) -> _Texts:
        """The texts, from memory where they were read lately.

        Raises:
            CallerError: If the team has not got one of them.
            Unready: If the database does not answer.
        """
        fresh = self._fresh_texts(team, references)
        if len(fresh) == len(references):
            return fresh
        try:
            async with asyncio.timeout(_STORE_DEADLINE_S), self._database_turn:
                fresh = self._fresh_texts(team, references)  # another call may have read them
                missing = [reference for reference in references if reference not in fresh]
                return fresh | await self._read_texts(team, missing) if missing else fresh
        except (StoreError, TimeoutError) as error:
            known = self._known_texts(team, references)
            if len(known) == len(references):
                return known
            raise Unready(
                "The texts that the call names cannot be read just now. Try again in a moment.",
                code="contexts_unavailable",
                retry_after=5.0,
            ) from error

    def _known_texts(self, team: str, references: Iterable[StoredText]) -> _Texts:
        """The texts that are in memory."""
        texts = ((reference, self._texts.get((team, reference))) for reference in references)
        return {reference: text for reference, text in texts if text is not None}

    def _fresh_texts(self, team: str, references: Iterable[StoredText]) -> _Texts:
        """The texts in memory that were read lately."""
        oldest = self._ticks() - _RECHECK_S
        known = self._known_texts(team, references)
        return {key: text for key, text in known.items() if text.read_at >= oldest}

    async def _read_texts(self, team: str, references: Sequence[StoredText]) -> _Texts:
        names = [(reference.name, reference.version) for reference in references]
        rows = await self._ask(self._rows.texts, team, names)
        texts: _Texts = {}
        for reference, name in zip(references, names, strict=True):
            if name not in rows:
                self._texts.drop((team, reference))
                raise CallerError(
                    f"The team has no text {reference}. GET /v1/thriftgate/contexts lists them.",
                    code="unknown_context",
                    status=404,
                )
            texts[reference] = _Text(orjson.dumps(rows[name]), self._ticks())
            self._texts.put((team, reference), texts[reference])
        return texts

    async def _fetch_all(
        self,
        team: str,
        policy: ContextPolicy,
        sources: Mapping[FetchedPage, str],
        memory: _HeldMemory,
    ) -> _Texts:
        """The pages that came within the policy's deadline; its rule decides on the others.

        Raises:
            CallerError: If one did not, and the rule is to refuse; or there is no memory for it.
        """
        if not sources:
            return {}
        deadline = policy.deadline_ms / 1_000

        async def fetch(page: FetchedPage, prefix: str) -> _Text | None:
            text = await self._fetch_within(deadline, team, page, prefix)
            memory.add([text] if text is not None else [])
            return text

        fetching = [asyncio.ensure_future(fetch(*source)) for source in sources.items()]
        try:
            pages = await asyncio.gather(*fetching)
        finally:
            for task in fetching:
                task.cancel()
        texts: _Texts = {}
        for page, text in zip(sources, pages, strict=True):
            is_last = text is None and policy.late is LateRule.LAST
            current = self._texts.get((team, page)) if is_last else text
            if current is not None:
                texts[page] = current
            elif policy.late is LateRule.REFUSE:
                raise CallerError(
                    f"{page} could not be fetched within {policy.deadline_ms} ms.",
                    code="context_unavailable",
                    status=424,
                )
        return texts

    async def _fetch_within(
        self, deadline: float, team: str, page: FetchedPage, prefix: str
    ) -> _Text | None:
        """The page as it is now; None where it failed or takes longer than so many seconds."""
        try:
            async with asyncio.timeout(deadline):
                return await self._fetch(team, page, prefix)
        except TimeoutError:
            return None

    async def _fetch(self, team: str, page: FetchedPage, prefix: str) -> _Text | None:
        """The page as it is now, sent again only where it changed; None where that failed."""
        last = self._texts.get((team, page))
        headers = {"accept": "text/*, application/json"}
        if last is not None and last.etag:
            headers["if-none-match"] = last.etag
        path = "/" + page.url.removeprefix(prefix)
        request = PreparedRequest(method="GET", path=path, headers=headers, body=b"")
        source = Upstream(name=f"contexts:{prefix}", kind="openai", base_url=prefix.rstrip("/"))
        try:
            exchange = await self._transport.open(source, request)
            try:
                if exchange.status == 304 and last is not None:
                    return last
                media = exchange.headers.get("content-type", "text/plain")
                if exchange.status != 200 or not media.startswith(_TEXT_TYPES):
                    return None
                async with self._page_turns:
                    content = await exchange.read_all(_MAX_PAGE_BYTES)
                    literal = orjson.dumps(content.decode())
            finally:
                exchange.close()
        except (UpstreamError, UnicodeDecodeError):
            return None
        text = _Text(literal, self._ticks(), exchange.headers.get("etag", ""))
        self._texts.put((team, page), text)
        return text


def build_contexts(
    context: AppContext, transport: Transport, ticks: Callable[[], float]
) -> ContextResolver:
    """The resolver of a gateway; it follows the policies as their file changes."""
    store, policies = context.opened, context.policies.contexts
    resolver = ContextResolver(store.contexts, store.ask, transport, ticks, policies)

    async def prepare(snapshot: Snapshot) -> Callable[[], None]:
        return partial(resolver.update, snapshot.policies.contexts)

    context.follow(prepare)
    return resolver


def _allowing_prefix(page: FetchedPage, policy: ContextPolicy) -> str:
    """The address below which a page may be fetched.

    Raises:
        CallerError: If the policy does not allow it.
    """
    if prefix := prefix_of(page.url, policy.fetch):
        return prefix
    raise CallerError(
        f"{page.url[:200]} is below none of the addresses that policy {policy.name} allows.",
        code="context_not_allowed",
        status=403,
    )
