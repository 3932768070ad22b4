"""Tests of what is cached of the database is looked after, and says when it cannot be."""

import threading

import msgspec
import pytest

from proxy.store.errors import StoreError
from proxy.store.sql.change_poller import ChangePoller


def away() -> None:
    raise StoreError("away")


def test_change_poller_polls_until_it_is_closed():
    seen = threading.Semaphore(0)
    lookout = ChangePoller("keys", seen.release, every=0.001)
    lookout.start()

    assert all(seen.acquire(timeout=10) for _ in range(3))
    lookout.close()
    assert not lookout._thread.is_alive()


def test_change_poller_may_be_closed_before_it_began():
    ChangePoller("keys", away).close()


def test_a_database_that_is_away_is_logged_once_and_forgotten_when_it_is_back(caplog):
    answers = [StoreError("away")] * 2

    def look() -> None:
        if answers:
            raise answers.pop()

    lookout = ChangePoller("keys", look)
    lookout.poll()
    lookout.poll()
    assert lookout.trouble == "changes to keys go unnoticed: the database cannot be reached"
    assert len(caplog.records) == 1

    lookout.poll()
    assert lookout.trouble is None


@pytest.mark.parametrize(
    "unread", [ValueError("'of tomorrow' is no mode"), msgspec.DecodeError("no JSON")]
)
def test_a_row_that_cannot_be_read_is_logged_once_and_what_was_known_holds(caplog, unread):
    seen, rows = [1], [3, unread, unread, 2]

    def look() -> None:
        row = rows.pop()
        if isinstance(row, Exception):
            raise row
        seen[:] = [row]

    lookout = ChangePoller("layouts", look)
    for _ in range(3):
        lookout.poll()
    assert seen == [2]
    assert lookout.trouble == "changes to layouts go unnoticed: a row cannot be read"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert str(unread) in caplog.text

    lookout.poll()
    assert seen == [3]
    assert lookout.trouble is None


def test_the_thread_goes_on_after_a_row_that_it_cannot_read():
    seen = threading.Semaphore(0)

    def look() -> None:
        seen.release()
        raise ValueError("of tomorrow")

    lookout = ChangePoller("layouts", look, every=0.001)
    lookout.start()

    assert all(seen.acquire(timeout=10) for _ in range(3))
    lookout.close()


def test_another_reason_is_reported_too(caplog):
    answers: list[Exception] = [ValueError("of tomorrow"), StoreError("")]

    def look() -> None:
        raise answers.pop()

    lookout = ChangePoller("keys", look)
    lookout.poll()
    lookout.poll()

    assert len(caplog.records) == 2
    assert lookout.trouble == "changes to keys go unnoticed: a row cannot be read"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_mistake_ends_the_thread_and_the_trouble_stays(caplog):
    def look() -> None:
        raise KeyError("a mistake of ours")

    lookout = ChangePoller("keys", look, every=0.001)
    lookout.start()
    lookout._thread.join(10)

    assert lookout.trouble == "changes to keys go unnoticed: looking for them failed"
    assert [record.levelname for record in caplog.records] == ["CRITICAL"]
    lookout.close()
