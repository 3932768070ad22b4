"""Tests of when planning is surely dearer than sending unmodified."""

import math
import random
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.guard import (
    ArmComparison,
    ArmTotals,
    ComparisonFinding,
    CostComparison,
    Harm,
    HarmWatch,
    compare_arms,
)
from tests.fakes.arm_samples import ConversationSums, sample_arm

JUDGED_CALLS = 50
MIN_CALLS = 20
MIN_CONVERSATIONS = 50
MIN_SHOWN_CONVERSATIONS = 3

INPUT, READ, OUTPUT = 3_000, 300, 15_000
CONVERSATIONS = st.lists(
    st.builds(
        ConversationSums,
        cost=st.integers(0, 10**12),
        tokens=st.integers(0, 10**7),
        reads=st.integers(0, 10**7),
    ),
    max_size=8,
)
NOW = 1_790_000_000.0


def a_conversation(chance: random.Random, dearer: float, hits: float) -> ConversationSums:
    """One of few or many calls, of about 5,000 tokens each; output is paid as well."""
    calls = min(int(chance.paretovariate(1.5)), 12)
    tokens = int(calls * chance.lognormvariate(8.5, 0.4)) + 10
    reads = int(tokens * min(max(chance.gauss(hits, 0.15), 0), 1))
    output = chance.lognormvariate(5.5, 0.5) * calls
    cost = (tokens - reads) * INPUT + reads * READ + output * OUTPUT
    return ConversationSums(int(cost * dearer), tokens, reads)


def suspended_after(
    seed: int, most: int, *, dearer: float = 1.0, hits: float = 0.6, share: float = 0.2
) -> int | None:
    """After how many conversations the guard steps in, if it looks after every hundredth."""
    chance = random.Random(seed)  # noqa: S311 - chance, not a secret
    treated, control = ArmTotals(), ArmTotals()
    for seen in range(100, most + 1, 100):
        left = [chance.random() < share for _ in range(100)]
        control += sample_arm(a_conversation(chance, 1.0, 0.6) for is_control in left if is_control)
        treated += sample_arm(
            a_conversation(chance, dearer, hits) for is_control in left if not is_control
        )
        if compare_arms(treated, control).finding is ComparisonFinding.WORSE:
            return seen
    return None


def samples(
    treated: Callable[[int], ConversationSums],
    control: Callable[[int], ConversationSums],
    count: int = 200,
) -> ArmComparison:
    return compare_arms(
        sample_arm(map(treated, range(count))), sample_arm(map(control, range(count)))
    )


def varying_sums(cost: int, reads: int) -> Callable[[int], ConversationSums]:
    """Conversations of a thousand tokens, more or less."""
    return lambda n: ConversationSums(cost + n % 7, 1000 + n % 5, reads + n % 3)


@pytest.mark.slow
def test_arms_that_are_equal_are_hardly_ever_told_apart_however_often_one_looks():
    suspended = [seed for seed in range(60) if suspended_after(seed, 4_000) is not None]

    assert suspended == []


@pytest.mark.parametrize(("harm", "within"), [({"dearer": 1.1}, 6_000), ({"hits": 0.5}, 2_000)])
def test_a_tenth_more_cost_or_fewer_hits_is_found_within_some_thousand_conversations(harm, within):
    suspensions = [suspended_after(seed, within, **harm) for seed in range(10)]

    assert sum(after is not None for after in suspensions) >= 9


@pytest.mark.slow
def test_a_saving_comes_with_an_interval_that_holds_it():
    held = 0
    for seed in range(200):
        chance = random.Random(seed)  # noqa: S311 - as above
        control = sample_arm(a_conversation(chance, 1.0, 0.6) for _ in range(300))
        treated = sample_arm(a_conversation(chance, 0.75, 0.6) for _ in range(300))
        comparison = compare_arms(treated, control)
        assert comparison.finding is ComparisonFinding.MEASURED
        assert comparison.saving is not None
        held += comparison.saving.low <= 0.25 <= comparison.saving.high

    assert 180 <= held <= 199


def test_arms_with_too_few_conversations_are_not_judged():
    learned = samples(varying_sums(9_000, 0), varying_sums(3_000, 900), MIN_SHOWN_CONVERSATIONS - 1)

    assert (learned.finding, learned.saving) == (ComparisonFinding.NOT_ENOUGH, None)
    assert f"{MIN_SHOWN_CONVERSATIONS} are needed" in learned.why


def test_small_arms_have_an_interval_and_are_not_judged():
    learned = samples(varying_sums(9_000, 0), varying_sums(3_000, 900), MIN_CONVERSATIONS - 1)

    assert learned.finding is ComparisonFinding.EARLY
    assert learned.saving is not None
    assert learned.saving.high < 0
    assert learned.why == "49 conversations were sent unmodified"


