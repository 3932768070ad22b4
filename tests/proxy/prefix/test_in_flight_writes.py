import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.in_flight_writes import InFlightWrites
from proxy.prefix.planned import Planned
from slo.price import TokenRates
from tests.fakes.planned_calls import LONG, SHORT, marked_call, planned_call
from tests.proxy.prefix.sent_calls import ANTHROPIC, OPENAI, VLLM, users


@pytest.fixture
def calls() -> InFlightWrites:
    """Calls under way; a first byte is known to take a second."""
    made = InFlightWrites()
    before = marked_call("before", ("others", 10_000))
    made.record_write(before, 0.0, streamed=True)
    made.mark_readable(before, 1.0)
    return made


def seconds(calls: InFlightWrites, waiting: Planned, now: float) -> float:
    hold = calls.find_wait(waiting, now)
    return hold.seconds if hold is not None else 0.0


def test_a_call_waits_for_the_one_that_writes_what_it_could_read(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert seconds(calls, marked_call("two"), 10.5) == 1.0


def test_a_waiting_call_goes_once_the_writers_answer_begins(calls):
    one = marked_call("one")
    calls.record_write(one, 10.0, streamed=True)
    waited_for = calls.find_wait(marked_call("two"), 10.5)

    assert waited_for is not None
    assert calls.mark_readable(one, 10.9) == waited_for.writer
    assert calls.find_wait(marked_call("two"), 10.9) is None


def test_a_call_that_reads_an_entry_is_not_waited_for(calls):
    one, two = marked_call("one"), marked_call("two")
    calls.record_write(one, 10.0, streamed=True)
    calls.mark_readable(one, 11.0)
    calls.record_write(two, 11.0, streamed=True)

    assert calls.find_wait(marked_call("three"), 11.1) is None


def test_a_call_expects_to_read_what_a_call_wrote_whose_answer_has_only_begun(calls):
    one, two = marked_call("one"), marked_call("two")
    calls.record_write(one, 10.0, streamed=True)
    assert calls.with_readable_prefix(two, 10.5) is two
    calls.mark_readable(one, 11.0)
    expected = calls.with_readable_prefix(two, 11.1).evidence.expected

    assert (expected.tokens, expected.hit, expected.idle) == (10_000, 1, 0.0)
    assert expected.rescale(2 * expected.scale.total).tokens == 20_000


def test_after_a_failed_writer_the_next_call_writes(calls):
    one, two = marked_call("one"), marked_call("two")
    calls.record_write(one, 10.0, streamed=True)

    assert calls.forget_write(one) is not None
    assert calls.find_wait(two, 10.5) is None
    calls.record_write(two, 10.5, streamed=True)
    assert seconds(calls, marked_call("three"), 10.5) == 2.0


def test_the_end_of_an_answer_after_its_first_byte_changes_nothing(calls):
    one = marked_call("one")
    calls.record_write(one, 10.0, streamed=True)
    calls.mark_readable(one, 11.0)

    assert calls.forget_write(one) is None
    assert calls.mark_readable(one, 11.0) is None


def test_a_pair_of_short_prompts_does_not_wait(calls):
    calls.record_write(marked_call("one", SHORT), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", SHORT), 10.1) is None


def test_a_call_does_not_wait_for_the_write_of_another_prefix(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", ("rule", 10_000)), 10.1) is None


def test_a_call_of_the_control_arm_never_waits(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", arm=ExperimentArm.CONTROL), 10.1) is None


@pytest.mark.parametrize("rates", [None, TokenRates()])
def test_no_wait_where_prices_are_unknown(calls, rates):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", rates=rates), 10.1) is None


def test_a_prefix_in_the_cache_already_is_not_waited_for(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", there=10_000), 10.1) is None


def test_a_writer_of_hardly_anything_new_is_not_waited_for(calls):
    calls.record_write(marked_call("one", there=9_500), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two"), 10.1) is None


def test_a_just_written_prefix_counts_as_cached(calls):
    first, marks = marked_call("one"), {0: "5m", 1: "5m"}
    calls.record_write(first, 10.0, streamed=True)
    calls.mark_readable(first, 11.0)
    sizes = (LONG, ("report", 2_000))
    calls.record_write(planned_call(users(ANTHROPIC, *sizes, marks=marks)), 11.0, streamed=True)
    like = planned_call(users(ANTHROPIC, *sizes, ("two", 20), marks=marks))

    assert seconds(calls, like, 11.9) > 0.0
    assert calls.find_wait(like, 11.1) is None


def test_an_entry_that_died_is_written_again_and_waited_for(calls):
    one = marked_call("one")
    calls.record_write(one, 10.0, streamed=True)
    calls.mark_readable(one, 11.0)
    calls.record_write(marked_call("two"), 400.0, streamed=True)

    assert seconds(calls, marked_call("three"), 400.0) == 2.0


def test_a_writer_whose_answer_is_late_is_waited_for_no_more(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two"), 11.1) is None


def test_a_kind_of_answer_that_was_never_seen_is_not_waited_for(calls):
    calls.record_write(marked_call("one"), 10.0, streamed=False)

    assert calls.find_wait(marked_call("two"), 10.1) is None


def test_a_slow_model_is_not_waited_for():
    calls = InFlightWrites()
    before = marked_call("before", ("others", 10_000))
    calls.record_write(before, 0.0, streamed=True)
    calls.mark_readable(before, 30.0)
    calls.record_write(marked_call("one"), 40.0, streamed=True)

    dear = marked_call("two", rates=TokenRates(input=10**15))
    assert calls.find_wait(dear, 40.0) is None
    assert seconds(calls, dear, 66.0) == 5.0


def test_first_bytes_are_averaged_and_the_latest_count_most():
    calls = InFlightWrites()
    for number, took in enumerate((1.0, 2.0)):
        before = marked_call("before", (f"others {number}", 10_000))
        calls.record_write(before, 0.0, streamed=True)
        calls.mark_readable(before, took)
    calls.record_write(marked_call("one"), 10.0, streamed=True)

    assert seconds(calls, marked_call("two"), 10.0) == pytest.approx(2.4)


def test_an_engine_shares_at_once_and_a_mark_means_nothing_there(calls):
    calls.record_write(marked_call("one", regime=VLLM), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", regime=VLLM), 10.1) is None


def test_an_unmarked_write_of_an_automatic_cache_is_waited_for():
    calls = InFlightWrites()
    before = marked_call("before", ("others", 10_000), regime=OPENAI, marks={})
    calls.record_write(before, 0.0, streamed=True)
    calls.mark_readable(before, 1.0)
    again = users(OPENAI, LONG, ("one", 20))
    calls.record_write(planned_call(again), 10.0, streamed=True)

    assert seconds(calls, planned_call(users(OPENAI, LONG, ("one", 20))), 10.1) > 0.0


def test_a_write_that_the_provider_makes_by_itself_is_waited_for_at_the_price_of_a_write():
    calls = InFlightWrites()
    before = marked_call("before", ("others", 10_000), regime=OPENAI, marks={})
    calls.record_write(before, 0.0, streamed=True)
    calls.mark_readable(before, 2.0)
    calls.record_write(planned_call(users(OPENAI, LONG)), 10.0, streamed=True)

    assert seconds(calls, planned_call(users(OPENAI, LONG)), 10.0) > 0.0


def test_below_the_minimum_nothing_is_written_that_could_be_waited_for(calls):
    dear = TokenRates(input=10**15)
    calls.record_write(marked_call("one", ("rules", 1_000)), 10.0, streamed=True)

    assert calls.find_wait(marked_call("two", ("rules", 1_000), rates=dear), 10.1) is None


def test_4096_writes_and_1024_kinds_of_answers_are_remembered_by_default():
    calls = InFlightWrites()
    for number in range(1_100):
        calls._first_bytes.put(("upstream", str(number), True), 1.0)

    assert calls._max_writes == 4_096
    assert 1_000 < len(calls._first_bytes) <= 1_024


def test_remembered_writes_are_bounded():
    calls = InFlightWrites(max_writes=3)
    for number in range(50):
        call = marked_call("x", (f"rules {number}", 10_000))
        calls.record_write(call, 0.0, streamed=True)
        calls.mark_readable(call, 1.0)
    for number in range(50):
        calls.record_write(marked_call("x", (f"others {number}", 10_000)), 0.0, streamed=True)

    assert len(calls) == 3 + 3 + 3 + 1


def test_once_all_have_ended_nobody_is_waited_for():
    calls = InFlightWrites(max_writes=8)
    calls_made = [marked_call(f"{number}", (f"rules {number % 4}", 10_000)) for number in range(20)]
    for call in calls_made:
        calls.record_write(call, 0.0, streamed=True)
    for call in calls_made:
        calls.forget_write(call)

    assert len(calls) == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.floats(0, 3)), max_size=30))
def test_waits_for_a_write_are_short_and_only_for_calls_under_way(steps):
    calls, now, live = InFlightWrites(), 0.0, dict[int, Planned]()
    calls_made = [marked_call(f"{number}", (f"rules {number % 2}", 10_000)) for number in range(6)]
    for what, which, later in steps:
        now += later
        hold = calls.find_wait(calls_made[which], now)
        if hold is not None:
            assert hold.seconds <= 5.0
            assert hold.writer in {id(call.evidence.sent) for call in live.values()}
        if what == 0 and which not in live:
            calls.record_write(calls_made[which], now, streamed=True)
            live[which] = calls_made[which]
        elif which in live:
            (
                calls.mark_readable(live.pop(which), now)
                if what == 1
                else calls.forget_write(live.pop(which))
            )
    for call in live.values():
        calls.forget_write(call)
    assert all(calls.find_wait(call, now) is None for call in calls_made)
