import logging

import pytest

from proxy.store.journal.backlog import Backlog
from proxy.store.journal.lines import frame

ONE, TWO = b'{"call_id":"call_1"}', b'{"call_id":"call_2"}'
SIZE = len(frame(ONE))


def backlog_of(*lines: bytes, bound: int = 10 * SIZE) -> Backlog:
    backlog = Backlog(bound)
    for line in lines:
        backlog.add(frame(line))
    return backlog


def test_receipts_wait_in_order_and_count_their_bytes() -> None:
    backlog = backlog_of(ONE, TWO)

    assert backlog.lines(9) == [ONE, TWO]
    assert backlog.lines(1) == [ONE]
    assert (backlog.oldest, backlog.size) == (frame(ONE), 2 * SIZE)
    backlog.drop_oldest()
    assert (backlog.oldest, backlog.size) == (frame(TWO), SIZE)


def test_a_receipt_beyond_the_bound_goes_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    backlog = backlog_of(ONE, bound=2 * SIZE - 1)
    with caplog.at_level(logging.CRITICAL):
        backlog.add(frame(TWO))

    assert backlog.lines(9) == [ONE]
    assert (backlog.size, backlog.lost) == (SIZE, 1)
    assert "call_2" in caplog.text


def test_receipts_kept_elsewhere_are_forgotten_as_far_as_none_is_missing() -> None:
    backlog = backlog_of(ONE, TWO, ONE)
    backlog.forget([TWO])
    assert backlog.lines(9) == [ONE, TWO, ONE]

    backlog.forget([ONE])

    assert (backlog.lines(9), backlog.size) == ([TWO, ONE], 2 * SIZE)


def test_all_that_waits_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    backlog = backlog_of(ONE, TWO)
    with caplog.at_level(logging.CRITICAL):
        assert backlog.log_all() == 2

    assert not backlog
    assert (backlog.size, backlog.lost) == (0, 2)
    assert [record.levelno for record in caplog.records] == [logging.CRITICAL] * 2
