"""What is cached of the database is looked after, and says when it cannot be."""

import threading

from sqlalchemy.exc import OperationalError

from proxy.store.lookout import Lookout


def away() -> None:
    raise OperationalError("SELECT", {}, OSError("away"))


def test_it_looks_again_and_again_until_it_is_closed():
    seen = threading.Semaphore(0)
    lookout = Lookout("keys", seen.release, every=0.001)
    lookout.start()

    assert all(seen.acquire(timeout=10) for _ in range(3))
    lookout.close()
    assert not lookout._thread.is_alive()


def test_it_may_be_closed_before_it_began():
    Lookout("keys", away).close()


def test_a_database_that_is_away_is_told_of_once_and_forgotten_when_it_is_back(caplog):
    answers = [OperationalError("SELECT", {}, OSError("away"))] * 2

    def look() -> None:
        if answers:
            raise answers.pop()

    lookout = Lookout("keys", look)
    lookout.look()
    lookout.look()
    assert lookout.trouble == "changes to keys go unnoticed: the database is away"
    assert len(caplog.records) == 1

    lookout.look()
    assert lookout.trouble is None
