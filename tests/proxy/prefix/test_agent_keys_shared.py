"""Sessions of an agent that share a cache key, and those that keep their own."""

from itertools import count

import pytest

from proxy.prefix.agent_keys import AgentSession, KeyCosts, SharedCacheKeys

MAX_CALLS_PER_MINUTE = 15
MAX_SHORT_CALLS = 3

#: A token that is written instead of read, in uncached ones.
PRICE = 1.15
#: Tokens of every prompt here, of which so many are shared.
TOKENS, SHARED = 12_000, 10_000
#: Uncached tokens that sessions may lose together: a little more than to write one prompt anew.
STAKE = 15_000.0
NAME = "beginning"
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class SharedKeySessions:
    """Sessions of one agent, and the key of each."""

    def __init__(self, stake: float = 0.0) -> None:
        self.keys = SharedCacheKeys()
        self.costs = KeyCosts(PRICE, SHARED, TOKENS, stake)
        self._numbers = count()

    def run(self, at: float, calls: int = 1, step: float = 10.0, *, reads: int = 0) -> str:
        """Run a session with calls so many seconds apart, of which the first reads so much.

        Returns:
            Its shared key; "" for its own.
        """
        session, key = self.begin(at)
        for call in range(calls):
            self.call(session, at + call * step, call, saved=reads * PRICE if not call else 0.0)
        return key

    def begin(self, at: float, name: str = NAME) -> tuple[bytes, str]:
        """A session that begins, and its key."""
        session = b"session %d" % next(self._numbers)
        return session, self.keys.choose_key(session, name, at, self.costs)

    def call(self, session: bytes, at: float, answers: int = 0, *, saved: float = 0.0) -> float:
        """Make a call that is answered; return what it lost."""
        self.keys.record_call(session, at, answers)
        return self.keys.record_answer(session, TOKENS, saved, at)


def share_key(sessions: SharedKeySessions, number: int, begins: float = 0.0) -> float:
    """Let so many sessions share a key, one every ten minutes; return the time of the next."""
    for index in range(number):
        sessions.run(begins + index * 10 * MINUTE, 2, reads=SHARED if index else 0)
    return begins + number * 10 * MINUTE


def test_a_first_session_begins_on_a_shared_key():
    assert SharedKeySessions().run(0.0).startswith(NAME)


def test_a_session_after_one_that_ended_shares_its_key():
    sessions = SharedKeySessions()

    assert sessions.run(0.0, 3) == sessions.run(10 * MINUTE, 3)


def test_a_session_keeps_its_key_however_busy_that_becomes():
    sessions = SharedKeySessions()
    session, key = sessions.begin(0.0)
    for call in range(60):
        sessions.call(session, float(call), call)

    for name in (NAME, "another beginning"):
        assert sessions.keys.choose_key(session, name, 61.0, sessions.costs) == key


def test_short_sessions_a_few_seconds_apart_share_keys_at_once():
    sessions = SharedKeySessions(STAKE)
    keys = [
        sessions.run(6.0 * index, 2, 3.0, reads=SHARED if index % 3 else 0) for index in range(9)
    ]

    assert "" not in keys[:8]
    assert keys[0] == keys[1] == keys[2] != keys[3] == keys[4] == keys[5]


def test_without_a_stake_no_session_joins_others_before_savings():
    sessions = SharedKeySessions()
    sessions.run(0.0)

    assert sessions.run(3.0) == ""


def test_sessions_of_a_burst_join_only_while_all_that_they_may_lose_fits_the_stake():
    """Each should read 10,000 of 12,000 tokens: 2,000 are at risk, or 12,000 once it did not."""
    expected, unread = SharedKeySessions(STAKE), SharedKeySessions(STAKE)
    read = [expected.run(index / 10, reads=SHARED if index % 3 else 0) for index in range(20)]
    missed = [unread.run(index / 10) for index in range(20)]

    assert len(read) - read.count("") == 6 + 4, "six joined, four began a key"
    assert len(missed) - missed.count("") == 1 + 1, "one joined, one began a key"


