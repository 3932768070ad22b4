import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import Engine

from proxy.errors import OperatorError
from proxy.store.sql.access import known_keys
from proxy.store.sql.access.api_key_cache import ApiKeyCache
from proxy.store.sql.access.known_keys import (
    CONFIRM_INTERVAL_S,
    FILE_NAME,
    MAX_BYTES,
    KnownKeys,
    KnownKeysFile,
    read_known_keys,
    remove_known_keys,
)
from proxy.store.sql.access.teams import Teams, token_hash

NOW = 1_790_000_000.0
DAY = 86_400.0
SECRET = bytes(range(32))
URL = "postgresql://me:hunter2@db.example:5432/ledger?options=-csearch_path%3Da"


@pytest.fixture
def teams(sqlite_engine: Engine) -> Teams:
    return Teams(sqlite_engine)


@pytest.fixture
def keyring(sqlite_engine: Engine) -> Iterator[ApiKeyCache]:
    """A keyring that is refreshed by hand."""
    with ThreadPoolExecutor(1) as threads:
        yield ApiKeyCache(sqlite_engine, threads)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


def a_key(teams: Teams, name: str) -> tuple[str, str]:
    """The id and the secret of a key of a new team."""
    team = teams.create(name, now=NOW, keeps_prompts=True)
    key, secret = teams.create_key(team.id, name, now=NOW, feature="chat")
    return key.id, secret


def start(keyring: ApiKeyCache) -> None:
    keyring.start()
    keyring.close()
    keyring.refresh()


def write_file(path: Path, keyring: ApiKeyCache, now: float = NOW) -> KnownKeysFile:
    file = KnownKeysFile(path, URL, SECRET)
    file.refresh(keyring, now)
    return file


def read(path: Path, url: str = URL, now: float = NOW) -> KnownKeys:
    return read_known_keys(path, url, now, DAY)


def refusal(path: Path, url: str = URL, now: float = NOW) -> str:
    with pytest.raises(OperatorError) as unusable:
        read(path, url, now)
    return str(unusable.value)


def test_known_keys_are_read_back(path: Path, teams: Teams, keyring: ApiKeyCache) -> None:
    secrets = [a_key(teams, name)[1] for name in ("support", "coding")]
    start(keyring)
    write_file(path, keyring)
    keys = read(path)

    assert (keys.secret, keys.teams, keys.confirmed_at) == (SECRET, 2, NOW)
    assert keys.by_hash() == keyring.cached_keys()
    assert set(keys.by_hash()) == set(map(token_hash, secrets))


