"""The file of known keys: who may call while the database is away when the gateway starts.

::

    keyring (memory) ─ every change, and every minute ─▶ known-keys.json
    start, the database is away ─ read and checked ─▶ keyring

It holds hashes of keys, as the database does, and the installation's secret, by which prompts,
conversations and counters in Redis are named. Only its owner may read it. It is replaced whole, and
a checksum tells a file that is damaged. Keys count as old as when the database last confirmed them.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Annotated, Final

import msgspec
from sqlalchemy import make_url

from proxy.errors import OperatorError
from proxy.records.call import Key
from proxy.store.sql.access.api_key_cache import ApiKeyCache
from slo.duration import format_duration

_log = logging.getLogger("thriftgate.store")

FILE_NAME: Final = "known-keys.json"
_VERSION: Final = 2
#: Keys that are encoded at a time; it takes a fifth of a millisecond.
_KEYS_PER_ENCODING: Final = 500
#: Ten thousand keys, which a keyring remembers, take about 3 MiB.
MAX_BYTES: Final = 16 << 20
#: Seconds after which the time of the last confirmation is written again, though no key changed.
CONFIRM_INTERVAL_S: Final = 60.0
#: Seconds that the machine's clock may have gone back since the file was written.
_CLOCK_TOLERANCE_S: Final = 300.0
#: Parts of a URL that may change while the database stays the same.
_CREDENTIALS: Final = ("password", "passfile", "sslpassword", "sslkey", "sslcert")


class KnownKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file.

    Attributes:
        database: A hash of the database's URL without credentials.
        confirmed_at: Time at which the database confirmed the keys last, in seconds since the
            epoch.
        secret: The installation's, 32 bytes.
        teams: Number of teams that have a key.
        keys: Hashes of secrets and their keys, encoded; the least recently used first.
    """

    version: int = _VERSION
    database: str
    confirmed_at: float
    secret: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    teams: int
    keys: msgspec.Raw

    def by_hash(self) -> dict[bytes, Key]:
        """The keys by the hashes of their secrets, the least recently used first.

        Raises:
            msgspec.DecodeError: They are none.
        """
        return dict(msgspec.json.decode(self.keys, type=list[tuple[bytes, Key]]))


class _Versioned(msgspec.Struct):
    version: int = 0


def read_known_keys(path: Path, url: str, now: float, max_age: float) -> KnownKeys:
    """The keys in the file, found to be whole, of this database and no older than may be.

    Args:
        max_age: Seconds since the database confirmed them last.

    Raises:
        OperatorError: They must not be served.
    """
    keys = _decode(_read_content(path))
    if keys.database != _database_hash(url):
        raise OperatorError("they are those of another database")
    age = now - keys.confirmed_at
    if age < -_CLOCK_TOLERANCE_S:
        raise OperatorError("they were written in the future by this machine's clock")
    if age > max_age:
        old, limit = format_duration(round(age)), format_duration(max_age)
        raise OperatorError(f"the database confirmed them {old} ago, and they may be {limit} old")
    return keys


class KnownKeysFile:
    """Writes the file, as often as keys change, and now and then."""

    def __init__(self, path: Path, url: str, secret: bytes) -> None:
        self._path = path
        self._database = _database_hash(url)
        self._secret = secret
        self._written_revision = (-1, -1)
        self._keys = msgspec.Raw()
        self._written_at = float("-inf")
        self._failure = ""

    def refresh(self, keyring: ApiKeyCache, now: float) -> None:
        """Replace the file if keys changed or a minute has passed; blocks.

        Where that fails, the log says so; a file that lacks changes, such as a revocation, goes.

        Args:
            keyring: Nothing is written while its keys are not known to be the database's.
        """
        if not keyring.is_current:
            return
        state = (keyring.revision, keyring.teams)
        is_changed = state != self._written_revision
        if not is_changed and now - self._written_at < CONFIRM_INTERVAL_S:
            return
        if is_changed:
            self._keys = _encode_keys(keyring.cached_keys())
        self._written_revision, self._written_at = state, now
        try:
            self._write(keyring.teams, now)
        except OSError as error:
            if is_changed:
                remove_known_keys(self._path)
            self._fail(error.strerror or str(error))
        else:
            self._failure = ""

    def _write(self, teams: int, now: float) -> None:
        content = msgspec.json.encode(
            KnownKeys(
                database=self._database,
                confirmed_at=now,
                secret=self._secret,
                teams=teams,
                keys=self._keys,
            )
        )
        if len(content) > MAX_BYTES:
            raise OSError(f"they take more than {MAX_BYTES >> 20} MiB")
        _remove_leftovers(self._path, now)
        _replace(self._path, b"%s\n%s" % (_checksum(content), content))

    def _fail(self, why: str) -> None:
        if why != self._failure:
            _log.warning("Known keys cannot be written to %s: %s", self._path, why)
        self._failure = why


def _encode_keys(keys: Mapping[bytes, Key]) -> msgspec.Raw:
    """The keys with their hashes, a few at a time: calls wait for the interpreter meanwhile."""
    pairs = iter(keys.items())
    parts = []
    while some := list(islice(pairs, _KEYS_PER_ENCODING)):
        parts.append(msgspec.json.encode(some)[1:-1])
    return msgspec.Raw(b"[%s]" % b",".join(parts))


def remove_known_keys(path: Path) -> None:
    """Remove the file, if there is one; blocks."""
    with suppress(OSError):
        path.unlink()


def _remove_leftovers(path: Path, now: float) -> None:
    """Remove what processes have left that were killed while they wrote."""
    for leftover in path.parent.glob(f"{path.name}.*"):
        with suppress(OSError):
            if leftover.stat().st_mtime < now - CONFIRM_INTERVAL_S:
                leftover.unlink()


def _read_content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            whole = file.read(MAX_BYTES + 1024)
    except FileNotFoundError:
        raise OperatorError("none were written yet") from None
    except OSError as error:
        raise OperatorError(f"they cannot be read: {error.strerror or error}") from error
    checksum, _, content = whole.partition(b"\n")
    if checksum != _checksum(content):
        raise OperatorError("the file is damaged")
    return content


def _decode(content: bytes) -> KnownKeys:
    try:
        if msgspec.json.decode(content, type=_Versioned).version != _VERSION:
            raise OperatorError("another version of Thriftgate wrote them")
        keys = msgspec.json.decode(content, type=KnownKeys)
        keys.by_hash()
    except msgspec.DecodeError as error:
        raise OperatorError(f"they cannot be read: {error}") from error
    return keys


def _database_hash(url: str) -> str:
    """A hash of which database the URL names, and as which user."""
    where = make_url(url).difference_update_query(_CREDENTIALS)
    named = (where.username, where.host, where.port, where.database, sorted(where.query.items()))
    identity = repr((where.get_backend_name().startswith("postgres"), *named))
    return blake2b(identity.encode(), digest_size=16).hexdigest()


def _checksum(content: bytes) -> bytes:
    return blake2b(content, digest_size=16).hexdigest().encode()


def _replace(path: Path, content: bytes) -> None:
    """Put the content in the file's place, whole and synced to disk, readable by its owner."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{token_hex(4)}")
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.replace(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
