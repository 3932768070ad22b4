"""Whole nights of calls against a budget: what is spent, refused and passed by each way to hold."""

import heapq
import math
import random
from collections.abc import Callable
from functools import cache

import pytest

from slo.budgets.budget import BudgetUnit
from slo.budgets.counter import CounterClaim
from slo.budgets.output_length_model import OutputLengthModel
from slo.budgets.reservation_sizing import (
    CounterView,
    PriceQuote,
    UsageBounds,
    output_bounds,
    size_reservation,
    usage_bounds,
)
from slo.budgets.reservations import ReservationGranted, Reservations
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates, call_cost
from slo.usage import Usage
from tests.fakes import overnight_traffic
from tests.fakes.overnight_traffic import OvernightResult
from tests.slo.sized_calls import QUOTE, TARIFF, Length, amount_held, budget, learn_lengths


def bounds_of_call(length: Length = overnight_traffic.length) -> UsageBounds:
    usage = Usage(input=overnight_traffic.PROMPT)
    bounds = usage_bounds(
        BudgetUnit.USD,
        usage,
        output_bounds(learn_lengths(length), overnight_traffic.OUTPUT_LIMIT),
        QUOTE,
    )
    assert bounds is not None
    return bounds


#: Nights with each way of holding; the same seeds for all.
POLICIES: dict[str, Callable[[UsageBounds, CounterView], int | None]] = {
    "none": lambda _need, _seen: 0,
    "mean": lambda need, _seen: need.typical,
    "p95": lambda need, _seen: need.likely,
    "p99": lambda _need, _seen: overnight_traffic.cost(1_575),
    "worst": lambda need, _seen: need.worst,
    "rule": lambda need, counter: amount_held(budget(), need, counter),
}
NIGHTS = 8


@cache
def nights(
    policy: str, callers: int, length: Length = overnight_traffic.length
) -> list[OvernightResult]:
    need = bounds_of_call(length)

    def hold(spent: int, reserved: int, running: int) -> int | None:
        return POLICIES[policy](need, CounterView(spent=spent, held=reserved, running=running))

    return [
        overnight_traffic.simulate_overnight(callers, seed, hold, length) for seed in range(NIGHTS)
    ]


def mean(policy: str, callers: int, what: str) -> float:
    values: list[float] = [getattr(night, what) for night in nights(policy, callers)]
    return sum(values) / NIGHTS


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
        assert max(night.spent for night in nights("rule", callers)) <= 1
        assert min(night.spent for night in nights("rule", callers)) > 0.98
        assert sum(night.refused_early for night in nights("rule", callers)) == 0

    def test_holding_the_likely_alone_would_pass_it(self) -> None:
        assert any(night.spent > 1 for n in (4, 16, 200) for night in nights("p95", n))

    @pytest.mark.slow
    def test_near_the_end_the_rule_refuses_hardly_earlier_than_the_likely_alone(self) -> None:
        for callers, part in ((16, 0.02), (200, 0.001)):
            rule, plain = (mean(policy, callers, "spent_first") for policy in ("rule", "p95"))
            assert plain - rule <= part

    @pytest.mark.slow
    @pytest.mark.parametrize("callers", [4, 16, 200])
    def test_the_rule_holds_where_few_answers_are_short_of_the_limit_or_at_it(
        self, callers: int
    ) -> None:
        assert max(night.spent for night in nights("rule", callers, short_or_longest)) <= 1


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
        need = usage_bounds(
            BudgetUnit.USD, Usage(input=10), self.lengths.output_bounds("a", UNLIMITED), CHEAP
        )
        assert need is not None
        index = caller % len(self._heard)
        for _ in range(3):
            request = size_reservation(budget(), need, self._heard[index])
            claim = CounterClaim("c", request.amount, request.limit, hard=True, ends=1e9)
            answer = self.counters.reserve(name, [claim], now, now + 60)
            is_granted = isinstance(answer, ReservationGranted)
            level = answer.levels[0] if isinstance(answer, ReservationGranted) else answer.level
            running = (
                answer.running[0] if isinstance(answer, ReservationGranted) else answer.running
            )
            self._heard[index] = CounterView(spent=level.spent, held=level.held, running=running)
            if is_granted:
                self.most = max(self.most, request.amount)
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
