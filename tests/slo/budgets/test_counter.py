import pytest

from slo.budgets.counter import (
    Counter,
    CounterClaim,
    CounterLevel,
    ReservationRefused,
    check_amount,
)

NOW = 1_000_000.0
HOUR = NOW + 3600
#: Nine quadrillion: the largest whole number that JSON, Lua and a double all hold exactly.
MAX_AMOUNT = 2**53 - 1


def claim(amount: int = 1, *, limit: int = 100, hard: bool = True) -> CounterClaim:
    return CounterClaim("team", amount, limit, hard=hard, ends=HOUR)


@pytest.mark.parametrize("amount", [-1, MAX_AMOUNT + 1])
def test_a_claim_is_within_what_every_store_counts_exactly(amount: int) -> None:
    with pytest.raises(ValueError, match="not between 0 and"):
        claim(amount)
    with pytest.raises(ValueError, match="not between 0 and"):
        claim(limit=amount)
    check_amount(MAX_AMOUNT)
    check_amount(0)


def test_a_hard_claim_is_refused_from_one_over_its_limit_on() -> None:
    counter = Counter(HOUR)
    counter.spend(40, NOW, None)
    counter.add_hold("a", 50, HOUR)

    assert counter.refuses(claim(10), 0) is None
    assert counter.refuses(claim(11), 3) == ReservationRefused(3, CounterLevel(40, 50), HOUR, 1)
    assert counter.refuses(claim(61), 0) == ReservationRefused(0, CounterLevel(40, 50), None, 1)
    assert counter.refuses(claim(61, hard=False), 0) is None


def test_a_hold_goes_at_its_end_and_what_was_spent_stays() -> None:
    counter = Counter(HOUR)
    counter.spend(5, NOW, None)
    counter.add_hold("a", 10, NOW + 10)
    counter.add_hold("b", 20, NOW + 20)

    counter.sweep(NOW + 9.9)
    assert counter.level == CounterLevel(5, 30)
    counter.sweep(NOW + 10)
    assert counter.level == CounterLevel(5, 20)


def test_a_hold_is_extended_to_a_later_end_and_never_to_an_earlier_one() -> None:
    counter = Counter(HOUR)
    counter.add_hold("a", 10, NOW + 10)

    assert counter.extend_hold("a", NOW + 20)
    assert counter.extend_hold("a", NOW + 5)
    assert not counter.extend_hold("b", NOW + 20)
    counter.sweep(NOW + 19)
    assert counter.level == CounterLevel(0, 10)


@pytest.mark.parametrize(("exactly", "spent"), [(True, 17), (False, 30)])
def test_restored_counter_has_what_the_ledger_knows_and_what_ended_after_the_checkpoint(
    exactly: bool,  # noqa: FBT001
    spent: int,
) -> None:
    counter = Counter(HOUR)
    counter.spend(23, NOW, None)
    counter.spend(7, NOW + 2, checkpoint=int(NOW) + 1)

    assert counter.restore(10, int(NOW) + 1, exactly=exactly) == 30
    assert counter.level == CounterLevel(spent, 0)
    counter.spend(4, NOW, checkpoint=int(NOW) + 1)  # the ledger knew it
    assert counter.level == CounterLevel(spent, 0)


def test_a_counter_remembers_no_more_ends_than_about_twice_its_holds() -> None:
    counter = Counter(HOUR)
    counter.add_hold("first to end", 1, NOW + 10)
    for number in range(1000):
        counter.add_hold(f"call-{number}", 1, HOUR)
        counter.release_hold(f"call-{number}")

    assert len(counter.queue) < 70
    counter.add_hold("a", 99, HOUR)
    counter.sweep(NOW)
    assert counter.refuses(claim(), 0) == ReservationRefused(0, CounterLevel(0, 100), NOW + 10, 2)
    counter.sweep(NOW + 10)
    assert counter.refuses(claim(2), 0) == ReservationRefused(0, CounterLevel(0, 99), HOUR, 1)