def test_a_session_joins_no_key_of_which_no_call_was_answered_yet():
    """Nothing is to be read there, so it would only take room and risk."""
    sessions = SharedKeySessions(STAKE)
    first, key = sessions.begin(0.0)

    assert sessions.run(1.0) == ""
    sessions.call(first, 2.0)
    assert sessions.run(3.0) == key


def test_sessions_of_a_burst_that_turn_out_long_keep_their_keys():
    """To leave a key is to write the whole prompt anew."""
    sessions = SharedKeySessions(STAKE)
    first, _ = sessions.begin(0.0)
    sessions.call(first, 0.0)
    burst = [sessions.begin(1.0 + index / 10) for index in range(8)]
    assert burst[0][1] == burst[1][1] == NAME
    for call in range(12):
        for session, key in burst:
            sessions.call(session, 1.0 + 5.0 * call, call)
            assert sessions.keys.choose_key(session, NAME, 100.0, sessions.costs) == key


def test_no_session_joins_on_the_stake_once_one_made_more_than_three_calls():
    sessions = SharedKeySessions(STAKE)
    sessions.run(0.0, MAX_SHORT_CALLS, step=1.0)
    key = sessions.run(5.0, MAX_SHORT_CALLS + 1, step=1.0, reads=SHARED)

    assert key
    assert sessions.run(10.0) == ""


def test_once_the_stake_is_lost_sessions_share_by_savings_alone():
    sessions = SharedKeySessions(STAKE)
    sessions.run(0.0)
    session, key = sessions.begin(3.0)
    lost = [sessions.call(session, 3.0, 0, saved=-TOKENS * PRICE) for _ in range(3)]

    assert lost == [TOKENS * PRICE, TOKENS * PRICE, 0.0]
    assert key
    assert sessions.run(4.0) == ""
    now = share_key(sessions, 5, HOUR)
    assert sessions.run(now) == sessions.run(now + 20.0) != ""


def test_a_loss_within_the_stake_is_no_lost_stake_while_the_team_may_lose_no_more():
    sessions = SharedKeySessions(STAKE)
    sessions.run(0.0)
    joined, _ = sessions.begin(3.0)
    sessions.call(joined, 3.0, saved=-SHARED)
    sessions.costs = sessions.costs._replace(stake=0.0)
    assert sessions.run(6.0) == "", "nothing is staked meanwhile"

    sessions.call(joined, 7.0, 1, saved=-1.0)
    sessions.costs = sessions.costs._replace(stake=STAKE)

    assert sessions.run(DAY) == NAME
    assert sessions.run(DAY + 3.0) == NAME


def test_savings_let_a_session_join_others_that_still_call():
    sessions = SharedKeySessions()
    now = share_key(sessions, 3)
    key = sessions.run(now, 2, reads=SHARED)

    assert sessions.run(now + 20.0, 2) == key


def test_savings_cover_one_risk_for_each_session_that_joined():
    sessions = SharedKeySessions()
    now = share_key(sessions, 3)  # saved two readings: of 12,000 tokens one could be written anew
    joined = [sessions.run(now + index, 1) for index in range(4)]

    assert joined[0] == joined[1] != ""
    assert joined[2:] == ["", ""]


def test_busy_sessions_do_not_share_a_key():
    sessions = SharedKeySessions()
    now = share_key(sessions, 8)
    busy, key = sessions.begin(now)
    for call in range(MAX_CALLS_PER_MINUTE):
        sessions.call(busy, now + call, call)
    other = sessions.run(now + 20.0)

    assert other not in ("", key)


def test_busy_sessions_before_are_expected_again():
    """Each made 12 calls in a minute, so two do not fit one key of 15."""
    sessions = SharedKeySessions()
    for number in range(8):
        sessions.run(number * HOUR, 12, step=2.0, reads=SHARED)
    first, second = sessions.run(9 * HOUR), sessions.run(9 * HOUR + 30)

    assert first.startswith(NAME)
    assert second.startswith(NAME)
    assert first != second


