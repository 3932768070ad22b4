"""Calls of a template: those seen, and those that running conversations are still to make."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import inf
from statistics import mean

import pytest

from proxy.caches.regime import Regime
from proxy.prefix.layouts.learning import FeatureLearner, ProposalTarget
from proxy.prefix.layouts.samples import ConversationSample, Samples
from proxy.prefix.layouts.template_calls import TemplateCalls, template_calls
from tests.fakes.handbook import dice, handbook
from tests.proxy.prefix.sent_calls import fingerprint

NOW = 1_790_000_000.0
GAP = 20.0


def conversation(number: int, calls: int, ended_ago: float = 0.0) -> ConversationSample:
    """One that made so many calls, each 400 bytes longer, the last so many seconds ago."""
    sample = ConversationSample(identity=bytes([number]), hour=0, lengths={})
    for call in range(calls):
        at = NOW - ended_ago - (calls - 1 - call) * GAP
        sample.record_call(400 * call, at, first=call == 0)
    return sample


def calls_of(group: Sequence[ConversationSample]) -> TemplateCalls:
    return template_calls(group, tools=0, front=0, per_token=4.0)


def mean_length(calls: TemplateCalls) -> float:
    return sum(group.share * group.length for group in calls.later) / (1.0 - calls.first)


def test_running_conversations_are_taken_to_get_as_long_as_those_that_ended():
    ended = [conversation(number, 10, ended_ago=600) for number in range(6)]
    running = [conversation(10 + number, 1 + number) for number in range(5)]
    calls = calls_of([*ended, *running])

    assert calls.first == pytest.approx(1 / 10)
    assert mean_length(calls) == pytest.approx(mean(400 * call for call in range(1, 10)))
    assert not calls.is_early


def test_conversation_that_outlasted_all_others_is_not_taken_to_go_on():
    ended = [conversation(number, 4, ended_ago=600) for number in range(6)]
    calls = calls_of([*ended, conversation(10, 9)])

    assert calls.first == pytest.approx(7 / (6 * 4 + 9))


def test_calls_are_early_until_conversations_have_ended():
    running = [conversation(10 + number, 4) for number in range(8)]
    ended = [conversation(number, 10, ended_ago=600) for number in range(5)]
    short = [conversation(number, 2, ended_ago=600) for number in range(5)]

    assert calls_of(running).is_early
    assert calls_of([*ended[:4], *running]).is_early
    assert not calls_of([*ended, *running]).is_early
    # Those that end first are short: most calls are of conversations whose end is not known.
    assert calls_of([*short, *running]).is_early


def test_conversations_of_one_call_ended_once_a_minute_or_more_has_passed():
    burst = [conversation(number, 1, ended_ago=number) for number in range(8)]
    spread = [conversation(number, 1, ended_ago=60.0 * number) for number in range(12)]

    assert calls_of(burst).is_early
    assert not calls_of(spread).is_early
    assert calls_of(spread).first == 1.0


@pytest.mark.parametrize(("silent_s", "is_early"), [(179.0, True), (181.0, False)])
def test_conversations_of_one_call_ended_after_three_minutes_of_silence(
    silent_s: float,
    is_early: bool,  # noqa: FBT001 - a parameter
):
    silent = [conversation(number, 1, ended_ago=silent_s) for number in range(5)]

    assert calls_of([*silent, conversation(10, 1)]).is_early is is_early


def test_conversations_that_run_are_taken_to_have_four_further_calls_while_none_ended():
    calls = calls_of([conversation(number, 2) for number in range(3)])

    assert calls.first == pytest.approx(1 / (1 + 4))


@pytest.mark.parametrize(("error", "is_early"), [(0.149, False), (0.151, True)])
def test_lengths_are_believed_that_may_be_off_by_fifteen_percent(error: float, is_early: bool):  # noqa: FBT001
    calls = TemplateCalls(tools=0, front=0, first=1.0, later=(), changes=(), length_error=error)

    assert calls.is_early is is_early


def test_sixteen_calls_to_come_are_eight_steps():
    ended = [conversation(number, 17, ended_ago=600) for number in range(5)]
    seen = sum(len(sample.lengths) for sample in ended)

    assert len(calls_of([*ended, conversation(10, 1)]).later) - seen == 8


def test_calls_to_come_are_few_steps_however_long_conversations_are():
    ended = [conversation(number, 2_000, ended_ago=600) for number in range(5)]
    calls = calls_of([*ended, conversation(10, 2)])

    assert len(calls.later) < 200
    assert calls.first == pytest.approx(1 / 2_000)


def test_calls_are_early_while_lengths_differ_too_much_for_their_average():
    alike = [conversation(number, 9 + number % 2, ended_ago=600) for number in range(8)]
    unlike = [conversation(number, 1 + 3 * number, ended_ago=600) for number in range(8)]
    alike, unlike = ([*ended, conversation(10, 1)] for ended in (alike, unlike))

    assert not calls_of(alike).is_early
    assert calls_of(unlike).is_early
    assert calls_of(unlike).length_error == pytest.approx(0.58, abs=0.01)


def test_six_lengths_tell_their_average_worse_than_many_of_the_same_spread_do():
    lengths = (19, 20, 21, 24, 26, 28)
    few, many = (
        [conversation(number, lengths[number % 6], ended_ago=600) for number in range(count)]
        for count in (6, 24)
    )

    assert calls_of([*few, conversation(30, 1)]).is_early
    assert not calls_of([*many, conversation(30, 1)]).is_early


def test_without_firsts_all_calls_go_on():
    calls = calls_of([conversation(number, 3) for number in range(4)]).with_more_firsts(0.0)

    assert calls.first == 0.0
    assert sum(group.share for group in calls.later) == pytest.approx(1.0)
    assert calls_of([conversation(1, 1)]).with_more_firsts(0.0).later == ()


def test_savings_of_names_are_not_promised_before_conversations_have_ended():
    """They come with first calls alone, and hardly any are, where conversations are long."""
    saw, rules = FeatureLearner(fingerprint), handbook(30, "promise").split("\n", 1)
    regime = Regime(name="openai-interval", least=1024, read=Fraction(1, 10))
    target = ProposalTarget(fresh=Fraction(3000), regime=regime)

    def see(numbers: range, calls: int, since: float) -> None:
        for call in range(calls):
            for number in numbers:
                text = [f"{rules[0]}\nCustomer: {number}\n{rules[1]}"]
                identity, now = fingerprint(str(number).encode()), since + 20.0 * call + number
                saw.samples.add_call(text, identity, now, first=call == 0, history=call * 400)

    see(range(10), 2, since=1_000.0)
    early = saw.proposal(target)
    see(range(10, 20), 2, since=2_000.0)
    late = saw.proposal(target)

    assert early is not None
    assert late is not None
    assert early.is_early
    assert early.saved_nanos == 0
    assert not late.is_early
    assert late.saved_nanos == pytest.approx(0.5 * 2700 * len(rules[1]) / 4 * 1000, rel=0.1)


def falling_length(number: int) -> int:
    return min(24, 1 + int(dice("falling", number).expovariate(0.2877)))


def usual_length(number: int) -> int:
    return dice("usual", number).randint(6, 14)


@pytest.mark.parametrize(
    ("length", "most_off"), [(usual_length, 0.08), (falling_length, 0.15)], ids=["usual", "falling"]
)
def test_share_of_first_calls_is_right_while_conversations_run(
    length: Callable[[int], int], most_off: float
):
    """Ten run at once; a share of the calls seen is off by a quarter after 100 of them."""
    truth = 1 / mean(map(length, range(5_000)))
    estimates = [
        calls_after(calls, seed, length) for seed in range(20) for calls in (150, 200, 300)
    ]
    bounded = [calls for calls in estimates if calls.length_error < inf]
    shares = [calls.first / truth for calls in bounded]
    right = [abs(truth / estimate.first - 1.0) <= estimate.length_error for estimate in bounded]

    assert len(shares) > 50
    assert mean(right) > 0.9
    assert mean(shares) == pytest.approx(1.0, abs=most_off / 2)
    assert mean(abs(share - 1.0) for share in shares) < most_off


def calls_after(calls: int, seed: int, length: Callable[[int], int]) -> TemplateCalls:
    """The calls as samples of so many calls show them; ten conversations run at once."""
    samples, roll, begun = Samples(fingerprint), dice("pauses", seed), 0
    waiting: list[tuple[float, int, int]] = []
    now = NOW
    for _ in range(calls):
        while len(waiting) < 10:
            begun += 1
            heappush(waiting, (now + GAP * roll.random(), begun, 0))
        now, number, call = heappop(waiting)
        name = fingerprint(f"{seed}/{number}".encode())
        samples.add_call(["rules"], name, now, first=call == 0, history=400 * call)
        if call + 1 < length(1_000 * seed + number):
            heappush(waiting, (now + GAP * roll.expovariate(1.0), number, call + 1))
    return calls_of(samples.conversations)
