import heapq
import math
import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budget import Budget, BudgetUnit, HoldPolicy
from slo.output_length_model import OutputLengthModel
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates, call_cost
from slo.quantile_sketch import QuantileSketch
from slo.reservation_sizing import (
    CounterView,
    OutputBounds,
    PriceQuote,
    ReservationRequest,
    UsageBounds,
    output_bounds,
    required_headroom,
    size_reservation,
    usage_bounds,
)
from slo.reservations import CounterClaim, ReservationGranted, Reservations
from slo.usage import Usage
from slo.window import Window
from tests.fakes import overnight_traffic
from tests.fakes.overnight_traffic import OvernightResult

TARIFF = Tariff(
    periods=(
        PricePeriod(
            sheets={
                "": PriceSheet(
                    rates=TokenRates(
                        input=2_000_000_000,
                        cache_read=200_000_000,
                        write_5m=2_500_000_000,
                        output=10_000_000_000,
                    )
                )
            }
        ),
    ),
)
QUOTE = PriceQuote(tariff=TARIFF, at=0.0)
OUTPUT = OutputBounds(typical=300, likely=900, worst=4_000)
Length = Callable[[random.Random], int]


def budget(**more: object) -> Budget:
    given = {
        "unit": BudgetUnit.USD,
        "window": Window.MONTH,
        "limit": overnight_traffic.LIMIT,
        **more,
    }
    return Budget(name="b", scope="team", **given)  # type: ignore[arg-type]


def learned(length: Length = overnight_traffic.length, answers: int = 2_000) -> QuantileSketch:
    dice = random.Random(7)  # noqa: S311 - repeatable, not secret
    lengths = QuantileSketch()
    for _ in range(answers):
        lengths.add(length(dice))
    return lengths


def needed(length: Length = overnight_traffic.length) -> UsageBounds:
    usage = Usage(input=overnight_traffic.PROMPT)
    found = usage_bounds(
        BudgetUnit.USD, usage, output_bounds(learned(length), overnight_traffic.OUTPUT_LIMIT), QUOTE
    )
    assert found is not None
    return found


class TestWhatACallMayUse:
    def test_a_prompt_s_dollars_are_exact_and_the_output_s_go_by_its_length(self) -> None:
        found = usage_bounds(BudgetUnit.USD, Usage(input=1_000), OUTPUT, QUOTE)
        assert found == UsageBounds(
            sure=2_000_000, typical=5_000_000, likely=11_000_000, worst=42_000_000
        )

    def test_of_a_warm_prompt_what_is_read_costs_its_own_price_and_what_is_written_its(
        self,
    ) -> None:
        found = usage_bounds(
            BudgetUnit.USD, Usage(input=10, cache_read=900, write_5m=90), OUTPUT, QUOTE
        )
        assert found is not None
        assert found.sure == 10 * 2_000 + 900 * 200 + 90 * 2_500

    def test_a_discount_is_taken_off(self) -> None:
        cheaper = PriceQuote(
            tariff=msgspec.structs.replace(TARIFF, discount=Fraction(1, 2)), at=0.0
        )
        found = usage_bounds(BudgetUnit.USD, Usage(input=1_000), OUTPUT, cheaper)
        assert found is not None
        assert found.worst == 21_000_000

    @pytest.mark.parametrize(
        "tariff", [None, Tariff(periods=()), Tariff(periods=(PricePeriod(since=1.0, sheets={}),))]
    )
    def test_at_an_unknown_price_dollars_are_unknown_and_tokens_are_not(
        self, tariff: Tariff | None
    ) -> None:
        unknown = PriceQuote(tariff=tariff, at=0.0)
        assert usage_bounds(BudgetUnit.USD, Usage(input=1_000), OUTPUT, unknown) is None
        assert usage_bounds(BudgetUnit.TOKENS, Usage(input=1_000), OUTPUT, unknown) is not None

    def test_a_price_that_is_known_of_the_prompt_alone_is_unknown(self) -> None:
        half = Tariff(periods=(PricePeriod(sheets={"": PriceSheet(rates=TokenRates(input=1))}),))
        assert (
            usage_bounds(BudgetUnit.USD, Usage(input=1), OUTPUT, PriceQuote(tariff=half, at=0.0))
            is None
        )

    def test_tokens_are_the_whole_prompt_and_the_output(self) -> None:
        found = usage_bounds(BudgetUnit.TOKENS, Usage(input=10, cache_read=90), OUTPUT, QUOTE)
        assert found == UsageBounds(sure=100, typical=400, likely=1_000, worst=4_100)

    def test_a_request_is_one(self) -> None:
        found = usage_bounds(BudgetUnit.REQUESTS, Usage(input=10), OUTPUT, QUOTE)
        assert found == UsageBounds(sure=1, typical=1, likely=1, worst=1)