def test_the_rate_on_a_key_stays_below_the_documented_one_where_sessions_keep_their_habits():
    sessions, calls = SharedKeySessions(), dict[str, list[float]]()
    for number in range(400):
        at = number * 20.0
        session, key = sessions.begin(at)
        for call in range(4):
            sessions.call(session, at + call, call, saved=SHARED * PRICE if not call else 0.0)
            calls.setdefault(key, []).append(at + call)
    shared = {key: times for key, times in calls.items() if key}

    assert sum(map(len, shared.values())) > 0.9 * sum(map(len, calls.values()))
    for times in shared.values():
        assert all(
            len([time for time in times if at - MINUTE < time <= at]) <= MAX_CALLS_PER_MINUTE
            for at in times
        )


def test_sharing_that_cost_more_than_it_saved_ends_for_a_day():
    sessions = SharedKeySessions()
    now = share_key(sessions, 2)
    session, key = sessions.begin(now)
    assert key
    sessions.call(session, now, saved=-3 * TOKENS * PRICE)

    assert sessions.run(now + DAY - 1) == ""
    assert sessions.run(now + DAY) == key


@pytest.mark.parametrize(
    ("earlier", "pause", "held_s"),
    [(2, 10.0, 300), (3, 10.0, 120), (3, 400.0, 600), (3, 1_800.0, 1_800)],
    ids=["too few habits", "short pauses", "half as long again as a pause", "long pauses"],
)
def test_a_session_holds_its_place_for_as_long_as_earlier_ones_paused(
    earlier: int, pause: float, held_s: int
):
    for silent_s, key in ((held_s, ""), (held_s + 1, NAME)):
        sessions = SharedKeySessions()
        for number in range(earlier):
            sessions.run(number * DAY, 2, step=pause)
        sessions.run(earlier * DAY)

        assert sessions.run(earlier * DAY + silent_s) == key


@pytest.mark.parametrize(("quiet", "is_expected"), [(62, True), (63, False)])
def test_a_busy_session_is_expected_again_while_it_is_one_of_the_latest_64(
    quiet: int, *, is_expected: bool
):
    sessions = SharedKeySessions()
    sessions.run(0.0, 12, step=2.0)
    for number in range(quiet):
        sessions.run((1 + number) * HOUR, reads=SHARED)
    first, second = sessions.run(99 * HOUR), sessions.run(99 * HOUR + 10)

    assert (first != second) == is_expected


@pytest.mark.parametrize(("second", "peak"), [(59.9, 2), (60.0, 1)])
def test_a_sessions_busiest_minute_ends_after_sixty_seconds(second: float, peak: int):
    session = AgentSession(begins=0.0)
    session.record_call(0.0, 0)
    session.record_call(second, 1)

    assert session.peak == peak


def test_a_beginning_has_64_shared_keys():
    sessions = SharedKeySessions()
    keys = [sessions.run(0.0, MAX_CALLS_PER_MINUTE, step=0.0) for _ in range(65)]

    assert keys.index("") == 64
    assert len(set(keys)) == 65


def test_calls_that_another_process_sent_are_counted_by_their_answers():
    sessions = SharedKeySessions()
    now = share_key(sessions, 8)
    session, key = sessions.begin(now)
    sessions.call(session, now, 0)
    sessions.call(session, now + 30.0, 14)

    assert sessions.run(now + 40.0) not in ("", key)


def test_prompts_that_begin_otherwise_have_keys_of_their_own():
    sessions = SharedKeySessions()

    assert sessions.begin(0.0, "one")[1] != sessions.begin(0.0, "two")[1]


def test_calls_and_answers_of_unknown_sessions_are_ignored():
    keys = SharedCacheKeys()
    keys.record_call(b"unknown", 0.0, 0)
    keys.record_answer(b"unknown", TOKENS, -1e9, 0.0)

    assert keys.choose_key(b"known", NAME, 1.0, KeyCosts(PRICE)) == NAME


def test_bytes_of_a_beginning_count_its_sessions_and_are_bounded():
    keys = SharedCacheKeys()
    beginnings, _ = keys.indexes
    sizes = []
    for number in range(1_000):
        keys.choose_key(b"%d" % number, NAME, float(number), KeyCosts(PRICE))
        sizes.append(beginnings.size_bytes)

    assert sizes[:2] == [3_100, 4_200]
    assert sizes[254] < sizes[255] == sizes[-1] == 2_000 + 256 * 1_100
