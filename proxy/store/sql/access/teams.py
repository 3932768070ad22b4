"""Teams and their keys: created, listed and revoked by an administrator."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from secrets import token_hex, token_urlsafe
from typing import Any, Final

import msgspec
from sqlalchemy import Engine, RowMapping, insert, select, update

from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.access.audit_log import GATEWAY, AuditedChange, record_change
from proxy.store.sql.database import read_transaction, write_transaction
from proxy.store.sql.rows import KEY_CHANGES, count_change, read_records, record_of

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
class KeyLimits:
    """Limits of a key.

    Attributes:
        expires: Time from which it opens nothing, in seconds since the epoch; None for never.
        models: The models that its calls may ask for; None for all.
    """

    expires: float | None = None
    models: frozenset[str] | None = None


NO_LIMITS: Final = KeyLimits()
"""Those of a key that opens all models for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """A key as an administrator sees it.

    Attributes:
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
    limits: KeyLimits = NO_LIMITS


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

    def create(
        self, name: str, *, now: float, keeps_prompts: bool = False, who: str = GATEWAY
    ) -> Team:
        """A new team.

        Raises:
            ValueError: Another team has the name.
        """
        team = Team(id=f"team_{token_hex(8)}", name=name, keeps_prompts=keeps_prompts, created=now)
        values = {**asdict(team), "keeps_prompts": int(keeps_prompts)}
        facts = {"name": name, "keeps_prompts": keeps_prompts}
        change = AuditedChange(
            who=who, action="create team", subject=name, team=team.id, after=facts
        )
        try:
            with write_transaction(self._engine) as connection:
                connection.execute(insert(schema.teams).values(values))
                record_change(connection, change, now)
        except StoreError as error:
            if not error.is_row_refused:
                raise
            raise ValueError(f"there is a team named {name!r} already") from error
        return team

    def create_key(
        self,
        team: str,
        name: str,
        *,
        now: float,
        feature: str = "",
        limits: KeyLimits = NO_LIMITS,
        who: str = GATEWAY,
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
            limits=limits,
        )
        change = AuditedChange(
            who=who, action="create key", subject=key.id, team=team, after=_key_facts(key)
        )
        try:
            with write_transaction(self._engine) as connection:
                row = {**_key_values(key), "hash": token_hash(secret)}
                connection.execute(insert(schema.keys).values(row))
                count_change(connection, KEY_CHANGES)
                record_change(connection, change, now)
        except StoreError as error:
            if not error.is_row_refused:
                raise
            raise ValueError(f"there is no team with the id {team!r}") from error
        return key, secret

    def revoke(self, key_id: str, *, now: float, who: str = GATEWAY) -> bool:
        """Close a key for good, within seconds in every process; False if it was not open."""
        keys = schema.keys
        is_open = (keys.c.id == key_id) & keys.c.revoked_at.is_(None)
        close = update(keys).where(is_open).values(revoked_at=now)
        with write_transaction(self._engine) as connection:
            row = connection.execute(select(keys).where(is_open)).mappings().one_or_none()
            if row is None or connection.execute(close).rowcount != 1:
                return False
            count_change(connection, KEY_CHANGES)
            before = _key_facts(_key(row))
            change = AuditedChange(
                who=who, action="revoke key", subject=key_id, team=row["team"], before=before
            )
            record_change(connection, change, now)
        return True

    def keep_prompts(self, team: str, *, keeps: bool, now: float, who: str = GATEWAY) -> bool:
        """Let a team opt in to storing prompt text, or out; False if there is no such team."""
        teams = schema.teams
        change = update(teams).where(teams.c.id == team).values(keeps_prompts=int(keeps))
        with write_transaction(self._engine) as connection:
            row = connection.execute(select(teams).where(teams.c.id == team)).one_or_none()
            if row is None:
                return False
            connection.execute(change)
            count_change(connection, KEY_CHANGES)
            audited = AuditedChange(
                who=who,
                action="keep prompts" if keeps else "drop prompts",
                subject=row.name,
                team=team,
                before={"keeps_prompts": bool(row.keeps_prompts)},
                after={"keeps_prompts": keeps},
            )
            record_change(connection, audited, now)
        return True

    def all(self) -> Sequence[Team]:
        """All teams, by name."""
        query = select(schema.teams).order_by(schema.teams.c.name)
        return read_records(self._engine, query, Team)

    def keys(self, team: str) -> Sequence[KeyRecord]:
        """A team's keys, oldest first, revoked ones included."""
        keys = schema.keys
        query = select(keys).where(keys.c.team == team).order_by(keys.c.created, keys.c.id)
        with read_transaction(self._engine) as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def keys_page(
        self, teams: frozenset[str] | None, limit: int, *, before: tuple[float, str] | None = None
    ) -> Sequence[KeyRecord]:
        """Keys, the newest first, revoked ones included.

        Args:
            teams: Ids of the teams whose keys are wanted; None for all.
            before: Creation and id of a key; only older ones are wanted. None for the newest.
        """
        keys = schema.keys.c
        query = select(schema.keys).order_by(keys.created.desc(), keys.id.desc()).limit(limit)
        if teams is not None:
            query = query.where(keys.team.in_(sorted(teams)))
        if before is not None:
            created, key_id = before
            query = query.where(
                (keys.created < created) | ((keys.created == created) & (keys.id < key_id))
            )
        with read_transaction(self._engine) as connection:
            return [_key(row) for row in connection.execute(query).mappings()]

    def key(self, key_id: str) -> KeyRecord | None:
        """The key with this id, revoked or not."""
        query = select(schema.keys).where(schema.keys.c.id == key_id)
        with read_transaction(self._engine) as connection:
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _key(row)

    def key_teams(self, keys: Collection[str]) -> dict[str, str]:
        """The ids of the teams of keys, by the keys' ids; those that are not there are left out."""
        key = schema.keys.c
        query = select(key.id, key.team).where(key.id.in_(sorted(keys)))
        with read_transaction(self._engine) as connection:
            return dict(connection.execute(query).all())


def models_of(text: str | None) -> frozenset[str] | None:
    """The models in a key's column; None for all."""
    return None if text is None else frozenset(msgspec.json.decode(text, type=list[str]))


def _key(row: RowMapping) -> KeyRecord:
    limits = {"expires": row["expires"], "models": models_of(row["models"])}
    return record_of({**row, "limits": limits}, KeyRecord)


def _key_values(key: KeyRecord) -> dict[str, Any]:
    """The columns of a new key, but for its hash."""
    values = asdict(key)
    expires, models = values.pop("limits").values()
    models_json = None if models is None else msgspec.json.encode(sorted(models)).decode()
    return {**values, "expires": expires, "models": models_json}


def _key_facts(key: KeyRecord) -> dict[str, Any]:
    """The values of a key that its audit entry shows."""
    models = key.limits.models
    return {
        "name": key.name,
        "ends_in": key.hint,
        "feature": key.feature,
        "expires": key.limits.expires,
        "models": None if models is None else sorted(models),
    }
