"""Sessions of an agent that share a cache key, and those that keep their own."""

from itertools import count

from proxy.prefix.agent_keys import (
    MAX_CALLS_ON_STAKE,
    MAX_CALLS_PER_MINUTE,
    KeyCosts,
    SharedCacheKeys,
)

#: A token that is written instead of read, in uncached ones.
PRICE = 1.15
#: Tokens of every prompt here, of which so many are shared.
TOKENS, SHARED = 12_000, 10_000
#: Tokens that a session of few calls stakes: fewer than one prompt.
STAKE = 2_500.0
NAME = "beginning"
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0


class SharedKeySessions:
    """Sessions of one agent, and the key of each."""

    def __init__(self, stake: float = 0.0) -> None:
        self.keys = SharedCacheKeys()
        self.costs = KeyCosts(PRICE, stake)
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
        return session, self.keys.choose_key(session, name, at, self.costs).key

    def call(self, session: bytes, at: float, answers: int = 0, *, saved: float = 0.0) -> None:
        """Make a call that is answered."""
        self.keys.record_call(session, at, answers)
        self.keys.record_answer(session, TOKENS, saved, at)

    def key_now(self, session: bytes, at: float) -> str:
        """The key of a conversation that a session begins now."""
        return self.keys.choose_key(session, NAME, at, self.costs).key


def share_key(sessions: SharedKeySessions, number: int, begins: float = 0.0) -> float:
    """Let so many sessions share a key, one every ten minutes; return the time of the next."""
    for each in range(number):
        sessions.run(begins + each * 10 * MINUTE, 2, reads=SHARED if each else 0)
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

    assert sessions.key_now(session, 61.0) == key


def test_nine_short_sessions_a_few_seconds_apart_share_two_keys():
    sessions = SharedKeySessions(STAKE)
    keys = [sessions.run(3.0 * number, reads=SHARED if number % 5 else 0) for number in range(9)]

    assert len(set(keys[:5])) == len(set(keys[5:])) == 1
    assert len(set(keys)) == 2


def test_without_a_stake_no_session_joins_others_before_savings():
    sessions = SharedKeySessions()
    sessions.run(0.0)

    assert sessions.run(3.0) == ""


def test_a_session_on_the_stake_goes_on_with_its_own_key_after_three_calls():
    sessions = SharedKeySessions(STAKE)
    sessions.run(0.0)
    session = b"joined"
    shared = sessions.keys.choose_key(session, NAME, 1.0, sessions.costs)
    assert shared == (NAME, MAX_CALLS_ON_STAKE)
    for call in range(MAX_CALLS_ON_STAKE):
        sessions.call(session, 1.0 + call, call)
        assert sessions.key_now(session, 5.0) == NAME
    sessions.call(session, 5.0, MAX_CALLS_ON_STAKE)

    assert sessions.key_now(session, 6.0) == ""


def test_a_session_that_made_more_calls_ends_joins_on_the_stake():
    sessions = SharedKeySessions(STAKE)
    sessions.run(0.0, MAX_CALLS_ON_STAKE + 1, step=1.0)

    assert sessions.run(5.0) == ""


def test_sessions_on_the_stake_keep_the_documented_rate_and_are_seven_a_minute():
    sessions, calls = SharedKeySessions(STAKE), dict[str, int]()
    for number in range(20):
        key = sessions.run(number / 10, MAX_CALLS_ON_STAKE, step=0.01, reads=SHARED)
        calls[key] = calls.get(key, 0) + MAX_CALLS_ON_STAKE

    own_calls = calls.pop("")
    assert max(calls.values()) == MAX_CALLS_PER_MINUTE
    assert sum(calls.values()) == 9 * MAX_CALLS_ON_STAKE, "two begin a key, seven are on the stake"
    assert own_calls == 11 * MAX_CALLS_ON_STAKE


def test_losses_beyond_the_stake_end_sharing_and_the_stake():
    sessions = SharedKeySessions(STAKE)
    session, key = sessions.begin(0.0)
    sessions.call(session, 0.0)
    sessions.call(session, 1.0, 1, saved=-TOKENS * PRICE)
    assert sessions.run(HOUR) == key, "one prompt is lost, which the stake allows"
    sessions.call(session, HOUR + 1, 2, saved=-PRICE)

    assert sessions.run(HOUR + 2) == ""
    assert sessions.run(DAY + 2 * HOUR) == key
    assert sessions.run(DAY + 2 * HOUR + 1) == ""


def test_leaving_a_shared_key_counts_as_a_loss_of_the_whole_prompt():
    """The savings of the session after it then do not cover the next one's risk."""
    keys = []
    for calls in (MAX_CALLS_ON_STAKE, MAX_CALLS_ON_STAKE + 1):
        sessions = SharedKeySessions(STAKE)
        first, _ = sessions.begin(0.0)
        sessions.call(first, 0.0)
        sessions.run(1.0, calls, step=1.0, reads=SHARED)
        for call in range(1, MAX_CALLS_ON_STAKE + 1):
            sessions.call(first, 10.0 + call, call)
        sessions.run(HOUR, reads=SHARED)
        keys.append(sessions.run(HOUR + 1))

    assert keys == [NAME, ""]


def test_savings_let_a_session_join_others_that_still_call():
    sessions = SharedKeySessions()
    now = share_key(sessions, 3)
    key = sessions.run(now, 2, reads=SHARED)

    assert sessions.run(now + 20.0, 2) == key


def test_savings_cover_one_risk_for_each_session_that_joined():
    sessions = SharedKeySessions()
    now = share_key(sessions, 3)  # saved two readings: of 12,000 tokens one could be written anew
    joined = [sessions.run(now + each, 1) for each in range(4)]

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
            len([each for each in times if at - MINUTE < each <= at]) <= MAX_CALLS_PER_MINUTE
            for at in times
        )


def test_sharing_that_cost_more_than_it_saved_ends_for_a_day():
    sessions = SharedKeySessions()
    now = share_key(sessions, 2)
    session, key = sessions.begin(now)
    assert key
    sessions.call(session, now, saved=-3 * TOKENS * PRICE)

    assert sessions.run(now + HOUR) == ""
    assert sessions.run(now + DAY + HOUR) == key


def test_a_session_without_a_call_for_five_minutes_has_ended():
    sessions = SharedKeySessions()
    sessions.run(0.0)

    assert sessions.run(4 * MINUTE) == ""
    assert sessions.run(9 * MINUTE) == NAME


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
    sessions = SharedKeySessions()
    sessions.call(b"unknown", 0.0, saved=-1e9)

    assert sessions.run(1.0) == NAME
