from proxy.store.alone import alone
from proxy.store.database import open_database


def test_the_first_on_a_database_is_alone_until_it_leaves(url):
    one, other = open_database(url), open_database(url)
    with alone(one) as first:
        with alone(other) as second:
            assert (first, second) == (True, False)
        with alone(other) as third:
            assert not third
    with alone(other) as last:
        assert last
    one.dispose()
    other.dispose()


def test_on_different_databases_each_is_alone(tmp_path):
    engines = [open_database(f"sqlite:///{tmp_path}/{name}.db") for name in "ab"]
    with alone(engines[0]) as first, alone(engines[1]) as second:
        assert (first, second) == (True, True)
    for engine in engines:
        engine.dispose()
