"""Sessions of people who are signed in, as this process knows them.

The database has them all; this keeps those that were asked for lately, so that a page asks for its
session every five seconds at most, and pages work on while the database is away for a while.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from secrets import token_urlsafe
from typing import Final, Protocol

import msgspec

from proxy.errors import Unready
from proxy.pages.store_questions import StoreAsker
from proxy.store.sql.access.admin_sessions import SessionRecord, new_session
from proxy.store.sql.access.users import UserRecord

#: Seconds for which a session holds as it was read last; a revoked one closes within these.
FRESH_S: Final = 5.0
#: Seconds for which it holds while the database does not answer.
OUTAGE_GRACE_S: Final = 10 * 60.0
#: Sessions in memory; of more the one that was longest not used is read again.
_MAX_CACHED: Final = 1_024
_ID_BYTES: Final = 32
_ID_CHARS: Final = 43

SignedInPerson = tuple[SessionRecord, UserRecord | None]
"""A session and its person, None for the admin token's."""


class SessionStore(Protocol):
    """Keeps sessions of all processes; may block."""

    def begin(self, hashed: bytes, session: SessionRecord) -> None:
        """Keep a new session."""
        ...

    def find(self, hashed: bytes, now: float) -> SignedInPerson | None:
        """The session of this hash that goes on."""
        ...

    def end(self, hashed: bytes) -> None:
        """End it."""
        ...


class _Cached(msgspec.Struct):
    """A session as it was read, and when; ``is_saved`` is False where only this process has it."""

    signed_in: SignedInPerson
    read_at: float
    is_saved: bool = True


class AdminSessions:
    """The sessions of one process, over the rows of all processes."""

    def __init__(self, rows: SessionStore, ask: StoreAsker, now: Callable[[], float]) -> None:
        self._rows = rows
        self._ask = ask
        self._now = now
        self._cached: OrderedDict[bytes, _Cached] = OrderedDict()

    async def begin(self, person: UserRecord | None, holder: str, method: str, browser: str) -> str:
        """The id of a new session, which nobody has known before.

        A session of the admin token begins in this process alone where the database is away.

        Args:
            person: The person; None for the admin token.
            holder: Their id, or the token's name.

        Raises:
            Unready: The database does not answer.
        """
        made, now = token_urlsafe(_ID_BYTES), self._now()
        hashed, session = _digest(made), new_session(holder, method, browser, now)
        is_saved = True
        try:
            await self._ask.answer("sessions", lambda: self._rows.begin(hashed, session))
        except Unready:
            if person is not None:
                raise
            is_saved = False
        self._keep(hashed, _Cached((session, person), now, is_saved))
        return made

    async def find(self, session_id: str) -> SignedInPerson | None:
        """The session of this id that goes on, and its person; it has then been used."""
        if len(session_id) != _ID_CHARS:
            return None
        hashed, now = _digest(session_id), self._now()
        cached = self._cached.get(hashed)
        if cached is not None and cached.signed_in[0].has_ended(now):
            del self._cached[hashed]
            return None
        if cached is None or (cached.is_saved and now - cached.read_at >= FRESH_S):
            return await self._read(hashed, cached, now)
        if not cached.is_saved:
            cached.signed_in = (replace(cached.signed_in[0], used=now), cached.signed_in[1])
        self._cached.move_to_end(hashed)
        return cached.signed_in

    async def end(self, session_id: str) -> None:
        """End the session of this id, if there is one.

        Raises:
            Unready: The database does not answer; it has ended in this process alone.
        """
        if len(session_id) != _ID_CHARS:
            return
        hashed = _digest(session_id)
        cached = self._cached.pop(hashed, None)
        if cached is None or cached.is_saved:
            await self._ask.answer("sessions", lambda: self._rows.end(hashed))

    def forget(self, holder: str = "") -> None:
        """Have a person's sessions read again at their next request; everybody's for ""."""
        for hashed, cached in list(self._cached.items()):
            if cached.is_saved and holder in {"", cached.signed_in[0].holder}:
                del self._cached[hashed]

    async def _read(
        self, hashed: bytes, cached: _Cached | None, now: float
    ) -> SignedInPerson | None:
        try:
            row = await self._ask.answer("sessions", lambda: self._rows.find(hashed, now))
        except Unready:
            is_recent = cached is not None and now - cached.read_at < OUTAGE_GRACE_S
            return cached.signed_in if cached is not None and is_recent else None
        if row is None:
            self._cached.pop(hashed, None)
            return None
        self._keep(hashed, _Cached(row, now))
        return row

    def _keep(self, hashed: bytes, cached: _Cached) -> None:
        self._cached[hashed] = cached
        self._cached.move_to_end(hashed)
        while len(self._cached) > _MAX_CACHED:
            self._cached.popitem(last=False)


def _digest(text: str) -> bytes:
    return sha256(text.encode(errors="surrogatepass")).digest()