@pytest.mark.parametrize("control", [3, 5, 10])
def test_interval_after_a_hundred_conversations_holds_the_saving_however_small_the_control_arm(
    control: int,
):
    chance, held = random.Random(control), 0  # noqa: S311 - as above
    for _ in range(300):
        comparison = compare_arms(
            sample_arm(a_conversation(chance, 0.75, 0.6) for _ in range(100 - control)),
            sample_arm(a_conversation(chance, 1.0, 0.6) for _ in range(control)),
        )
        assert comparison.saving is not None
        held += comparison.saving.low <= 0.25 <= comparison.saving.high

    assert 267 <= held <= 297  # by the normal distribution 76 % to 87 % of them would


def test_conversations_without_tokens_are_not_judged():
    learned = samples(lambda n: ConversationSums(0, 0, 0), varying_sums(3_000, 0))

    assert learned.finding is ComparisonFinding.NOT_ENOUGH


def test_a_dearer_treated_arm_is_worse_and_says_by_how_much():
    learned = samples(varying_sums(4_500, 500), varying_sums(3_000, 500))

    assert learned.finding is ComparisonFinding.WORSE
    assert learned.why == "a token costs 50.0% more than where nothing is planned"
    assert learned.saving is not None
    assert learned.saving.low < learned.saving.value < learned.saving.high < 0


def test_a_lower_hit_rate_at_no_lower_cost_is_worse():
    learned = samples(varying_sums(3_000, 200), varying_sums(3_000, 500))

    assert learned.finding is ComparisonFinding.WORSE
    assert "the hit rate is 29.9% lower" in learned.why


def test_a_lower_hit_rate_after_fewer_useless_writes_is_not_worse():
    learned = samples(varying_sums(2_000, 200), varying_sums(3_000, 500))

    assert learned.finding is ComparisonFinding.MEASURED
    assert learned.saving is not None
    assert learned.saving.low > 0.3


def test_arms_without_cost_are_compared_by_hit_rate_alone():
    free = samples(
        lambda n: ConversationSums(0, 1000, 500 + n % 3),
        lambda n: ConversationSums(0, 1000, 500 + n % 3),
    )
    worse = samples(
        lambda n: ConversationSums(0, 1000, 100 + n % 3),
        lambda n: ConversationSums(0, 1000, 500 + n % 3),
    )

    assert (free.finding, free.saving) == (ComparisonFinding.MEASURED, None)
    assert worse.finding is ComparisonFinding.WORSE


def test_identical_conversations_give_a_certain_comparison():
    learned = samples(
        lambda n: ConversationSums(1_000, 1000, 0), lambda n: ConversationSums(2_000, 1000, 0)
    )

    assert learned.saving is not None
    assert learned.saving.low == learned.saving.value == learned.saving.high == pytest.approx(0.5)


@given(CONVERSATIONS, CONVERSATIONS)
def test_arm_samples_add_up(some, others):
    both, added = sample_arm([*some, *others]), sample_arm(some) + sample_arm(others)

    for name in ArmTotals.__struct_fields__:
        assert getattr(added, name) == pytest.approx(getattr(both, name), rel=1e-9)


@given(CONVERSATIONS.map(lambda some: some * 60), CONVERSATIONS.map(lambda some: some * 60))
def test_any_measured_arms_give_a_comparison_in_finite_numbers(treated, control):
    comparison = compare_arms(sample_arm(treated), sample_arm(control))

    if (interval := comparison.saving) is not None:
        assert interval.low <= interval.value <= interval.high
        assert all(map(math.isfinite, (interval.low, interval.value, interval.high)))


def harm_after(watch: HarmWatch, *calls: tuple[float, float], gap: float = 10.0) -> Harm | None:
    """Return what is found after calls of (planned, direct), each of a conversation of its own."""
    for index, (planned, direct) in enumerate(calls):
        watch.record_call(NOW + index * gap, CostComparison(planned=planned, direct=direct), 0)
    return watch.current_harm(NOW + len(calls) * gap)


def test_a_feature_that_is_dearer_with_every_call_is_found_within_fifty():
    harm = harm_after(HarmWatch(), *[(142.0, 100.0)] * JUDGED_CALLS)

    assert harm is not None
    assert round(harm.more, 2) == 0.42
    assert harm.why == (
        "the last 50 calls cost 42.0% more than the same calls should have cost unmodified"
    )


def test_a_few_dear_calls_show_no_harm():
    assert harm_after(HarmWatch(), *[(200.0, 100.0)] * (MIN_CALLS - 1)) is None


