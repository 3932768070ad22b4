import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, delete

from proxy.errors import Unready
from proxy.records.call import Key
from proxy.store.sql import schema
from proxy.store.sql.access.api_key_cache import ApiKeyCache
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.database import write_transaction

NOW = 1_790_000_000.0


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as threads:
        yield threads


@pytest.fixture
def teams(engine: Engine) -> Teams:
    return Teams(engine)


@pytest.fixture
def keyring(engine: Engine, threads: ThreadPoolExecutor) -> ApiKeyCache:
    return ApiKeyCache(engine, threads, bound=3)


def a_key(teams: Teams, name: str) -> tuple[str, str]:
    """The id and the secret of a key of a new team."""
    team = teams.create(name, now=NOW, keeps_prompts=True)
    key, secret = teams.create_key(team.id, name, now=NOW, feature="chat")
    return key.id, secret


def look(keyring: ApiKeyCache, secret: str) -> Key | None:
    return asyncio.run(keyring.fetch(secret))


def test_a_key_is_looked_up_once_and_found_in_memory_from_then_on(
    keyring: ApiKeyCache, teams: Teams
) -> None:
    key_id, secret = a_key(teams, "support")
    before = keyring.find(secret)
    looked = look(keyring, secret)

    assert before is None
    assert looked is keyring.find(secret) or looked == keyring.find(secret)
    assert looked is not None
    assert (looked.id, looked.team_name, looked.feature) == (key_id, "support", "chat")
    assert looked.keeps_prompts
    assert not looked.revoked


def test_a_key_is_found_by_its_id_as_the_database_has_it(
    keyring: ApiKeyCache, teams: Teams
) -> None:
    key_id, secret = a_key(teams, "support")
    before = asyncio.run(keyring.fetch_by_id(key_id))
    teams.revoke(key_id, now=NOW)
    after = asyncio.run(keyring.fetch_by_id(key_id))

    assert before is not None
    assert after is not None
    assert (before.team_name, before.revoked, after.revoked) == ("support", False, True)
    assert asyncio.run(keyring.fetch_by_id("key_none")) is None
    assert asyncio.run(keyring.fetch_by_id(secret)) is None


def test_keys_there_at_the_start_need_no_look(keyring: ApiKeyCache, teams: Teams) -> None:
    key_id, secret = a_key(teams, "support")
    keyring.start()
    key = keyring.find(secret)
    keyring.close()

    assert key is not None
    assert key.id == key_id


def test_a_string_that_is_no_key_finds_no_key(keyring: ApiKeyCache) -> None:
    assert look(keyring, "tg-" + "x" * 40) is None
    assert look(keyring, "sk-of-another-provider") is None
    assert look(keyring, "") is None


def test_a_wrong_key_is_not_asked_for_again_before_the_next_refresh(
    keyring: ApiKeyCache, engine: Engine
) -> None:
    wrong = "tg-" + "x" * 40
    look(keyring, wrong)
    go_away(engine)
    remembered = look(keyring, wrong)
    keyring.refresh()

    assert remembered is None
    with pytest.raises(Unready):
        look(keyring, wrong)


def test_a_revoked_key_is_known_as_revoked_after_the_next_refresh(
    keyring: ApiKeyCache, teams: Teams
) -> None:
    key_id, secret = a_key(teams, "support")
    look(keyring, secret)
    teams.revoke(key_id, now=NOW)
    keyring.refresh()
    key = keyring.find(secret)

    assert key is not None
    assert key.revoked


def test_a_team_that_opts_out_is_noticed_as_well(keyring: ApiKeyCache, teams: Teams) -> None:
    _, secret = a_key(teams, "support")
    key = look(keyring, secret)
    assert key is not None
    teams.keep_prompts(key.team, keeps=False, now=NOW)
    keyring.refresh()
    key = keyring.find(secret)

    assert key is not None
    assert not key.keeps_prompts


def test_with_the_database_away_known_keys_hold_and_others_wait(
    keyring: ApiKeyCache, teams: Teams, engine: Engine
) -> None:
    _, cached = a_key(teams, "support")
    key_id, unseen = a_key(teams, "coding")
    look(keyring, cached)
    keyring.refresh()
    well = keyring.trouble
    go_away(engine)
    keyring.refresh()

    assert well is None
    assert keyring.trouble == "changes to keys go unnoticed: the database cannot be reached"
    assert keyring.find(cached) is not None
    with pytest.raises(Unready, match="cannot check this key") as refusal:
        look(keyring, unseen)
    assert refusal.value.retry_after == 2

    come_back(engine)
    keyring.refresh()
    assert keyring.trouble is None
    key = look(keyring, unseen)
    assert key is not None
    assert key.id == key_id