class TestLearnedLengths:
    @pytest.mark.parametrize("lengths", [None, QuantileSketch(), learned(answers=19)])
    def test_with_little_learned_the_worst_case_is_likely(
        self, lengths: QuantileSketch | None
    ) -> None:
        assert output_bounds(lengths, 4_096) == OutputBounds(
            typical=4_096, likely=4_096, worst=4_096
        )

    def test_with_enough_learned_the_mean_and_the_twentieth_longest_are_known(self) -> None:
        found = output_bounds(learned(), 4_096)
        assert found.typical == pytest.approx(346, rel=0.1)
        assert found.likely == pytest.approx(941, rel=0.1)
        assert found.worst == 4_096

    def test_nothing_longer_than_the_limit_is_expected(self) -> None:
        assert output_bounds(learned(), 200) == OutputBounds(typical=200, likely=200, worst=200)


def held(budget: Budget, need: UsageBounds, seen: CounterView) -> int | None:
    """Return what is held for the call; None where it is refused."""
    found = size_reservation(budget, need, seen)
    is_admitted = not budget.hard or seen.spent + seen.held + found.amount <= found.limit
    return found.amount if is_admitted else None


USES = st.tuples(*[st.integers(0, 1_000)] * 4).map(sorted)
SURE = USES.map(
    lambda uses: UsageBounds(sure=uses[0], typical=uses[1], likely=uses[2], worst=uses[3])
)
GUESSED = SURE.map(lambda need: msgspec.structs.replace(need, is_guessed=True))
LEVELS = st.builds(
    CounterView, spent=st.integers(0, 9_999), held=st.integers(0, 9_999), running=st.integers(0, 99)
)


