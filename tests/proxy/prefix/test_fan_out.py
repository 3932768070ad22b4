from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from proxy.caches.regime import Regime
from proxy.prefix.fan_out import MAX_WAIT_S, PrefixWrite, max_wait_s

ANTHROPIC = Regime(
    name="anthropic-breakpoint",
    provider="anthropic",
    least=1_024,
    read=Fraction(1, 10),
    writes={"5m": Fraction(5, 4)},
    marks=4,
    lookback=20,
)
WRITING = PrefixWrite(since=100.0, tokens=10_000, first_byte=1.0, ttl="5m")
FRESH, SECOND = 3_000.0, 1_000_000.0


def test_a_long_prefix_is_worth_a_short_wait():
    assert max_wait_s(WRITING, ANTHROPIC, 100.5, FRESH, SECOND) == 1.0


def test_where_a_second_costs_more_than_is_saved_nobody_waits():
    assert max_wait_s(WRITING, ANTHROPIC, 100.0, FRESH, 1e9) == 0.0


def test_what_is_late_is_not_waited_for():
    assert max_wait_s(WRITING, ANTHROPIC, 101.0, FRESH, SECOND) == 0.0


def test_a_slow_model_is_not_waited_for():
    slow = PrefixWrite(since=100.0, tokens=10_000, first_byte=30.0, ttl="5m")

    assert max_wait_s(slow, ANTHROPIC, 100.0, FRESH, SECOND) == 0.0


def test_an_unknown_first_byte_is_not_waited_for():
    unknown = PrefixWrite(since=100.0, tokens=10_000, first_byte=0.0)

    assert max_wait_s(unknown, ANTHROPIC, 100.0, FRESH, SECOND) == 0.0


def test_what_is_too_short_to_be_cached_is_not_waited_for():
    short = PrefixWrite(since=100.0, tokens=1_000, first_byte=1.0, ttl="5m")

    assert max_wait_s(short, ANTHROPIC, 100.0, FRESH, 0.0) == 0.0


def test_what_is_not_known_or_not_cheaper_to_read_is_not_waited_for():
    assert max_wait_s(WRITING, Regime(), 100.0, FRESH, 0.0) == 0.0
    dear = Regime(name="openai-interval", provider="openai")
    assert max_wait_s(WRITING, dear, 100.0, FRESH, 0.0) == 0.0


def test_where_writing_is_free_a_wait_saves_the_fresh_price():
    free = Regime(name="openai-interval", provider="openai", read=Fraction(1, 10))

    assert max_wait_s(WRITING, free, 100.0, FRESH, SECOND) == 2.0


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e9), st.floats(0, 1e9))
def test_nobody_waits_for_long(now, first_byte, fresh, second):
    writing = PrefixWrite(since=100.0, tokens=10_000, first_byte=first_byte, ttl="5m")

    assert 0.0 <= max_wait_s(writing, ANTHROPIC, now, fresh, second) <= MAX_WAIT_S
