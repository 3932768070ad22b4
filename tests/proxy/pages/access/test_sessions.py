"""Sessions in memory: read again every few seconds, and kept through a short outage."""

import asyncio

import pytest

from proxy.errors import Unready
from proxy.pages.access.sessions import FRESH_S, OUTAGE_GRACE_S, AdminSessions
from proxy.store.sql.access.admin_sessions import IDLE_TIMEOUT_S
from tests.fakes.clock import ManualClock
from tests.fakes.page_access import InMemoryAccess, a_person


class Process:
    """One process with sessions, over what all processes share."""

    def __init__(self, saved: InMemoryAccess | None = None) -> None:
        self.kept = saved or InMemoryAccess()
        self.clock = ManualClock(1_790_000_000.0)
        self.sessions = AdminSessions(self.kept, self.kept, self.clock)

    def begin(self, *, is_token: bool = False) -> str:
        person = None if is_token else a_person()
        holder = "token:1" if person is None else person.id
        return asyncio.run(self.sessions.begin(person, holder, "password", "Firefox"))

    def is_open(self, session: str) -> bool:
        return asyncio.run(self.sessions.find(session)) is not None

    def end(self, session: str) -> None:
        asyncio.run(self.sessions.end(session))


def test_ids_are_long_of_chance_and_kept_by_their_hash_alone() -> None:
    process = Process()
    ids = {process.begin() for _ in range(50)}

    assert len(ids) == 50
    assert all(len(session_id) == 43 for session_id in ids)  # 256 bits, six to a letter
    seen = repr((process.kept.sessions, process.sessions._cached))
    assert not any(session_id in seen for session_id in ids)


def test_many_requests_ask_the_database_once_in_a_few_seconds() -> None:
    process = Process()
    mine = process.begin()
    before = process.kept.questions
    for _ in range(100):
        assert process.is_open(mine)
    assert process.kept.questions == before

    process.clock.now += FRESH_S
    assert process.is_open(mine)
    assert process.kept.questions == before + 1


def test_a_session_that_another_process_ended_closes_within_seconds() -> None:
    here = Process()
    there = Process(here.kept)
    mine = here.begin()
    assert there.is_open(mine)
    there.end(mine)

    assert here.is_open(mine)
    here.clock.now += FRESH_S
    assert not here.is_open(mine)


def test_a_session_outlasts_a_short_outage_and_no_long_one() -> None:
    process = Process()
    mine = process.begin()
    process.kept.is_away = True
    process.clock.now += OUTAGE_GRACE_S - 1
    assert process.is_open(mine)
    process.clock.now += 1
    assert not process.is_open(mine)

    process.kept.is_away = False
    assert process.is_open(mine)


def test_the_token_opens_a_session_in_this_process_while_the_database_is_away() -> None:
    process = Process()
    process.kept.is_away = True
    with pytest.raises(Unready):
        process.begin()
    mine = process.begin(is_token=True)
    for _ in range(20):
        process.clock.now += IDLE_TIMEOUT_S - 1
        assert process.is_open(mine)
    process.clock.now += IDLE_TIMEOUT_S

    assert not process.is_open(mine)
    assert process.kept.sessions == {}


def test_a_session_that_is_not_used_ends() -> None:
    process = Process()
    mine = process.begin()
    process.clock.now += IDLE_TIMEOUT_S

    assert not process.is_open(mine)


def test_a_persons_sessions_are_read_again_when_they_changed() -> None:
    process = Process()
    mine, before = process.begin(), process.kept.questions
    process.sessions.forget("user_other")
    assert process.is_open(mine)
    assert process.kept.questions == before
    process.sessions.forget("user_ann")
    assert process.is_open(mine)
    assert process.kept.questions == before + 1


@pytest.mark.parametrize("value", ["", "short", "x" * 43, "x" * 5000, "\ud800" * 43])
def test_unknown_sessions_are_not_open_and_texts_that_are_none_ask_nobody(value: str) -> None:
    process = Process()

    assert not process.is_open(value)
    assert process.kept.questions == (1 if len(value) == 43 else 0)
    process.end(value)
