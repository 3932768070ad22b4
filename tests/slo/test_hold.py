import random
from collections.abc import Callable
from fractions import Fraction
from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budget import Budget, Hold, Unit
from slo.hold import Need, Output, Quote, amount, need, output, room
from slo.price import Period, Rates, Sheet, Tariff, cost
from slo.spread import Spread
from slo.usage import Usage
from slo.window import Window
from tests.fakes import night
from tests.fakes.night import Night

TARIFF = Tariff(
    periods=(
        Period(
            sheets={
                "": Sheet(
                    rates=Rates(
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
QUOTE = Quote(tariff=TARIFF, at=0.0)
OUTPUT = Output(typical=300, likely=900, worst=4_000)
Length = Callable[[random.Random], int]


def budget(**more: object) -> Budget:
    given = {"unit": Unit.USD, "window": Window.MONTH, "limit": night.LIMIT, **more}
    return Budget(name="b", scope="team", **given)  # type: ignore[arg-type]


def learned(length: Length = night.length, answers: int = 2_000) -> Spread:
    dice = random.Random(7)  # noqa: S311 - repeatable, not secret
    lengths = Spread()
    for _ in range(answers):
        lengths.add(length(dice))
    return lengths


def needed(length: Length = night.length) -> Need:
    usage = Usage(input=night.PROMPT)
    found = need(Unit.USD, usage, output(learned(length), night.OUTPUT_LIMIT), QUOTE)
    assert found is not None
    return found


class TestWhatACallMayUse:
    def test_a_prompt_s_dollars_are_exact_and_the_output_s_go_by_its_length(self) -> None:
        found = need(Unit.USD, Usage(input=1_000), OUTPUT, QUOTE)
        assert found == Need(sure=2_000_000, typical=5_000_000, likely=11_000_000, worst=42_000_000)

    def test_of_a_warm_prompt_what_is_read_costs_its_own_price_and_what_is_written_its(
        self,
    ) -> None:
        found = need(Unit.USD, Usage(input=10, cache_read=900, write_5m=90), OUTPUT, QUOTE)
        assert found is not None
        assert found.sure == 10 * 2_000 + 900 * 200 + 90 * 2_500

    def test_a_discount_is_taken_off(self) -> None:
        cheaper = Quote(tariff=msgspec.structs.replace(TARIFF, discount=Fraction(1, 2)), at=0.0)
        found = need(Unit.USD, Usage(input=1_000), OUTPUT, cheaper)
        assert found is not None
        assert found.worst == 21_000_000

    @pytest.mark.parametrize(
        "tariff", [None, Tariff(periods=()), Tariff(periods=(Period(since=1.0, sheets={}),))]
    )
    def test_at_an_unknown_price_dollars_are_unknown_and_tokens_are_not(
        self, tariff: Tariff | None
    ) -> None:
        unknown = Quote(tariff=tariff, at=0.0)
        assert need(Unit.USD, Usage(input=1_000), OUTPUT, unknown) is None
        assert need(Unit.TOKENS, Usage(input=1_000), OUTPUT, unknown) is not None

    def test_a_price_that_is_known_of_the_prompt_alone_is_unknown(self) -> None:
        half = Tariff(periods=(Period(sheets={"": Sheet(rates=Rates(input=1))}),))
        assert need(Unit.USD, Usage(input=1), OUTPUT, Quote(tariff=half, at=0.0)) is None

    def test_tokens_are_the_whole_prompt_and_the_output(self) -> None:
        found = need(Unit.TOKENS, Usage(input=10, cache_read=90), OUTPUT, QUOTE)
        assert found == Need(sure=100, typical=400, likely=1_000, worst=4_100)

    def test_a_request_is_one(self) -> None:
        found = need(Unit.REQUESTS, Usage(input=10), OUTPUT, QUOTE)
        assert found == Need(sure=1, typical=1, likely=1, worst=1)


class TestLearnedLengths:
    @pytest.mark.parametrize("lengths", [None, Spread(), learned(answers=19)])
    def test_with_little_learned_the_output_limit_is_expected(self, lengths: Spread | None) -> None:
        assert output(lengths, 4_096) == Output(typical=4_096, likely=4_096, worst=4_096)

    def test_with_enough_learned_the_mean_and_the_twentieth_longest_are_known(self) -> None:
        found = output(learned(), 4_096)
        assert found.typical == pytest.approx(346, rel=0.1)
        assert found.likely == pytest.approx(941, rel=0.1)
        assert found.worst == 4_096

    def test_nothing_longer_than_the_limit_is_expected(self) -> None:
        assert output(learned(), 200) == Output(typical=200, likely=200, worst=200)


class TestHowMuchIsHeld:
    NEED = Need(sure=2, typical=5, likely=11, worst=42)

    def test_while_there_is_room_what_is_likely(self) -> None:
        assert amount(budget(), self.NEED, spent=0, held=0) == 11

    def test_near_a_hard_limit_the_worst(self) -> None:
        assert amount(budget(limit=1_000), self.NEED, spent=958, held=0) == 11
        assert amount(budget(limit=1_000), self.NEED, spent=959, held=0) == 42

    def test_a_soft_limit_has_no_near(self) -> None:
        soft = budget(limit=1_000, hard=False)
        assert amount(soft, self.NEED, spent=959, held=0) == 11
        assert amount(soft, self.NEED, spent=2_000, held=0) == 11

    def test_a_budget_that_holds_the_worst_always_does(self) -> None:
        worst = budget(hold=Hold.WORST)
        assert amount(worst, self.NEED, spent=0, held=0) == 42

    def test_many_calls_cover_each_other_s_surprises(self) -> None:
        limit = 10_000
        alone = amount(budget(limit=limit), self.NEED, spent=limit - 20, held=0)
        among_many = amount(budget(limit=limit), self.NEED, spent=limit - 20 - 2_200, held=2_200)
        assert (alone, among_many) == (42, 11)

    def test_what_is_held_covers_nothing_where_the_likely_is_less_than_the_mean(self) -> None:
        rarely_long = Need(sure=0, typical=5, likely=4, worst=100)
        args = {"spent": 0, "held": 4_000}
        assert amount(budget(limit=5_000), rarely_long, **args) > 1_000
        assert amount(budget(limit=8_000), rarely_long, **args) == 4

    def test_who_is_refused_for_the_calls_that_run_would_fit_once_they_end(self) -> None:
        rarely_long = Need(sure=0, typical=5, likely=4, worst=100)
        limit, spent, held = 1_000, 700, 200
        asked = amount(budget(limit=limit), rarely_long, spent=spent, held=held)
        assert spent + held + asked > limit
        assert spent + asked <= limit
        late = amount(budget(limit=limit), rarely_long, spent=901, held=0)
        assert late == 100

    def test_a_call_that_is_likely_free_is_held_nothing_for_while_its_worst_fits(self) -> None:
        free = Need(sure=0, typical=0, likely=0, worst=5)
        assert amount(budget(limit=10), free, spent=5, held=0) == 0
        assert amount(budget(limit=10), free, spent=6, held=0) == 5

    @given(
        st.tuples(*[st.integers(0, 1_000)] * 4).map(sorted),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
    )
    def test_a_call_alone_never_passes_a_hard_limit(
        self, uses: list[int], limit: int, spent: int
    ) -> None:
        sure, typical, likely, worst = uses
        asked = Need(sure=sure, typical=typical, likely=likely, worst=worst)
        held = amount(budget(limit=limit), asked, spent=spent, held=0)
        is_admitted = spent + held <= limit
        assert not is_admitted or spent + worst <= limit

    @given(
        st.tuples(*[st.integers(0, 1_000)] * 4).map(sorted), st.tuples(*[st.integers(0, 9_999)] * 3)
    )
    def test_the_likely_is_held_as_long_as_the_room_is_free(
        self, uses: list[int], level: tuple[int, int, int]
    ) -> None:
        sure, typical, likely, worst = uses
        limit, spent, held = level
        asked = Need(sure=sure, typical=typical, likely=likely, worst=worst)
        wanted = room(budget(limit=limit), asked, spent, held)
        kept = amount(budget(limit=limit), asked, spent, held)
        assert wanted >= likely
        assert kept == (likely if spent + held + wanted <= limit else max(worst, wanted))

    def test_requests_are_held_one_by_one_to_the_last(self) -> None:
        one = Need(sure=1, typical=1, likely=1, worst=1)
        requests = budget(unit=Unit.REQUESTS, limit=100)
        assert [amount(requests, one, spent=n, held=99 - n) for n in (0, 50, 99)] == [1, 1, 1]


#: Nights with each way of holding; the same seeds for all.
POLICIES: dict[str, Callable[[Need, int, int], int]] = {
    "none": lambda _need, _spent, _held: 0,
    "mean": lambda need, _spent, _held: need.typical,
    "p95": lambda need, _spent, _held: need.likely,
    "p99": lambda _need, _spent, _held: night.cost(1_575),
    "worst": lambda need, _spent, _held: need.worst,
    "rule": lambda need, spent, held: amount(budget(), need, spent, held),
}
NIGHTS = 8


@cache
def nights(policy: str, callers: int, length: Length = night.length) -> list[Night]:
    asked = needed(length)
    hold = POLICIES[policy]
    return [
        night.night(callers, seed, lambda spent, held: hold(asked, spent, held), length)
        for seed in range(NIGHTS)
    ]


def mean(policy: str, callers: int, what: str) -> float:
    found: list[float] = [getattr(each, what) for each in nights(policy, callers)]
    return sum(found) / NIGHTS


class TestANight:
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

    @pytest.mark.parametrize("callers", [4, 16, 200])
    def test_the_rule_holds_where_few_answers_are_short_of_the_limit_or_at_it(
        self, callers: int
    ) -> None:
        assert max(each.spent for each in nights("rule", callers, short_or_longest)) <= 1


def short_or_longest(dice: random.Random) -> int:
    """The hardest case: one answer in 25 is as long as can be, so that the mean is over the p95."""
    return night.OUTPUT_LIMIT if dice.random() < 0.04 else 100


def test_the_night_costs_what_the_tariff_says() -> None:
    paid = cost(Usage(input=night.PROMPT, output=123), TARIFF, 0.0)
    assert paid is not None
    assert paid.effective_nanos == night.cost(123)