def test_the_file_is_its_owner_s_alone_and_holds_hashes_of_keys_and_no_password(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    _, secret = a_key(teams, "support")
    start(keyring)
    write_file(path, keyring)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.encode() not in path.read_bytes()
    assert b"hunter2" not in path.read_bytes()
    assert [file.name for file in path.parent.glob("known*")] == [FILE_NAME]


def test_only_keys_that_the_database_confirmed_are_written(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    keyring.start()
    keyring.close()
    write_file(path, keyring)

    assert not path.exists()


def test_a_revocation_is_written_at_once(path: Path, teams: Teams, keyring: ApiKeyCache) -> None:
    key, secret = a_key(teams, "support")
    start(keyring)
    file = write_file(path, keyring)
    teams.revoke(key, now=NOW)
    keyring.refresh()
    file.refresh(keyring, NOW + 1)

    assert read(path).by_hash()[token_hash(secret)].revoked


def test_while_nothing_changes_the_confirmation_is_written_once_a_minute(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    file = write_file(path, keyring)
    for later in (1.0, CONFIRM_INTERVAL_S - 1):
        file.refresh(keyring, NOW + later)
    before = read(path).confirmed_at
    file.refresh(keyring, NOW + CONFIRM_INTERVAL_S)

    assert (before, read(path).confirmed_at) == (NOW, NOW + CONFIRM_INTERVAL_S)


def test_thousands_of_keys_are_read_again_in_the_order_of_their_use(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    (key,) = keyring.cached_keys().values()
    many = {token_hash(f"{n}"): msgspec.structs.replace(key, id=f"key_{n}") for n in range(1_001)}
    keyring.restore(many, 1)
    write_file(path, keyring)

    assert list(read(path).by_hash()) == list(keyring.cached_keys())
    assert len(read(path).by_hash()) == 1_002


def test_keys_are_served_up_to_the_age_that_is_set(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    write_file(path, keyring)

    assert read(path, now=NOW + DAY).teams == 1
    reason = "the database confirmed them 86401s ago, and they may be 1d old"
    assert refusal(path, now=NOW + DAY + 1) == reason


def test_keys_from_the_future_are_refused_as_their_age_is_not_known(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    write_file(path, keyring)

    assert read(path, now=NOW - 10).teams == 1
    assert "in the future" in refusal(path, now=NOW - 3_600)


def test_a_new_password_leaves_the_database_the_same_and_another_schema_does_not(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    write_file(path, keyring)

    assert read(path, URL.replace("hunter2", "hunter3")).teams == 1
    assert read(path, URL.replace("postgresql:", "postgres:")).teams == 1
    assert read(path, f"{URL}&sslpassword=hunter2").teams == 1
    for other in (URL.replace("%3Da", "%3Db"), URL.replace("/ledger", "/other")):
        assert refusal(path, other) == "they are those of another database"


def test_a_damaged_file_is_refused(path: Path, teams: Teams, keyring: ApiKeyCache) -> None:
    a_key(teams, "support")
    start(keyring)
    write_file(path, keyring)
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole.replace(b'"teams":1', b'"teams":2'), b"", b"\x00" * 99):
        path.write_bytes(damaged)
        assert refusal(path) == "the file is damaged"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"version":3,"keys":"in another form"}', "another version of Thriftgate wrote them"),
        (b'{"version":2}', "they cannot be read: "),
        (b"[]", "they cannot be read: "),
    ],
)
def test_known_keys_written_by_another_version_are_refused(
    path: Path, content: bytes, why: str
) -> None:
    path.write_bytes(known_keys._checksum(content) + b"\n" + content)

    assert refusal(path).startswith(why)


def test_a_file_that_is_not_there_or_no_file_is_refused(path: Path) -> None:
    missing = refusal(path)
    path.mkdir()

    assert (missing, refusal(path)) == (
        "none were written yet",
        "they cannot be read: Is a directory",
    )


def test_a_file_that_cannot_follow_a_change_is_removed_and_the_log_says_so_once(
    path: Path, teams: Teams, keyring: ApiKeyCache, caplog: pytest.LogCaptureFixture
) -> None:
    a_key(teams, "support")
    start(keyring)
    file = write_file(path, keyring)
    (key,) = keyring.cached_keys().values()
    keyring.restore({b"huge": msgspec.structs.replace(key, team_name="b" * MAX_BYTES)}, 2)
    for later in (1.0, 2.0, CONFIRM_INTERVAL_S + 1):
        file.refresh(keyring, NOW + later)

    assert not path.exists()
    (message,) = caplog.messages
    assert message.endswith("they take more than 16 MiB")


def test_the_partial_file_of_a_killed_process_is_removed(
    path: Path, teams: Teams, keyring: ApiKeyCache
) -> None:
    a_key(teams, "support")
    start(keyring)
    left = path.with_name(f"{FILE_NAME}.1-00000000")
    left.touch()
    old = left.stat().st_mtime
    write_file(path, keyring, old + 1)
    is_spared = left.exists()
    write_file(path, keyring, old + CONFIRM_INTERVAL_S + 1)

    assert (is_spared, left.exists()) == (True, False)


def test_removing_a_file_that_is_not_there_is_no_mistake(path: Path) -> None:
    path.touch()
    remove_known_keys(path)
    remove_known_keys(path)

    assert not path.exists()
