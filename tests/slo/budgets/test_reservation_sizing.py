from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slo.budgets.budget import BudgetUnit, HoldPolicy
from slo.budgets.reservation_sizing import (
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
from slo.price import PricePeriod, PriceSheet, Tariff, TokenRates
from slo.quantile_sketch import QuantileSketch
from slo.usage import Usage
from tests.slo.sized_calls import QUOTE, TARIFF, amount_held, budget, learn_lengths

OUTPUT = OutputBounds(typical=300, likely=900, worst=4_000)


class TestWhatACallMayUse:
    def test_a_prompt_s_dollars_are_exact_and_the_output_s_go_by_its_length(self) -> None:
        bounds = usage_bounds(BudgetUnit.USD, Usage(input=1_000), OUTPUT, QUOTE)
        assert bounds == UsageBounds(
            sure=2_000_000, typical=5_000_000, likely=11_000_000, worst=42_000_000
        )

    def test_of_a_warm_prompt_what_is_read_costs_its_own_price_and_what_is_written_its(
        self,
    ) -> None:
        bounds = usage_bounds(
            BudgetUnit.USD, Usage(input=10, cache_read=900, write_5m=90), OUTPUT, QUOTE
        )
        assert bounds is not None
        assert bounds.sure == 10 * 2_000 + 900 * 200 + 90 * 2_500

    def test_a_discount_is_taken_off(self) -> None:
        cheaper = PriceQuote(
            tariff=msgspec.structs.replace(TARIFF, discount=Fraction(1, 2)), at=0.0
        )
        bounds = usage_bounds(BudgetUnit.USD, Usage(input=1_000), OUTPUT, cheaper)
        assert bounds is not None
        assert bounds.worst == 21_000_000

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
        bounds = usage_bounds(BudgetUnit.TOKENS, Usage(input=10, cache_read=90), OUTPUT, QUOTE)
        assert bounds == UsageBounds(sure=100, typical=400, likely=1_000, worst=4_100)

    def test_a_request_is_one(self) -> None:
        bounds = usage_bounds(BudgetUnit.REQUESTS, Usage(input=10), OUTPUT, QUOTE)
        assert bounds == UsageBounds(sure=1, typical=1, likely=1, worst=1)


class TestLearnedLengths:
    @pytest.mark.parametrize("lengths", [None, QuantileSketch(), learn_lengths(answers=19)])
    def test_with_little_learned_the_worst_case_is_likely(
        self, lengths: QuantileSketch | None
    ) -> None:
        assert output_bounds(lengths, 4_096) == OutputBounds(
            typical=4_096, likely=4_096, worst=4_096
        )

    def test_with_enough_learned_the_mean_and_the_twentieth_longest_are_known(self) -> None:
        bounds = output_bounds(learn_lengths(), 4_096)
        assert bounds.typical == pytest.approx(346, rel=0.1)
        assert bounds.likely == pytest.approx(941, rel=0.1)
        assert bounds.worst == 4_096

    def test_no_output_longer_than_the_limit_is_expected(self) -> None:
        assert output_bounds(learn_lengths(), 200) == OutputBounds(
            typical=200, likely=200, worst=200
        )


USES = st.tuples(*[st.integers(0, 1_000)] * 4).map(sorted)
SURE = USES.map(
    lambda uses: UsageBounds(sure=uses[0], typical=uses[1], likely=uses[2], worst=uses[3])
)
GUESSED = SURE.map(lambda need: msgspec.structs.replace(need, is_guessed=True))
LEVELS = st.builds(
    CounterView, spent=st.integers(0, 9_999), held=st.integers(0, 9_999), running=st.integers(0, 99)
)


def room_for_worst_case(need: UsageBounds, limit: int) -> int:
    """The part of a call's worst case for which room is kept within a limit."""
    return min(need.worst, max(limit // 4, 8 * need.likely, need.typical))


class TestHowMuchIsHeld:
    NEED = UsageBounds(sure=2, typical=5, likely=11, worst=42)
    RARELY_LONG = UsageBounds(sure=0, typical=5, likely=4, worst=100)

    def test_while_there_is_room_what_is_likely(self) -> None:
        assert amount_held(budget(), self.NEED, CounterView()) == 11

    def test_near_a_hard_limit_there_is_room_for_the_worst(self) -> None:
        assert amount_held(budget(limit=1_000), self.NEED, CounterView(spent=958)) == 11
        assert amount_held(budget(limit=1_000), self.NEED, CounterView(spent=959)) is None
        assert size_reservation(budget(limit=1_000), self.NEED, CounterView(spent=959)).amount == 42

    def test_a_soft_limit_has_no_near(self) -> None:
        soft = budget(limit=1_000, hard=False)
        assert amount_held(soft, self.NEED, CounterView(spent=959)) == 11
        assert amount_held(soft, self.NEED, CounterView(spent=2_000)) == 11

    def test_a_budget_that_holds_the_worst_always_does(self) -> None:
        worst = budget(hold=HoldPolicy.WORST)
        bound = UsageBounds(sure=1, typical=2, likely=3, worst=4, upper_bound=9)
        assert size_reservation(worst, bound, CounterView()).amount == 9
        assert amount_held(worst, self.NEED, CounterView()) == 42

    def test_many_calls_cover_each_other_s_surprises(self) -> None:
        limit = 10_000
        many = CounterView(spent=limit - 20 - 2_200, held=2_200, running=200)
        assert amount_held(budget(limit=limit), self.NEED, CounterView(spent=limit - 20)) is None
        assert amount_held(budget(limit=limit), self.NEED, many) == 11

    def test_room_is_left_for_three_deviations_of_all_calls_together(self) -> None:
        need = UsageBounds(sure=0, typical=100, likely=150, worst=1_000)
        counter = CounterView(held=15_000, running=99)
        # A hundred calls: a mean of 100, up to 900 beyond it, 50 held over the mean of each.
        assert (
            required_headroom(budget(limit=10**9), need, counter)
            == 150 + 900 + 3 * 3_000 - 100 * 50
        )

    def test_a_reservation_covers_nothing_where_the_likely_is_less_than_the_mean(self) -> None:
        many = CounterView(held=4_000, running=1_000)
        assert amount_held(budget(limit=5_000), self.RARELY_LONG, many) is None
        assert amount_held(budget(limit=8_000), self.RARELY_LONG, many) == 4

    def test_call_that_holds_much_counts_as_one_running_call(self) -> None:
        limit = 1_000
        assert (
            amount_held(budget(limit=limit), self.RARELY_LONG, CounterView(held=400, running=4))
            == 4
        )
        assert (
            amount_held(budget(limit=limit), self.RARELY_LONG, CounterView(held=400, running=100))
            is None
        )

    def test_calls_that_hold_less_than_this_one_would_are_fewer_like_it(self) -> None:
        many = CounterView(held=8, running=1_000)
        assert required_headroom(budget(), self.RARELY_LONG, many) < 4 + 3 * 100

    def test_call_refused_for_running_calls_fits_once_they_end(self) -> None:
        tight = budget(limit=1_000)
        request = size_reservation(
            tight, self.RARELY_LONG, CounterView(spent=700, held=200, running=50)
        )
        assert 900 + request.amount > request.limit
        assert 700 + request.amount <= request.limit
        late = size_reservation(tight, self.RARELY_LONG, CounterView(spent=901))
        assert late == ReservationRequest(amount=100, limit=1_000)

    def test_a_call_that_is_likely_free_is_held_nothing_for_while_its_worst_fits(self) -> None:
        free = UsageBounds(sure=0, typical=0, likely=0, worst=5)
        assert amount_held(budget(limit=20), free, CounterView(spent=15)) == 0
        assert amount_held(budget(limit=20), free, CounterView(spent=16)) is None

    @given(SURE | GUESSED, st.integers(0, 10_000), st.integers(0, 10_000))
    def test_a_call_alone_passes_no_hard_limit_of_four_times_its_worst_case(
        self, need: UsageBounds, limit: int, spent: int
    ) -> None:
        is_admitted = amount_held(budget(limit=limit), need, CounterView(spent=spent)) is not None
        assert is_admitted == (spent + room_for_worst_case(need, limit) <= limit)
        if 4 * need.worst <= limit:
            assert is_admitted == (spent + need.worst <= limit)

    @given(SURE | GUESSED, st.integers(0, 9_999), LEVELS)
    def test_no_more_than_the_worst_case_is_held_whatever_was_heard(
        self, need: UsageBounds, limit: int, counter: CounterView
    ) -> None:
        request = size_reservation(budget(limit=limit), need, counter)
        assert request.amount in {need.likely, room_for_worst_case(need, limit)}
        assert request.limit <= limit

    @given(SURE, st.integers(0, 9_999), LEVELS)
    def test_the_likely_is_held_as_long_as_the_room_is_free(
        self, need: UsageBounds, limit: int, counter: CounterView
    ) -> None:
        worst = room_for_worst_case(need, limit)
        need = msgspec.structs.replace(need, worst=worst)
        free = required_headroom(budget(limit=limit), need, counter)
        assert free >= need.likely
        is_free = counter.spent + counter.held + free <= limit
        request = size_reservation(budget(limit=limit), need, counter)
        assert request.amount == (need.likely if is_free else need.worst)

    @given(GUESSED, st.integers(0, 9_999), LEVELS)
    def test_a_guess_is_held_in_the_first_half_alone(
        self, guess: UsageBounds, limit: int, counter: CounterView
    ) -> None:
        amount = amount_held(budget(limit=limit), guess, counter)
        is_roomy = counter.spent + counter.held + guess.likely <= limit // 2
        worst = room_for_worst_case(guess, limit)
        assert amount in ({None, guess.likely, worst} if is_roomy else {None, worst})

    def test_a_first_call_is_held_at_a_guess_where_its_worst_case_is_dear_for_the_budget(
        self,
    ) -> None:
        # One word to a model of 128,000 tokens of output at $10 a million.
        unlearned = usage_bounds(
            BudgetUnit.USD, Usage(input=10), output_bounds(None, 128_000), QUOTE
        )
        assert unlearned is not None
        guess = 10 * 2_000 + 4_096 * 10_000
        worst = 10 * 2_000 + 128_000 * 10_000
        for limit, amount in (
            (400_000_000, guess),
            (4 * worst - 4, guess),
            (4 * worst, worst),
            (guess, None),
        ):
            assert amount_held(budget(limit=limit), unlearned, CounterView()) == amount
        strict = budget(limit=400_000_000, hold=HoldPolicy.WORST)
        assert amount_held(strict, unlearned, CounterView()) is None

    def test_few_first_calls_run_on_a_guess_at_once(self) -> None:
        unlearned = usage_bounds(
            BudgetUnit.USD, Usage(input=10), output_bounds(None, 128_000), QUOTE
        )
        assert unlearned is not None
        reserved, running = 0, 0
        while running < 100:
            counter = CounterView(held=reserved, running=running)
            amount = amount_held(budget(limit=1_000_000_000), unlearned, counter)
            if amount is None:
                break
            reserved, running = reserved + amount, running + 1
        assert 1 <= running <= 6

    def test_requests_are_held_one_by_one_to_the_last(self) -> None:
        one = UsageBounds(sure=1, typical=1, likely=1, worst=1)
        requests = budget(unit=BudgetUnit.REQUESTS, limit=100)
        counters = [CounterView(spent=n, held=99 - n, running=99 - n) for n in (0, 50, 99)]
        assert [amount_held(requests, one, counter) for counter in counters] == [1, 1, 1]


@pytest.mark.parametrize(("spent", "held"), [(4_900, 100), (4_901, 120)])
def test_a_guess_is_held_up_to_half_of_the_limit_and_the_worst_case_beyond(spent: int, held: int):
    guess = UsageBounds(sure=1, typical=100, likely=100, worst=120, is_guessed=True)

    assert amount_held(budget(limit=10_000), guess, CounterView(spent=spent)) == held
