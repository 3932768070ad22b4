from proxy.pages.admin_sessions import (
    IDLE_TIMEOUT_S,
    MAX_FAILURES,
    MAX_SESSION_S,
    MAX_SESSIONS,
    AdminSessions,
    AdminToken,
)
from tests.fakes.objective_process import ManualClock

TOKEN = "an-admin-token-of-24-chars"


def test_a_session_holds_while_it_is_used() -> None:
    watch = ManualClock(0.0)
    sessions = AdminSessions(watch)
    mine = sessions.begin()
    for _ in range(20):
        watch.now += IDLE_TIMEOUT_S - 1
        assert sessions.is_open(mine)


def test_a_session_that_is_not_used_ends() -> None:
    watch = ManualClock(0.0)
    sessions = AdminSessions(watch)
    mine = sessions.begin()
    watch.now += IDLE_TIMEOUT_S

    assert not sessions.is_open(mine)


def test_no_session_goes_on_for_longer_than_half_a_day() -> None:
    watch = ManualClock(0.0)
    sessions = AdminSessions(watch)
    mine = sessions.begin()
    while watch.now < MAX_SESSION_S - 60:
        watch.now += 60
        assert sessions.is_open(mine)
    watch.now += 60

    assert not sessions.is_open(mine)


def test_ids_are_long_of_chance_and_kept_by_their_hash_alone() -> None:
    sessions = AdminSessions(ManualClock(0.0))
    ids = {sessions.begin() for _ in range(MAX_SESSIONS)}

    assert len(ids) == MAX_SESSIONS
    assert all(len(each) == 43 for each in ids)  # 256 bits, six to a letter
    kept = repr(sessions._open)
    assert not any(each in kept for each in ids)


def test_an_ended_or_unknown_session_is_not_open() -> None:
    sessions = AdminSessions(ManualClock(0.0))
    mine, others = sessions.begin(), sessions.begin()
    sessions.end(mine)
    sessions.end("nobody's")

    assert not sessions.is_open(mine)
    assert sessions.is_open(others)
    assert not sessions.is_open("")
    assert not sessions.is_open("\ud800")


def test_sessions_are_bounded_and_the_one_that_was_longest_not_used_gives_way() -> None:
    watch = ManualClock(0.0)
    sessions = AdminSessions(watch)
    first, second = sessions.begin(), sessions.begin()
    for _ in range(MAX_SESSIONS):
        watch.now += 1
        assert sessions.is_open(first)
        sessions.begin()

    assert len(sessions._open) == MAX_SESSIONS
    assert sessions.is_open(first)
    assert not sessions.is_open(second)


def test_the_token_matches_itself_alone() -> None:
    secret = AdminToken(TOKEN, ManualClock(0.0))

    assert secret.matches(TOKEN)
    assert not any(secret.matches(each) for each in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper()))


def test_after_five_misses_in_a_minute_more_have_to_wait_until_the_first_is_a_minute_old() -> None:
    watch = ManualClock(1000.0)
    secret = AdminToken(TOKEN, watch)
    for _ in range(MAX_FAILURES):
        assert secret.record_failure() == 0.0
        watch.now += 10.0

    assert [secret.record_failure(), secret.record_failure()] == [10.0, 10.0]
    watch.now += 10.0
    assert secret.record_failure() == 0.0
    assert secret.record_failure() == 10.0


def test_the_token_matches_however_often_it_was_missed() -> None:
    secret = AdminToken(TOKEN, ManualClock(0.0))
    for _ in range(MAX_FAILURES + 1):
        secret.record_failure()

    assert secret.matches(TOKEN)
