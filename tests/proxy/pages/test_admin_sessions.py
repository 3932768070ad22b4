from proxy.pages.admin_sessions import FAILURES, IDLE, LONGEST, MOST, Secret, Sessions
from tests.fakes.steered import Watch

TOKEN = "an-admin-token-of-24-chars"


def test_a_session_holds_while_it_is_used() -> None:
    watch = Watch(0.0)
    sessions = Sessions(watch)
    mine = sessions.begin()
    for _ in range(20):
        watch.now += IDLE - 1
        assert sessions.holds(mine)


def test_a_session_that_is_not_used_ends() -> None:
    watch = Watch(0.0)
    sessions = Sessions(watch)
    mine = sessions.begin()
    watch.now += IDLE

    assert not sessions.holds(mine)


def test_no_session_goes_on_for_longer_than_half_a_day() -> None:
    watch = Watch(0.0)
    sessions = Sessions(watch)
    mine = sessions.begin()
    while watch.now < LONGEST - 60:
        watch.now += 60
        assert sessions.holds(mine)
    watch.now += 60

    assert not sessions.holds(mine)


def test_ids_are_long_of_chance_and_kept_by_their_hash_alone() -> None:
    sessions = Sessions(Watch(0.0))
    ids = {sessions.begin() for _ in range(MOST)}

    assert len(ids) == MOST
    assert all(len(each) == 43 for each in ids)  # 256 bits, six to a letter
    kept = repr(sessions._open)
    assert not any(each in kept for each in ids)


def test_what_was_ended_or_never_began_holds_nothing() -> None:
    sessions = Sessions(Watch(0.0))
    mine, others = sessions.begin(), sessions.begin()
    sessions.end(mine)
    sessions.end("nobody's")

    assert not sessions.holds(mine)
    assert sessions.holds(others)
    assert not sessions.holds("")
    assert not sessions.holds("\ud800")


def test_sessions_are_bounded_and_the_one_that_was_longest_not_used_gives_way() -> None:
    watch = Watch(0.0)
    sessions = Sessions(watch)
    first, second = sessions.begin(), sessions.begin()
    for _ in range(MOST):
        watch.now += 1
        assert sessions.holds(first)
        sessions.begin()

    assert len(sessions._open) == MOST
    assert sessions.holds(first)
    assert not sessions.holds(second)


def test_the_token_matches_itself_alone() -> None:
    secret = Secret(TOKEN, Watch(0.0))

    assert secret.matches(TOKEN)
    assert not any(secret.matches(each) for each in ("", TOKEN[:-1], TOKEN + "x", TOKEN.upper()))


def test_after_five_misses_in_a_minute_more_have_to_wait_until_the_first_is_a_minute_old() -> None:
    watch = Watch(1000.0)
    secret = Secret(TOKEN, watch)
    for _ in range(FAILURES):
        assert secret.missed() == 0.0
        watch.now += 10.0

    assert [secret.missed(), secret.missed()] == [10.0, 10.0]
    watch.now += 10.0
    assert secret.missed() == 0.0
    assert secret.missed() == 10.0


def test_the_token_matches_however_often_it_was_missed() -> None:
    secret = Secret(TOKEN, Watch(0.0))
    for _ in range(FAILURES + 1):
        secret.missed()

    assert secret.matches(TOKEN)