def test_a_change_missed_while_the_database_fell_over_is_made_up_for(
    keyring: ApiKeyCache, teams: Teams, engine: Engine
) -> None:
    key_id, secret = a_key(teams, "support")
    look(keyring, secret)
    teams.revoke(key_id, now=NOW)
    rename(engine, "teams", "away")  # the count of changes can be read, the keys cannot
    keyring.refresh()
    rename(engine, "away", "teams")
    keyring.refresh()
    key = keyring.find(secret)

    assert key is not None
    assert key.revoked


def test_while_nothing_changes_a_refresh_reads_one_number(
    keyring: ApiKeyCache, teams: Teams, engine: Engine
) -> None:
    _, secret = a_key(teams, "support")
    look(keyring, secret)
    keyring.refresh()
    rename(engine, "keys", "away")
    keyring.refresh()

    assert keyring.trouble is None


def test_the_keys_not_used_for_longest_are_forgotten(keyring: ApiKeyCache, teams: Teams) -> None:
    secrets = [a_key(teams, f"team {n}")[1] for n in range(4)]
    for secret in secrets[:3]:
        look(keyring, secret)
    keyring.find(secrets[0])
    look(keyring, secrets[3])

    assert [keyring.find(secret) is not None for secret in secrets] == [True, False, True, True]


def test_strings_known_to_be_no_key_take_bounded_room(keyring: ApiKeyCache) -> None:
    for n in range(9):
        look(keyring, "tg-" + str(n) * 40)

    assert len(keyring._unknown) <= 3


def test_an_answer_older_than_a_change_already_noticed_is_not_remembered(
    keyring: ApiKeyCache, teams: Teams
) -> None:
    _, secret = a_key(teams, "support")
    keyring._noticed = 99

    key = look(keyring, secret)

    assert key is not None
    assert keyring.find(secret) is None


def test_key_cache_holds_the_team_names_of_its_keys(keyring: ApiKeyCache, teams: Teams) -> None:
    _, secret = a_key(teams, "support")
    key = look(keyring, secret)

    assert key is not None
    assert keyring.team_name(key.team) == "support"
    assert keyring.team_name("team_unknown") == "team_unknown"


def test_keys_of_an_earlier_start_are_found_without_the_database_and_others_wait(
    teams: Teams, engine: Engine, threads: ThreadPoolExecutor
) -> None:
    key_id, secret = a_key(teams, "support")
    _, unseen = a_key(teams, "coding")
    earlier = ApiKeyCache(engine, threads, bound=3)
    look(earlier, secret)
    later = ApiKeyCache(engine, threads, bound=3)
    later.restore(earlier.cached_keys(), 2)
    go_away(engine)
    key = later.find(secret)

    assert key is not None
    assert (key.id, later.teams, later.team_name(key.team)) == (key_id, 2, "support")
    with pytest.raises(Unready):
        look(later, unseen)


def test_no_more_keys_are_restored_than_are_remembered(keyring: ApiKeyCache) -> None:
    key = Key(id="key_1", team="team_1", team_name="support")
    keyring.restore({bytes([n]): key for n in range(5)}, 1)

    assert list(keyring.cached_keys()) == [bytes([n]) for n in (2, 3, 4)]


def test_restored_keys_are_not_current_before_the_database_has_confirmed_them(
    keyring: ApiKeyCache, teams: Teams, engine: Engine
) -> None:
    key_id, secret = a_key(teams, "support")
    earlier = look(keyring, secret)
    assert earlier is not None
    keyring.restore(keyring.cached_keys(), 1)
    before = (keyring.is_current, keyring.revision)
    teams.revoke(key_id, now=NOW)
    keyring.refresh()
    after = (keyring.is_current, keyring.revision)
    key = keyring.find(secret)
    go_away(engine)
    keyring.refresh()

    assert (before[0], after[0], keyring.is_current) == (False, True, False)
    assert after[1] > before[1]
    assert key is not None
    assert key.revoked


def test_a_key_that_a_restored_database_lacks_is_forgotten(
    keyring: ApiKeyCache, teams: Teams, engine: Engine
) -> None:
    key_id, secret = a_key(teams, "support")
    _, other = a_key(teams, "coding")
    look(keyring, secret)
    look(keyring, other)
    with write_transaction(engine) as connection:
        connection.execute(delete(schema.keys).where(schema.keys.c.id == key_id))
    keyring.refresh()

    assert keyring.find(secret) is None
    assert keyring.find(other) is not None


def go_away(engine: Engine) -> None:
    rename(engine, "meta", "away")


def come_back(engine: Engine) -> None:
    rename(engine, "away", "meta")


def rename(engine: Engine, table: str, name: str) -> None:
    with write_transaction(engine) as connection:
        connection.exec_driver_sql(f"ALTER TABLE {table} RENAME TO {name}")