def test_a_layout_is_stopped_before_one_more_dear_call_would_lose_more_than_its_stake():
    watch = HarmWatch(stake=500.0)

    assert harm_after(watch, *[(150.0, 100.0)] * 9) is None
    harm = harm_after(watch, (155.0, 100.0))

    assert harm is not None
    assert (harm.calls, round(harm.more, 3)) == (10, 0.505)


def test_reads_count_before_the_write_that_made_them_possible_is_judged():
    watch = HarmWatch(stake=40.0)
    write = CostComparison(planned=126.0, direct=100.0, surcharge=25.0, lives=300.0)
    read = CostComparison(planned=15.0, direct=100.0, surcharge=0.5, lives=300.0)
    number = watch.record_call(NOW, write, 0)
    assert [watch.record_call(NOW + 1.0, read, before) for before in (0, 0, number)] == [0, 0, 0]
    assert watch.current_harm(NOW + 2.0) is None


def test_a_layout_whose_first_dear_call_loses_the_stake_makes_no_second_one():
    assert harm_after(HarmWatch(stake=10.0), (104.0, 100.0)) is None
    assert harm_after(HarmWatch(stake=10.0), (150.0, 100.0)) is not None


def test_savings_of_a_layout_pay_for_its_later_losses():
    watch = HarmWatch(stake=500.0)

    assert harm_after(watch, *[(50.0, 100.0)] * 20, *[(150.0, 100.0)] * 15) is None


def test_a_feature_no_dearer_than_unmodified_shows_no_harm():
    assert harm_after(HarmWatch(), *[(100.0, 100.0)] * 60) is None
    assert harm_after(HarmWatch(), *[(40.0, 100.0)] * 60) is None


def test_one_dear_call_among_many_shows_no_harm():
    assert harm_after(HarmWatch(), *[(100.0, 100.0)] * 49, (400.0, 100.0)) is None


def test_harm_that_begins_after_good_times_is_found_within_fifty_calls():
    watch = HarmWatch()
    assert harm_after(watch, *[(40.0, 100.0)] * 500) is None

    assert harm_after(watch, *[(142.0, 100.0)] * JUDGED_CALLS) is not None


def test_marks_that_may_still_be_read_are_no_loss_yet():
    watch = HarmWatch()
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for index in range(40):
        watch.record_call(NOW + index, call, 0)

    assert watch.current_harm(NOW + 40) is None
    assert watch.current_harm(NOW + 1_000) is not None


def test_cost_beyond_what_marks_may_still_earn_is_a_loss_at_once():
    watch = HarmWatch(stake=150.0)
    call = CostComparison(planned=200.0, direct=100.0, surcharge=25.0, lives=1_800.0)

    assert watch.record_call(NOW, call, 0) == 0
    assert watch.current_harm(NOW) is not None


def test_a_mark_that_the_next_call_of_its_conversation_did_not_read_is_a_loss():
    watch, before = HarmWatch(), 0
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=300.0)
    for index in range(40):
        before = watch.record_call(NOW + index, call, before)

    assert watch.current_harm(NOW + 40) is not None


@given(st.integers(0, 1_000))
def test_a_feature_that_is_as_dear_on_average_is_hardly_ever_found_dearer(seed: int):
    dice = Random(seed)  # noqa: S311
    calls = [(dice.gauss(100.0, 20.0), 100.0) for _ in range(JUDGED_CALLS)]

    harm = harm_after(HarmWatch(), *calls)

    assert harm is None or sum(planned for planned, _ in calls) > 108 * JUDGED_CALLS


@pytest.mark.parametrize(("lives", "gap"), [(300.0, 1.0), (300.0, 60.0), (3_600.0, 1.0)])
def test_marks_that_die_unread_are_found_however_many_calls_come_while_they_live(lives, gap):
    watch = HarmWatch()
    call = CostComparison(planned=125.0, direct=100.0, surcharge=25.0, lives=lives)
    end = NOW
    while watch.current_harm(end) is None and end < NOW + 2 * lives + 100 * gap:
        watch.record_call(end, call, 0)
        end += gap

    assert watch.current_harm(end) is not None


@pytest.mark.parametrize(("planned", "is_stopped"), [(140.0, True), (60.0, False)])
def test_losses_of_a_layout_before_a_long_pause_count_and_savings_do_not(planned, is_stopped):
    watch = HarmWatch(stake=100.0)
    assert harm_after(watch, (planned, 100.0)) is None
    watch.record_call(NOW + 100_000.0, CostComparison(planned=135.0, direct=100.0), 0)

    assert (watch.current_harm(NOW + 100_000.0) is not None) is is_stopped


def arm_with_hit_rate(hit_rate: float, deviation: int = 200) -> ArmTotals:
    """Four hundred conversations of a thousand tokens, of which each reads more or less."""
    count, reads = 400, round(hit_rate * 1_000)
    return ArmTotals(
        conversations=count,
        tokens=count * 1_000,
        reads=count * reads,
        tokens_tokens=count * 1e6,
        reads_reads=count * float(reads**2 + deviation**2),
        reads_tokens=count * reads * 1e3,
    )