class TestHowMuchIsHeld:
    NEED = UsageBounds(sure=2, typical=5, likely=11, worst=42)
    RARELY_LONG = UsageBounds(sure=0, typical=5, likely=4, worst=100)

    def test_while_there_is_room_what_is_likely(self) -> None:
        assert held(budget(), self.NEED, CounterView()) == 11

    def test_near_a_hard_limit_there_is_room_for_the_worst(self) -> None:
        assert held(budget(limit=1_000), self.NEED, CounterView(spent=958)) == 11
        assert held(budget(limit=1_000), self.NEED, CounterView(spent=959)) is None
        assert size_reservation(budget(limit=1_000), self.NEED, CounterView(spent=959)).amount == 42

    def test_a_soft_limit_has_no_near(self) -> None:
        soft = budget(limit=1_000, hard=False)
        assert held(soft, self.NEED, CounterView(spent=959)) == 11
        assert held(soft, self.NEED, CounterView(spent=2_000)) == 11

    def test_a_budget_that_holds_the_worst_always_does(self) -> None:
        worst = budget(hold=HoldPolicy.WORST)
        bound = UsageBounds(sure=1, typical=2, likely=3, worst=4, upper_bound=9)
        assert size_reservation(worst, bound, CounterView()).amount == 9
        assert held(worst, self.NEED, CounterView()) == 42

    def test_many_calls_cover_each_other_s_surprises(self) -> None:
        limit = 10_000
        many = CounterView(spent=limit - 20 - 2_200, held=2_200, running=200)
        assert held(budget(limit=limit), self.NEED, CounterView(spent=limit - 20)) is None
        assert held(budget(limit=limit), self.NEED, many) == 11

    def test_room_is_left_for_three_deviations_of_all_calls_together(self) -> None:
        need = UsageBounds(sure=0, typical=100, likely=150, worst=1_000)
        seen = CounterView(held=15_000, running=99)
        # A hundred calls: a mean of 100, up to 900 beyond it, 50 held over the mean of each.
        assert (
            required_headroom(budget(limit=10**9), need, seen) == 150 + 900 + 3 * 3_000 - 100 * 50
        )

    def test_a_reservation_covers_nothing_where_the_likely_is_less_than_the_mean(self) -> None:
        many = CounterView(held=4_000, running=1_000)
        assert held(budget(limit=5_000), self.RARELY_LONG, many) is None
        assert held(budget(limit=8_000), self.RARELY_LONG, many) == 4

    def test_one_call_of_which_much_is_held_is_one_call(self) -> None:
        limit = 1_000
        assert held(budget(limit=limit), self.RARELY_LONG, CounterView(held=400, running=4)) == 4
        assert (
            held(budget(limit=limit), self.RARELY_LONG, CounterView(held=400, running=100)) is None
        )

    def test_calls_that_hold_less_than_this_one_would_are_fewer_like_it(self) -> None:
        many = CounterView(held=8, running=1_000)
        assert required_headroom(budget(), self.RARELY_LONG, many) < 4 + 3 * 100

    def test_who_is_refused_for_the_calls_that_run_would_fit_once_they_end(self) -> None:
        tight = budget(limit=1_000)
        found = size_reservation(
            tight, self.RARELY_LONG, CounterView(spent=700, held=200, running=50)
        )
        assert 900 + found.amount > found.limit
        assert 700 + found.amount <= found.limit
        late = size_reservation(tight, self.RARELY_LONG, CounterView(spent=901))
        assert late == ReservationRequest(amount=100, limit=1_000)

    def test_a_call_that_is_likely_free_is_held_nothing_for_while_its_worst_fits(self) -> None:
        free = UsageBounds(sure=0, typical=0, likely=0, worst=5)
        assert held(budget(limit=10), free, CounterView(spent=5)) == 0
        assert held(budget(limit=10), free, CounterView(spent=6)) is None

    @given(SURE | GUESSED, st.integers(0, 10_000), st.integers(0, 10_000))
    def test_a_call_alone_never_passes_a_hard_limit(
        self, wanted: UsageBounds, limit: int, spent: int
    ) -> None:
        is_admitted = held(budget(limit=limit), wanted, CounterView(spent=spent)) is not None
        assert is_admitted == (spent + wanted.worst <= limit)

    @given(SURE | GUESSED, st.integers(0, 9_999), LEVELS)
    def test_no_more_than_the_worst_case_is_held_whatever_was_heard(
        self, wanted: UsageBounds, limit: int, seen: CounterView
    ) -> None:
        found = size_reservation(budget(limit=limit), wanted, seen)
        assert found.amount in {wanted.likely, wanted.worst}
        assert found.limit <= limit

    @given(SURE, st.integers(0, 9_999), LEVELS)
    def test_the_likely_is_held_as_long_as_the_room_is_free(
        self, wanted: UsageBounds, limit: int, seen: CounterView
    ) -> None:
        free = required_headroom(budget(limit=limit), wanted, seen)
        assert free >= wanted.likely
        is_free = seen.spent + seen.held + free <= limit
        found = size_reservation(budget(limit=limit), wanted, seen)
        assert found.amount == (wanted.likely if is_free else wanted.worst)

    @given(GUESSED, st.integers(0, 9_999), LEVELS)
    def test_a_guess_is_held_in_the_first_half_alone(
        self, guess: UsageBounds, limit: int, seen: CounterView
    ) -> None:
        kept = held(budget(limit=limit), guess, seen)
        is_roomy = seen.spent + seen.held + guess.likely <= limit // 2
        assert kept in ({None, guess.likely, guess.worst} if is_roomy else {None, guess.worst})

    def test_requests_are_held_one_by_one_to_the_last(self) -> None:
        one = UsageBounds(sure=1, typical=1, likely=1, worst=1)
        requests = budget(unit=BudgetUnit.REQUESTS, limit=100)
        seen = [CounterView(spent=n, held=99 - n, running=99 - n) for n in (0, 50, 99)]
        assert [held(requests, one, each) for each in seen] == [1, 1, 1]


