"""Sessions of people who are signed in to the pages, as all processes share them.

Cookies hold 256 random bits; only their hash is kept here. A session ends when it was not used for
half an hour, twelve hours after it began, or when somebody ends it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from secrets import token_hex
from typing import Final

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, select, update

from proxy.store.sql.access.access_tables import admin_sessions, users
from proxy.store.sql.access.users import USER_PREFIX, UserRecord, user_of
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import read_records, record_of

#: Seconds without a request, and in all, after which a session has ended.
IDLE_TIMEOUT_S: Final = 30 * 60.0
MAX_SESSION_S: Final = 12 * 3600.0
#: Sessions of one person at once; of more the one that was longest not used ends.
MAX_SESSIONS: Final = 32
#: Seconds after which the time of the last use is written again.
TOUCH_INTERVAL_S: Final = 60.0
_MAX_BROWSER_CHARS: Final = 200

_TABLE: Final = admin_sessions.c


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session.

    Attributes:
        id: Public name of it, which opens nothing.
        holder: Id of the person, or a name for the admin token.
        method: Way they signed in: password, link, token or sso.
        began: Seconds since the epoch.
        used: The same, within a minute.
    """

    id: str
    holder: str
    method: str
    browser: str
    began: float
    used: float

    def has_ended(self, now: float) -> bool:
        """True if its time is over."""
        return now - self.used >= IDLE_TIMEOUT_S or now - self.began >= MAX_SESSION_S


class SessionRows:
    """The sessions in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def begin(self, hashed: bytes, session: SessionRecord) -> None:
        """Keep a new session by the hash of its cookie; those whose time is over are deleted."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(admin_sessions).where(_is_over(session.began)))
            _end_oldest(connection, session.holder)
            connection.execute(insert(admin_sessions).values(hash=hashed, **asdict(session)))

    def find(self, hashed: bytes, now: float) -> tuple[SessionRecord, UserRecord | None] | None:
        """The session of this hash that goes on, and its person; it has then been used.

        The person is None for a session by the admin token. Sessions of people who are gone or
        disabled are none.
        """
        holder = None
        with read_transaction(self._engine) as connection:
            query = select(admin_sessions).where(_TABLE.hash == hashed)
            row = connection.execute(query).mappings().one_or_none()
            session = None if row is None else record_of(row, SessionRecord)
            if session is None or session.has_ended(now):
                return None
            if session.holder.startswith(USER_PREFIX):
                person = select(users).where(users.c.id == session.holder)
                user_row = connection.execute(person).mappings().one_or_none()
                holder = None if user_row is None else user_of(user_row)
                if holder is None or holder.is_disabled:
                    return None
        self._touch(session, now)
        return session, holder

    def of_holder(self, holder: str, now: float) -> Sequence[SessionRecord]:
        """The sessions of a person that go on, the last used first."""
        query = select(admin_sessions).where(_TABLE.holder == holder, ~_is_over(now))
        newest_first = query.order_by(_TABLE.used.desc(), _TABLE.id)
        return read_records(self._engine, newest_first, SessionRecord)

    def end(self, hashed: bytes) -> None:
        """End the session of this hash, if there is one."""
        with write_transaction(self._engine) as connection:
            connection.execute(delete(admin_sessions).where(_TABLE.hash == hashed))

    def end_of_holder(self, holder: str, *, session: str = "", but: str = "") -> int:
        """End a person's sessions; returns how many those were.

        Args:
            session: Id of the one to end; "" for all.
            but: Id of one that goes on; "" for none.
        """
        some = delete(admin_sessions).where(_TABLE.holder == holder, _TABLE.id != but)
        if session:
            some = some.where(_TABLE.id == session)
        with write_transaction(self._engine) as connection:
            return connection.execute(some).rowcount

    def _touch(self, session: SessionRecord, now: float) -> None:
        if now - session.used < TOUCH_INTERVAL_S:
            return
        change = update(admin_sessions).where(_TABLE.id == session.id).values(used=now)
        with write_transaction(self._engine) as connection:
            connection.execute(change)


def new_session(holder: str, method: str, browser: str, now: float) -> SessionRecord:
    """A session that begins now."""
    shown = "".join(
        character for character in browser[:_MAX_BROWSER_CHARS] if character.isprintable()
    )
    return SessionRecord(
        id=f"ses_{token_hex(8)}", holder=holder, method=method, browser=shown, began=now, used=now
    )


def _is_over(now: float) -> ColumnElement[bool]:
    return (_TABLE.used <= now - IDLE_TIMEOUT_S) | (_TABLE.began <= now - MAX_SESSION_S)


def _end_oldest(connection: Connection, holder: str) -> None:
    """Make room for one more session of a person."""
    query = select(_TABLE.id).where(_TABLE.holder == holder)
    newest = query.order_by(_TABLE.used.desc(), _TABLE.id).limit(MAX_SESSIONS - 1)
    newest_ids = connection.execute(newest).scalars().all()
    if len(newest_ids) == MAX_SESSIONS - 1:
        spare = delete(admin_sessions).where(_TABLE.holder == holder, _TABLE.id.not_in(newest_ids))
        connection.execute(spare)
