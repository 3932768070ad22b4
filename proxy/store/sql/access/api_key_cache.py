"""The cache of API keys, in which a call's key is looked up.

It holds open and revoked keys by the hash of their secret, and drops the least recently used. A
thread polls the database for changes every two seconds, so a revoked key stops working within three
seconds in every process. While the database is away the cached keys stay valid, and keys that are
not cached are refused with a reason; ``trouble`` has it.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, TypeVar

from sqlalchemy import Engine, RowMapping, Select, func, select

from proxy.errors import Unready
from proxy.records.call import Key
from proxy.store.errors import StoreError
from proxy.store.sql import schema
from proxy.store.sql.access.teams import KEY_LENGTH, models_of, token_hash
from proxy.store.sql.change_poller import ChangePoller
from proxy.store.sql.database import read_transaction
from proxy.store.sql.rows import KEY_CHANGES, change_count, read_value

T = TypeVar("T")

_MAX_KEYS = 10_000
_KEYS_PER_READ = 500
_MAX_READS = 5


class ApiKeyCache:
    """The keys of one database, cached.

    Args:
        threads: Threads in which to ask it, off the event loop.
        bound: Most keys remembered, and most strings known to be no key.
    """

    def __init__(self, engine: Engine, threads: Executor, *, bound: int = _MAX_KEYS) -> None:
        self._engine = engine
        self._threads = threads
        self._bound = bound
        self._known: OrderedDict[bytes, Key] = OrderedDict()
        self._unknown: set[bytes] = set()  # until the next refresh
        self._noticed = -1  # answers from before this many changes are not remembered
        self._learnt = -1  # all keys in memory are at least as new as this many changes
        self._teams = 0
        self._revision = 0
        self._names: dict[str, str] = {}
        self._lock = threading.Lock()
        self._lookout = ChangePoller("keys", self._read_change_count)
        self.watch, self.close = self._lookout.start, self._lookout.close
        self.refresh = self._lookout.poll  # which its thread does every two seconds, too

    def start(self) -> None:
        """Learn the keys there are, as far as they fit, and watch them change."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(_KEYS.limit(self._bound)).mappings().all()
        for row in rows:
            self._remember(row)
        self._teams = self._count_teams()
        self.watch()

    def restore(self, keys: Mapping[bytes, Key], teams: int) -> None:
        """Take over keys that were known before this start, by the hashes of their secrets.

        Args:
            keys: The least recently used first.
            teams: Number of teams that had a key then.
        """
        with self._lock:
            self._known.update(keys)
            self._names.update((key.team, key.team_name) for key in keys.values())
            self._forget_oldest()
        self._teams = teams

    @property
    def trouble(self) -> str | None:
        """Reason that changes to keys are not noticed just now; None while they are."""
        return self._lookout.trouble

    @property
    def teams(self) -> int:
        """The number of teams that have a key, as of the last refresh or lookup."""
        return self._teams

    @property
    def is_current(self) -> bool:
        """True if the keys in memory are those of the database, as of the last refresh."""
        return self._learnt >= 0 and self.trouble is None

    @property
    def revision(self) -> int:
        """Differs once keys in memory have changed."""
        return self._revision

    def cached_keys(self) -> dict[bytes, Key]:
        """The keys in memory by the hashes of their secrets, the least recently used first."""
        with self._lock:
            return dict(self._known)

    def team_name(self, team: str) -> str:
        """The name of the team with this id, as of its keys in memory; else its id."""
        return self._names.get(team, team)

    def find(self, token: str) -> Key | None:
        """The key with this secret, revoked or not, if it is in memory; see ``fetch``."""
        return self._find(token_hash(token))

    async def fetch(self, token: str) -> Key | None:
        """The key with this secret, revoked or not; None if there is none.

        Raises:
            Unready: It is not in memory and the database is away.
        """
        if len(token) != KEY_LENGTH:
            return None
        hashed = token_hash(token)
        key = self._find(hashed)
        if key is not None or hashed in self._unknown:
            return key
        return await self._ask(self._read_key, hashed)

    async def _ask(self, read: Callable[[T], Key | None], value: T) -> Key | None:
        """Reads a key from the database, off the event loop."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, read, value)
        except StoreError as error:
            raise Unready(
                "The gateway cannot check this key just now; try again in a moment.",
                code="keys_unavailable",
                retry_after=2,
            ) from error

    async def fetch_by_id(self, key_id: str) -> Key | None:
        """The key with this id, revoked or not, as the database has it; None if there is none.

        Raises:
            Unready: The database is away.
        """
        return await self._ask(self._read_key_by_id, key_id)

    def _read_change_count(self) -> None:
        try:
            changes = int(read_value(self._engine, change_count(KEY_CHANGES)))
            if changes != self._learnt:
                self._refresh_cached_keys(changes)
        finally:
            with self._lock:
                self._unknown.clear()

    def _find(self, hashed: bytes) -> Key | None:
        with self._lock:
            key = self._known.get(hashed)
            if key is not None:
                self._known.move_to_end(hashed)
        return key

    def _count_teams(self) -> int:
        return int(read_value(self._engine, select(func.count(schema.keys.c.team.distinct()))))

    def _refresh_cached_keys(self, changes: int) -> None:
        """Ask again for all keys in memory."""
        with self._lock:
            self._noticed = changes
            hashes = list(self._known)
        for start in range(0, len(hashes), _KEYS_PER_READ):
            some = hashes[start : start + _KEYS_PER_READ]
            with read_transaction(self._engine) as connection:
                query = _KEYS.where(schema.keys.c.hash.in_(some))
                rows = connection.execute(query).mappings().all()
            keys = {row["hash"]: _key(row) for row in rows}  # made before calls wait for the lock
            with self._lock:
                for gone in {*some}.difference(keys):
                    self._known.pop(gone, None)  # of a database that was restored
                self._known.update(keys)
                self._names.update((key.team, key.team_name) for key in keys.values())
                self._revision += 1
        self._teams = self._count_teams()
        self._learnt = changes

    def _read_key(self, hashed: bytes) -> Key | None:
        """The key from the database; asked again while an answer is older than what is known."""
        row: RowMapping | None = None
        query = _KEYS.where(schema.keys.c.hash == hashed)
        for _ in range(_MAX_READS):
            with read_transaction(self._engine) as connection:
                row = connection.execute(query).mappings().one_or_none()
            if row is None:
                self._forget(hashed)
                return None
            if self._remember(row):
                break
        self._teams = self._count_teams()  # before its team's first call meets a cache of others
        return None if row is None else _key(row)

    def _read_key_by_id(self, key_id: str) -> Key | None:
        with read_transaction(self._engine) as connection:
            query = _KEYS.where(schema.keys.c.id == key_id)
            row = connection.execute(query).mappings().one_or_none()
        return None if row is None else _key(row)

    def _remember(self, row: RowMapping) -> bool:
        """True if the row is new enough to be remembered; it is then."""
        with self._lock:
            if row["changes"] < self._noticed:
                return False
            key = self._known[row["hash"]] = _key(row)
            self._revision += 1
            if len(self._names) < self._bound or key.team in self._names:
                self._names[key.team] = key.team_name
            self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        while len(self._known) > self._bound:
            self._known.popitem(last=False)

    def _forget(self, hashed: bytes) -> None:
        with self._lock:
            if len(self._unknown) >= self._bound:
                self._unknown.clear()
            self._unknown.add(hashed)


def _keys() -> Select[Any]:
    """All keys, each with how many changes there had been when it was read."""
    keys, teams = schema.keys.c, schema.teams.c
    return select(
        *(keys.hash, keys.id, keys.team, keys.feature, keys.expires, keys.models),
        *(teams.name.label("team_name"), teams.keeps_prompts),
        keys.revoked_at.is_not(None).label("revoked"),
        change_count(KEY_CHANGES).scalar_subquery().label("changes"),
    ).join_from(schema.keys, schema.teams, keys.team == teams.id)


_KEYS = _keys()


def _key(row: RowMapping) -> Key:
    """The key in a row, written out: thousands are read beside calls, and ``record_of`` is slow."""
    return Key(
        id=row["id"],
        team=row["team"],
        team_name=row["team_name"],
        feature=row["feature"],
        keeps_prompts=bool(row["keeps_prompts"]),
        revoked=bool(row["revoked"]),
        expires=row["expires"],
        models=models_of(row["models"]),
    )
