"""Teams and their keys, as an administrator makes and revokes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from secrets import token_hex, token_urlsafe

from sqlalchemy import Connection, Engine, insert, select, update
from sqlalchemy.exc import IntegrityError

from proxy.store.sql import schema
from proxy.store.sql.database import count_changed_rows, read_transaction, write_transaction
from proxy.store.sql.timestamps import micros, seconds

KEY_CHANGES = "key changes"
"""The name of the fact that counts changes to keys and teams, for whoever caches them."""

_RANDOM_BYTES = 30
KEY_LENGTH = len("tg-") + _RANDOM_BYTES * 4 // 3
"""Characters of every key's secret; anything longer or shorter is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """A team; ``created`` is in seconds since the epoch."""

    id: str
    name: str
    keeps_prompts: bool
    created: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key as an administrator sees it.

    Attributes:
        id: Its public name.
        team: The team's id.
        name: Team's name for it.
        hint: The last four characters of the secret.
        feature: The feature of calls that name none.
        created: Seconds since the epoch.
        revoked_at: The same; None while it opens.
    """

    id: str
    team: str
    name: str
    hint: str
    feature: str
    created: float
    revoked_at: float | None


def token_hash(token: str) -> bytes:
    """The hash under which a key's secret is stored.

    A plain SHA-256: slow hashes protect passwords people can guess, and nobody guesses 240 random
    bits. Finding a key by its hash also leaves nothing to learn from how long a comparison takes.
    """
    return sha256(token.encode("utf-8", "replace")).digest()


class Teams:
    """The teams and keys in one database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def create(self, name: str, *, now: float, keeps_prompts: bool = False) -> Team:
        """A new team.

        Raises:
            ValueError: Another team has the name.
        """
        team = Team(id=f"team_{token_hex(8)}", name=name, keeps_prompts=keeps_prompts, created=now)
        values = {
            "id": team.id,
            "name": name,
            "keeps_prompts": int(keeps_prompts),
            "created": micros(now),
        }
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(schema.teams).values(values))
        except IntegrityError as error:
            raise ValueError(f"there is a team named {name!r} already") from error
        return team

    def create_key(
        self, team: str, name: str, *, now: float, feature: str = ""
    ) -> tuple[KeyRecord, str]:
        """A new key of the team with this id, and its secret, which is told this once.

        Raises:
            ValueError: There is no such team.
        """
        secret = f"tg-{token_urlsafe(_RANDOM_BYTES)}"
        key = KeyRecord(
            id=f"key_{token_hex(8)}",
            team=team,
            name=name,
            hint=secret[-4:],
            feature=feature,
            created=now,
            revoked_at=None,
        )
        values = {
            "id": key.id,
            "team": team,
            "name": name,
            "hash": token_hash(secret),
            "hint": key.hint,
            "feature": feature,
            "created": micros(now),
        }
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(schema.keys).values(values))
                _count_change(connection)
        except IntegrityError as error:
            raise ValueError(f"there is no team with the id {team!r}") from error
        return key, secret

    def revoke(self, key_id: str, *, now: float) -> bool:
        """Close a key for good, within seconds in every process; False if it was not open."""
        keys = schema.keys
        close = (
            update(keys)
            .where(keys.c.id == key_id, keys.c.revoked_at.is_(None))
            .values(revoked_at=micros(now))
        )
        with write_transaction(self._engine) as connection:
            revoked = count_changed_rows(connection, close) == 1
            if revoked:
                _count_change(connection)
        return revoked

    def keep_prompts(self, team: str, *, keeps: bool) -> bool:
        """Let a team opt in to storing prompt text, or out; False if there is no such team."""
        teams = schema.teams
        change = update(teams).where(teams.c.id == team).values(keeps_prompts=int(keeps))
        with write_transaction(self._engine) as connection:
            found = count_changed_rows(connection, change) == 1
            if found:
                _count_change(connection)
        return found

    def all(self) -> Sequence[Team]:
        """All teams, by name."""
        query = select(schema.teams).order_by(schema.teams.c.name)
        with read_transaction(self._engine) as connection:
            return [
                Team(
                    id=row.id,
                    name=row.name,
                    keeps_prompts=bool(row.keeps_prompts),
                    created=seconds(row.created),
                )
                for row in connection.execute(query)
            ]

    def keys(self, team: str) -> Sequence[KeyRecord]:
        """A team's keys, oldest first, revoked ones included."""
        keys = schema.keys
        query = select(keys).where(keys.c.team == team).order_by(keys.c.created, keys.c.id)
        with read_transaction(self._engine) as connection:
            return [
                KeyRecord(
                    id=row.id,
                    team=row.team,
                    name=row.name,
                    hint=row.hint,
                    feature=row.feature,
                    created=seconds(row.created),
                    revoked_at=None if row.revoked_at is None else seconds(row.revoked_at),
                )
                for row in connection.execute(query)
            ]


def _count_change(connection: Connection) -> None:
    """Count a change. The count's row is locked until the commit, so no number comes twice."""
    meta = schema.meta
    count = update(meta).where(meta.c.name == KEY_CHANGES).values(number=meta.c.number + 1)
    connection.execute(count)
