"""People who sign in to the pages, and links that sign them in once."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import Any, Final

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    RowMapping,
    delete,
    func,
    insert,
    select,
    update,
)

from dashboards.access import Role
from proxy.store.errors import StoreError
from proxy.store.sql.access.access_tables import admin_sessions, sign_in_links, users
from proxy.store.sql.access.audit_log import GATEWAY, AuditedChange, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import read_value, record_of

#: Name of the administrator whom the first link signs in.
FIRST_ADMIN: Final = "admin"
USER_PREFIX: Final = "user_"
"""Beginning of every person's id."""
LINK_LIFETIME_S: Final = 15 * 60.0
_CODE_BYTES: Final = 32
_MAX_NAME_CHARS: Final = 100
#: Authors of changes that no person made.
_RESERVED_NAMES: Final = frozenset({GATEWAY, "admin token", "identity provider"})
#: People that are listed; an installation has few.
MAX_USERS: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRecord:
    """A person who may sign in.

    Attributes:
        id: Stays the same when the name changes.
        name: Unique; as the audit log has it.
        teams: Ids of the teams they belong to.
        subject: Issuer and name at the identity provider; None where they do not use it.
        created: Seconds since the epoch.
        disabled_at: The same; None while they may sign in.
    """

    id: str
    name: str
    role: Role
    teams: frozenset[str]
    has_password: bool
    subject: str | None
    created: float
    disabled_at: float | None = None

    @property
    def is_disabled(self) -> bool:
        """True if they may not sign in."""
        return self.disabled_at is not None