#: Nights with each way of holding; the same seeds for all.
POLICIES: dict[str, Callable[[UsageBounds, CounterView], int | None]] = {
    "none": lambda _need, _seen: 0,
    "mean": lambda need, _seen: need.typical,
    "p95": lambda need, _seen: need.likely,
    "p99": lambda _need, _seen: overnight_traffic.cost(1_575),
    "worst": lambda need, _seen: need.worst,
    "rule": lambda need, seen: held(budget(), need, seen),
}
NIGHTS = 8


@cache
def nights(
    policy: str, callers: int, length: Length = overnight_traffic.length
) -> list[OvernightResult]:
    wanted = needed(length)

    def hold(spent: int, held: int, running: int) -> int | None:
        return POLICIES[policy](wanted, CounterView(spent=spent, held=held, running=running))

    return [
        overnight_traffic.simulate_overnight(callers, seed, hold, length) for seed in range(NIGHTS)
    ]


def mean(policy: str, callers: int, what: str) -> float:
    found: list[float] = [getattr(each, what) for each in nights(policy, callers)]
    return sum(found) / NIGHTS


class TestANight:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("policy", "callers", "spent", "spent_first"),
        [
            ("none", 16, 1.02, 1.00),
            ("mean", 16, 1.00, 0.98),
            ("p95", 16, 1.00, 0.96),
            ("p99", 16, 1.00, 0.94),
            ("worst", 16, 0.99, 0.86),
            ("none", 200, 1.22, 1.00),
            ("mean", 200, 1.01, 0.78),
            ("p95", 200, 1.00, 0.54),
            ("p99", 200, 1.00, 0.29),
            ("worst", 200, 0.99, 0.00),
        ],
    )
    def test_the_plain_ways_of_holding_pass_the_limit_or_refuse_early(
        self, policy: str, callers: int, spent: float, spent_first: float
    ) -> None:
        assert mean(policy, callers, "spent") == pytest.approx(spent, abs=0.02)
        assert mean(policy, callers, "spent_first") == pytest.approx(spent_first, abs=0.03)

    @pytest.mark.slow
    @pytest.mark.parametrize("callers", [1, 4, 16, 200])
    def test_the_rule_never_passes_the_limit_and_refuses_nothing_while_half_is_unspent(
        self, callers: int
    ) -> None:
        assert max(each.spent for each in nights("rule", callers)) <= 1
        assert min(each.spent for each in nights("rule", callers)) > 0.98
        assert sum(each.refused_early for each in nights("rule", callers)) == 0

    def test_holding_the_likely_alone_would_pass_it(self) -> None:
        assert any(each.spent > 1 for n in (4, 16, 200) for each in nights("p95", n))

    def test_near_the_end_the_rule_refuses_hardly_earlier_than_the_likely_alone(self) -> None:
        for callers, part in ((16, 0.02), (200, 0.001)):
            rule, plain = (mean(policy, callers, "spent_first") for policy in ("rule", "p95"))
            assert plain - rule <= part

    @pytest.mark.slow
    @pytest.mark.parametrize("callers", [4, 16, 200])
    def test_the_rule_holds_where_few_answers_are_short_of_the_limit_or_at_it(
        self, callers: int
    ) -> None:
        assert max(each.spent for each in nights("rule", callers, short_or_longest)) <= 1


def short_or_longest(dice: random.Random) -> int:
    """The hardest case: one answer in 25 is as long as can be, so that the mean is over the p95."""
    return overnight_traffic.OUTPUT_LIMIT if dice.random() < 0.04 else 100


