"""Tests of comparing the arms of a feature."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.guard import (
    ArmComparison,
    ArmTotals,
    ComparisonFinding,
    _errors_for_95_percent,
    compare_arms,
)
from tests.fakes.arm_samples import ConversationSums, sample_arm

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

    def dearer_arm(more: int) -> ArmTotals:
        return sample_arm(ConversationSums(cost + more, 1_000, 0) for cost in spread)

    low, high = 0, 10**9
    while high - low > 1:
        middle = (low + high) // 2
        is_worse = compare_arms(dearer_arm(middle), control).finding is ComparisonFinding.WORSE
        low, high = (low, middle) if is_worse else (middle, high)

    assert standard_errors(dearer_arm(high), control) == pytest.approx(errors, rel=1e-4)


@pytest.mark.parametrize(
    ("conversations", "errors"),
    [(4, 3.1824), (6, 2.5706), (11, 2.2281), (31, 2.0423), (1_001, 1.9623)],
)
def test_standard_errors_of_95_percent_are_those_of_students_distribution(
    conversations: int, errors: float
):
    assert _errors_for_95_percent(conversations) == pytest.approx(errors, rel=0.01)