class Users:
    """The people in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(
        self,
        name: str,
        role: Role,
        teams: Collection[str] = (),
        *,
        now: float,
        who: str = GATEWAY,
        subject: str | None = None,
    ) -> UserRecord:
        """A new person without a password.

        Raises:
            ValueError: The name is taken, empty, too long, or has characters that do not print.
        """
        _check_name(name)
        made = _new_user(name, role, now, teams, subject)
        try:
            with write_transaction(self._engine) as connection:
                _insert_user(connection, made, now, who)
        except StoreError as error:
            if not error.is_row_refused:
                raise
            raise ValueError(f"there is a person named {name!r} already") from error
        return made

    def all(self) -> Sequence[UserRecord]:
        """All people, by name."""
        query = select(users).order_by(users.c.name).limit(MAX_USERS)
        with read_transaction(self._engine) as connection:
            return [user_of(row) for row in connection.execute(query).mappings()]

    def find(self, name: str) -> UserRecord | None:
        """The person of this name."""
        return self._one(users.c.name == name)

    def by_id(self, user: str) -> UserRecord | None:
        """The person with this id."""
        return self._one(users.c.id == user)

    def by_subject(self, subject: str) -> UserRecord | None:
        """The person of this name at the identity provider."""
        return self._one(users.c.subject == subject)

    def password_hash(self, name: str) -> tuple[UserRecord, str] | None:
        """The person of this name who may sign in by a password, and its hash."""
        query = select(users).where(users.c.name == name, users.c.password != "")
        with read_transaction(self._engine) as connection:
            enabled = query.where(users.c.disabled_at.is_(None))
            row = connection.execute(enabled).mappings().one_or_none()
        return None if row is None else (user_of(row), row["password"])

    def set_password(self, user: str, hashed: str, *, now: float, who: str) -> None:
        """Give a person a password, by its hash."""
        with write_transaction(self._engine) as connection:
            record = _lock_user(connection, user)
            change = update(users).where(users.c.id == user).values(password=hashed)
            connection.execute(change)
            _record(connection, "set password", record, now, who)

    def refresh_hash(self, user: str, hashed: str) -> None:
        """Keep a hash of the same password, made by newer parameters."""
        change = update(users).where(users.c.id == user, users.c.password != "")
        with write_transaction(self._engine) as connection:
            connection.execute(change.values(password=hashed))

    def link_subject(self, name: str, subject: str, *, now: float, who: str) -> UserRecord | None:
        """The person of this name, who signs in at the identity provider from now on.

        None where there is nobody of this name, or somebody who has a way to sign in already.
        """
        with write_transaction(self._engine) as connection:
            is_free = (users.c.password == "") & users.c.subject.is_(None)
            query = select(users).where(users.c.name == name, is_free).with_for_update()
            row = connection.execute(query).mappings().one_or_none()
            if row is None or not name:
                return None
            old = user_of(row)
            change = update(users).where(users.c.id == old.id).values(subject=subject)
            connection.execute(change)
            new = replace(old, subject=subject)
            _record(connection, "link to identity provider", old, now, who, new)
        return new

    def change_role(
        self, user: str, role: Role, teams: Collection[str], *, now: float, who: str
    ) -> UserRecord:
        """Give a person another role and other teams; it holds at once.

        Raises:
            ValueError: There is no such person, or they are the last administrator.
        """
        with write_transaction(self._engine) as connection:
            old = _lock_user(connection, user)
            new = replace(old, role=role, teams=frozenset(teams))
            _check_admin_remains(connection, old, new)
            values = {"role": role.value, "teams": _teams_json(teams)}
            connection.execute(update(users).where(users.c.id == user).values(values))
            _record(connection, "change role", old, now, who, new)
        return new

    def set_disabled(self, user: str, *, disabled: bool, now: float, who: str) -> UserRecord:
        """Let a person sign in no more, or again; their sessions end.

        Raises:
            ValueError: There is no such person, or they are the last administrator.
        """
        with write_transaction(self._engine) as connection:
            old = _lock_user(connection, user)
            new = replace(old, disabled_at=now if disabled else None)
            if new.is_disabled == old.is_disabled:
                return old
            _check_admin_remains(connection, old, new)
            change = update(users).where(users.c.id == user).values(disabled_at=new.disabled_at)
            connection.execute(change)
            connection.execute(delete(admin_sessions).where(admin_sessions.c.holder == user))
            connection.execute(delete(sign_in_links).where(sign_in_links.c.holder == user))
            action = "disable person" if disabled else "enable person"
            _record(connection, action, old, now, who, new)
        return new

    def has_admin(self) -> bool:
        """True if an administrator can sign in by a password or the identity provider."""
        can_sign_in = (users.c.password != "") | users.c.subject.is_not(None)
        query = select(func.count()).select_from(users).where(_IS_ADMIN, can_sign_in)
        return int(read_value(self._engine, query)) > 0

    def create_first_link(self, now: float) -> str:
        """The code of a link for the first administrator; "" where one can sign in already."""
        if self.has_admin():
            return ""
        try:
            return self.create_link(FIRST_ADMIN, now=now)
        except ValueError:  # somebody has disabled the person of this name
            return ""

    def create_link(
        self, name: str, *, now: float, who: str = GATEWAY, lifetime_s: float = LINK_LIFETIME_S
    ) -> str:
        """The code of a link that signs a person in once; only its hash is kept.

        The first administrator is made where there is nobody of that name.

        Raises:
            ValueError: There is no such person, or they are disabled.
        """
        code = token_urlsafe(_CODE_BYTES)
        with write_transaction(self._engine) as connection:
            user = _find(connection, users.c.name == name)
            if user is None and name == FIRST_ADMIN:
                user = _new_user(FIRST_ADMIN, Role.ADMIN, now)
                _insert_user(connection, user, now, who)
            if user is None or user.is_disabled:
                state = (
                    "there is no person named {}" if user is None else "the person {} is disabled"
                )
                raise ValueError(state.format(repr(name)))
            _insert_link(connection, user.id, code, now, now + lifetime_s)
            _record(connection, "make sign-in link", user, now, who)
        return code

    def redeem_link(self, code: str, now: float) -> UserRecord | None:
        """The person whom a link signs in, once and in time; None for any other code."""
        link = sign_in_links.c
        claim = (
            update(sign_in_links)
            .where(link.hash == _code_hash(code), link.used_at.is_(None), link.expires > now)
            .values(used_at=now)
        )
        holder = select(users).join(sign_in_links, link.holder == users.c.id)
        with write_transaction(self._engine) as connection:
            if connection.execute(claim).rowcount != 1:
                return None
            row = connection.execute(holder.where(link.hash == _code_hash(code))).mappings().one()
        user = user_of(row)
        return None if user.is_disabled else user

    def _one(self, condition: ColumnElement[bool]) -> UserRecord | None:
        with read_transaction(self._engine) as connection:
            return _find(connection, condition)


_IS_ADMIN: Final = (users.c.role == Role.ADMIN.value) & users.c.disabled_at.is_(None)


def user_of(row: RowMapping) -> UserRecord:
    """The person in a row."""
    teams = msgspec.json.decode(row["teams"])
    return record_of({**row, "teams": teams, "has_password": bool(row["password"])}, UserRecord)


def _find(
    connection: Connection, condition: ColumnElement[bool], *, locked: bool = False
) -> UserRecord | None:
    query = select(users).where(condition)
    row = connection.execute(query.with_for_update() if locked else query).mappings().one_or_none()
    return None if row is None else user_of(row)


def _check_name(name: str) -> None:
    if name.lower() in _RESERVED_NAMES:
        raise ValueError(f"the name {name!r} stands for something else in the audit log")
    if not name or len(name) > _MAX_NAME_CHARS or not name.isprintable() or name != name.strip():
        raise ValueError(
            f"a name has 1 to {_MAX_NAME_CHARS} characters that print, and no space around it"
        )


def _new_user(
    name: str, role: Role, now: float, teams: Collection[str] = (), subject: str | None = None
) -> UserRecord:
    return UserRecord(
        id=f"{USER_PREFIX}{token_hex(8)}",
        name=name,
        role=role,
        teams=frozenset(teams),
        has_password=False,
        subject=subject,
        created=now,
    )


def _insert_user(connection: Connection, made: UserRecord, now: float, who: str) -> None:
    values = {**asdict(made), "password": "", "teams": _teams_json(made.teams)}
    del values["has_password"]
    connection.execute(insert(users).values(values))
    change = AuditedChange(who=who, action="add person", subject=made.name, after=_facts(made))
    record_change(connection, change, now)


def _insert_link(connection: Connection, user: str, code: str, now: float, expires: float) -> None:
    """A new link; those whose time is over are deleted."""
    connection.execute(delete(sign_in_links).where(sign_in_links.c.expires < now))
    values = {"hash": _code_hash(code), "holder": user, "created": now, "expires": expires}
    connection.execute(insert(sign_in_links).values(values))


def _lock_user(connection: Connection, user: str) -> UserRecord:
    """The person with this id, whom nobody else changes until the commit."""
    record = _find(connection, users.c.id == user, locked=True)
    if record is None:
        raise ValueError(f"there is no person with the id {user!r}")
    return record


def _check_admin_remains(connection: Connection, old: UserRecord, new: UserRecord) -> None:
    """Raises ValueError where the last administrator would be none any more."""
    was = old.role is Role.ADMIN and not old.is_disabled
    stays = new.role is Role.ADMIN and not new.is_disabled
    if not was or stays:
        return
    other_admins = select(users.c.id).where(_IS_ADMIN, users.c.id != old.id).with_for_update()
    if not connection.execute(other_admins).all():
        raise ValueError(f"{old.name!r} is the last administrator; make another one first")


def _record(
    connection: Connection,
    action: str,
    old: UserRecord,
    now: float,
    who: str,
    new: UserRecord | None = None,
) -> None:
    """Write down a change to a person; the values only where they changed."""
    change = AuditedChange(
        who=who,
        action=action,
        subject=old.name,
        before=None if new is None else _facts(old),
        after=None if new is None else _facts(new),
    )
    record_change(connection, change, now)


def _facts(user: UserRecord) -> dict[str, Any]:
    return {
        "role": user.role.value,
        "teams": sorted(user.teams),
        "disabled": user.is_disabled,
        **({} if user.subject is None else {"subject": user.subject}),
    }


def _teams_json(teams: Collection[str]) -> str:
    return msgspec.json.encode(sorted(teams)).decode()


def _code_hash(code: str) -> bytes:
    return sha256(code.encode(errors="surrogatepass")).digest()