#: Calls that name no limit of a model that generates up to 128,000 tokens at $4.50 a million.
UNLIMITED = 128_000
CHEAP = PriceQuote(
    tariff=Tariff(
        periods=(
            PricePeriod(
                sheets={"": PriceSheet(rates=TokenRates(input=750_000_000, output=4_500_000_000))}
            ),
        ),
    ),
    at=0.0,
)


class SimulatedCallers:
    """Callers of several processes against one budget, each with what it heard last.

    Attributes:
        early: How many calls were refused while half of the limit was unspent.
        most: The most that was held for one call.
    """

    def __init__(self, processes: int, seed: int) -> None:
        self.counters = Reservations()
        self.lengths = OutputLengthModel()
        self.early = self.most = self.spent = 0
        self._heard = [CounterView()] * processes
        self._dice = random.Random(seed)  # noqa: S311 - repeatable, not secret

    def learn_lengths(self) -> None:
        """One caller after the other, until something is learned."""
        for number in range(20):
            assert self._is_admitted(f"first-{number}", 0, 0.0)
            self._settle(f"first-{number}", 0.0)

    def call_until_refused(self, callers: int) -> None:
        """Each caller calls again at once, until all are refused."""
        agenda = [(self._dice.random(), caller, "") for caller in range(callers)]
        heapq.heapify(agenda)
        refused: set[int] = set()
        number = 0
        while len(refused) < callers:
            now, caller, name = heapq.heappop(agenda)
            if name:
                self._settle(name, now)
                refused.clear()
            name = f"call-{(number := number + 1)}"
            if not self._is_admitted(name, caller, now):
                self.early += self.spent * 2 < overnight_traffic.LIMIT
                refused.add(caller)
                name = ""
            heapq.heappush(agenda, (now + self._dice.uniform(0.5, 2.0), caller, name))

    def _is_admitted(self, name: str, caller: int, now: float) -> bool:
        wanted = usage_bounds(
            BudgetUnit.USD, Usage(input=10), self.lengths.output_bounds("a", UNLIMITED), CHEAP
        )
        assert wanted is not None
        at = caller % len(self._heard)
        for _ in range(3):
            found = size_reservation(budget(), wanted, self._heard[at])
            claim = CounterClaim("c", found.amount, found.limit, hard=True, ends=1e9)
            said = self.counters.reserve(name, [claim], now, now + 60)
            is_granted = isinstance(said, ReservationGranted)
            level = said.levels[0] if isinstance(said, ReservationGranted) else said.level
            running = said.running[0] if isinstance(said, ReservationGranted) else said.running
            self._heard[at] = CounterView(spent=level.spent, held=level.held, running=running)
            if is_granted:
                self.most = max(self.most, found.amount)
                return True
        return False

    def _settle(self, name: str, now: float) -> None:
        length = min(max(1, round(self._dice.lognormvariate(math.log(50), 0.78))), UNLIMITED)
        self.lengths.add("a", length)
        used = usage_bounds(BudgetUnit.USD, Usage(input=10), output_bounds(None, length), CHEAP)
        assert used is not None
        self.counters.settle(name, {"c": used.worst}, now)
        self.spent += used.worst


class TestAnswersThatMayBeAThousandTimesAsLong:
    @pytest.mark.slow
    @pytest.mark.parametrize(("callers", "processes"), [(8, 1), (64, 4), (200, 2)])
    def test_nothing_is_refused_while_half_is_unspent_once_twenty_answers_are_learned(
        self, callers: int, processes: int
    ) -> None:
        simulated = SimulatedCallers(processes, seed=callers)
        simulated.learn_lengths()
        simulated.call_until_refused(callers)
        expected = simulated.lengths.output_bounds("a", UNLIMITED)
        assert expected.worst > 1_000 * expected.typical
        assert simulated.early == 0
        assert 0.75 * overnight_traffic.LIMIT < simulated.spent <= overnight_traffic.LIMIT
        assert simulated.most <= 576_007_500


def test_the_night_costs_what_the_tariff_says() -> None:
    paid = call_cost(Usage(input=overnight_traffic.PROMPT, output=123), TARIFF, 0.0)
    assert paid is not None
    assert paid.effective_nanos == overnight_traffic.cost(123)