@pytest.mark.parametrize(
    ("standard_errors", "finding"),
    [(3.70, ComparisonFinding.MEASURED), (3.85, ComparisonFinding.WORSE)],
)
def test_bound_of_two_arms_of_four_hundred_is_3_78_standard_errors(standard_errors, finding):
    """By the formula of the module, with one chance in 200 and the bound tightest at 200."""
    error = math.sqrt(2) * 0.2 / math.sqrt(399)
    treated = arm_with_hit_rate(0.5 - standard_errors * error)

    assert compare_arms(treated, arm_with_hit_rate(0.5)).finding is finding


@pytest.mark.parametrize(("calls", "is_harm"), [(19, False), (20, True)])
def test_harm_is_judged_from_twenty_calls_on(calls: int, is_harm: bool):  # noqa: FBT001
    assert (harm_after(HarmWatch(), *[(142.0, 100.0)] * calls) is not None) is is_harm


@pytest.mark.parametrize(("planned", "is_harm"), [(102.0, False), (102.1, True)])
def test_two_percent_of_extra_cost_are_borne(planned: float, is_harm: bool):  # noqa: FBT001
    assert (harm_after(HarmWatch(), *[(planned, 100.0)] * 50) is not None) is is_harm


@pytest.mark.parametrize(("extra", "is_harm"), [(8.4, False), (8.6, True)])
def test_extra_cost_of_calls_that_differ_has_to_be_three_standard_errors(
    extra: float,
    is_harm: bool,  # noqa: FBT001 - a parameter
):
    """Fifty calls that are 20 off their mean to either side: 3 x 20 x sqrt(50) = 50 x 8.49."""
    calls = [(100.0 + extra + off, 100.0) for off in (20.0, -20.0)] * 25

    assert (harm_after(HarmWatch(), *calls) is not None) is is_harm


@pytest.mark.parametrize(("pause_s", "is_harm"), [(21_600.0, True), (21_601.0, False)])
def test_a_feature_is_judged_afresh_after_six_hours_without_a_call(
    pause_s: float,
    is_harm: bool,  # noqa: FBT001 - a parameter
):
    watch = HarmWatch()
    harm_after(watch, *[(142.0, 100.0)] * JUDGED_CALLS)
    later = NOW + (JUDGED_CALLS - 1) * 10.0 + pause_s
    watch.record_call(later, CostComparison(planned=100.0, direct=100.0), 0)

    assert (watch.current_harm(later) is not None) is is_harm


def test_a_call_that_waits_to_be_judged_is_judged_once_128_others_wait():
    watch = HarmWatch(stake=0.0)
    write = CostComparison(planned=101.0, direct=100.0, surcharge=2.0, lives=3_600.0)
    for index in range(128):
        watch.record_call(NOW + index, write, 0)
    assert watch.current_harm(NOW + 128) is None
    watch.record_call(NOW + 128, write, 0)

    assert watch.current_harm(NOW + 128) == Harm(calls=1, more=0.01)


def standard_errors(treated: ArmTotals, control: ArmTotals) -> float:
    """Standard errors by which a token of the treated arm costs more; tokens do not vary."""
    relative_variances = [
        (arm.cost_cost / arm.conversations / (arm.cost / arm.conversations) ** 2 - 1.0)
        / (arm.conversations - 1)
        for arm in (treated, control)
    ]
    ratio = (treated.cost / treated.tokens) / (control.cost / control.tokens)
    return math.log(ratio) / math.sqrt(sum(relative_variances))


@pytest.mark.parametrize(("conversations", "errors"), [(50, 4.3191), (200, 3.8142), (400, 3.7754)])
def test_an_arm_is_worse_from_so_many_standard_errors_on_that_one_in_200_features_is_by_chance(
    conversations: int, errors: float
):
    """The bound of the confidence sequence at 0.5 %, tightest where each arm has 400."""
    spread = [10**9 + 10**8 * (number % 3 - 1) for number in range(conversations)]
    control = sample_arm(ConversationSums(cost, 1_000, 0) for cost in spread)

    def treated(more: int) -> ArmTotals:
        return sample_arm(ConversationSums(cost + more, 1_000, 0) for cost in spread)

    low, high = 0, 10**9
    while high - low > 1:
        middle = (low + high) // 2
        is_worse = compare_arms(treated(middle), control).finding is ComparisonFinding.WORSE
        low, high = (low, middle) if is_worse else (middle, high)

    assert standard_errors(treated(high), control) == pytest.approx(errors, rel=1e-4)
