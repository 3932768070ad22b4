import time
from urllib.parse import urlsplit

from sqlalchemy import Engine

from proxy.store.sql.database import open_database
from proxy.store.sql.singleton_lock import singleton_lock
from tests.fakes.wire_cut import WireCut


def test_the_first_on_a_database_is_alone_until_it_leaves(url):
    one, other = open_database(url), open_database(url)
    with singleton_lock(one) as first:
        with singleton_lock(other) as second:
            assert (first, second) == (True, False)
        with singleton_lock(other) as third:
            assert not third
    with singleton_lock(other) as last:
        assert last
    one.dispose()
    other.dispose()


def test_leaving_while_the_database_is_away_raises_nothing_and_releases_the_lock(postgres):
    server = urlsplit(postgres)
    user, _, _ = server.netloc.rpartition("@")
    with WireCut(server.hostname or "", server.port or 5432) as wire:
        url = server._replace(netloc=f"{user}@127.0.0.1:{wire.port}").geturl()
        one, other = open_database(url), open_database(postgres)
        with singleton_lock(one) as first:
            wire.cut()
        until = time.monotonic() + 20
        while not (is_released := _is_alone(other)) and time.monotonic() < until:
            time.sleep(0.05)

    assert first
    assert is_released
    one.dispose()
    other.dispose()


def _is_alone(engine: Engine) -> bool:
    with singleton_lock(engine) as is_alone:
        return is_alone


def test_on_different_databases_each_is_alone(tmp_path):
    engines = [open_database(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    with singleton_lock(engines[0]) as first, singleton_lock(engines[1]) as second:
        assert (first, second) == (True, True)
    for engine in engines:
        engine.dispose()
