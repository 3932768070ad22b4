"""The counters of one process are bounded. The rest of the contract is tested for every store.

See ``tests/proxy/store/redis/test_local_budget_store.py``.
"""

from slo.budgets.counter import CounterClaim, CounterLevel
from slo.budgets.reservations import ReservationGranted, Reservations

COUNTER_RETENTION_S = 3_600.0
UNKNOWN_WINDOW_RETENTION_S = 40 * 86_400.0
MAX_SETTLED_REMEMBERED = 200_000
NOW = 1_000_000.0
HOUR = NOW + 3600
NONE = CounterLevel(0, 0)


def claim(amount: int = 1, counter: str = "team", ends: float = HOUR) -> CounterClaim:
    return CounterClaim(counter, amount, 100, hard=True, ends=ends)


def test_a_counter_outlives_its_window_for_calls_that_end_after_it():
    reservations = Reservations()
    reservations.reserve("a", [claim(60)], NOW, HOUR + 30)

    reservations.settle("a", {"team": 40}, HOUR + 20)

    reservations.settle("b", {"other": 1}, HOUR + COUNTER_RETENTION_S - 1)
    assert reservations.levels(["team"], HOUR + COUNTER_RETENTION_S - 1) == [CounterLevel(40, 0)]
    reservations.settle("c", {"another": 1}, HOUR + COUNTER_RETENTION_S)
    assert reservations.levels(["team"], HOUR + COUNTER_RETENTION_S) == [NONE]
    assert reservations.forgotten == 0


def test_counter_of_unknown_window_is_kept_until_its_window_is_known():
    reservations = Reservations()
    reservations.settle("a", {"team": 40, "other": 40}, NOW)
    reservations.reserve("b", [claim(1)], NOW, NOW + 60)

    reservations.settle("c", {"third": 1}, HOUR + COUNTER_RETENTION_S)
    levels = reservations.levels(["team", "other"], HOUR + COUNTER_RETENTION_S)
    assert levels == [NONE, CounterLevel(40, 0)]
    reservations.settle("d", {"fourth": 1}, NOW + UNKNOWN_WINDOW_RETENTION_S - 1)
    levels = reservations.levels(["other"], NOW + UNKNOWN_WINDOW_RETENTION_S - 1)
    assert levels == [CounterLevel(40, 0)]
    reservations.settle("e", {"fifth": 1}, NOW + UNKNOWN_WINDOW_RETENTION_S)
    assert reservations.levels(["other"], NOW + UNKNOWN_WINDOW_RETENTION_S) == [NONE]


def test_counter_is_kept_longer_if_its_window_ends_later():
    reservations = Reservations()
    for ends in (HOUR, HOUR + 3600):
        reservations.reserve(
            f"until {ends}", [claim(1, ends=ends)], NOW, HOUR + COUNTER_RETENTION_S + 60
        )

    reservations.settle("a", {"other": 1}, HOUR + COUNTER_RETENTION_S)

    assert reservations.levels(["team"], HOUR + COUNTER_RETENTION_S) == [CounterLevel(0, 2)]


def test_beyond_so_many_counters_those_that_end_first_are_forgotten_and_counted():
    assert Reservations()._most == 1_000_000
    reservations = Reservations(capacity=2)
    reservations.reserve("a", [claim(60, "month", HOUR * 2)], NOW, HOUR)
    reservations.reserve("b", [claim(60, "minute", NOW + 60)], NOW, HOUR)

    reservations.reserve("c", [claim(60, "hour")], NOW, HOUR)

    levels = reservations.levels(["month", "minute", "hour"], NOW)
    assert levels == [CounterLevel(0, 60), NONE, CounterLevel(0, 60)]
    assert reservations.forgotten == 1


def test_only_so_many_settled_names_are_remembered():
    reservations = Reservations()
    for number in range(MAX_SETTLED_REMEMBERED + 1):
        reservations.settle(str(number), {}, NOW)

    assert reservations.settle("0", {}, NOW)
    assert not reservations.settle("2", {}, NOW)


def test_settled_reservation_is_remembered_for_a_day():
    reservations = Reservations()
    reservations.settle("a", {"team": 1}, NOW)

    assert not reservations.settle("a", {"team": 1}, NOW + 86_399)
    assert reservations.settle("a", {"team": 1}, NOW + 86_400)


def test_checkpoint_is_forgotten_after_a_quarter_of_an_hour():
    reservations = Reservations()
    checkpoint = reservations.begin_checkpoint(NOW, 5.0)

    assert reservations.current_checkpoint(checkpoint + 899) == checkpoint
    assert reservations.current_checkpoint(checkpoint + 900) is None


def test_a_name_that_holds_again_after_its_end_holds_once():
    reservations = Reservations()
    reservations.reserve("a", [claim(60)], NOW, NOW + 100)
    reservations.settle("other", {"team": 0}, NOW)
    reservations.extend("a", ["team"], NOW, NOW + 50)

    again = reservations.reserve("a", [claim(30)], NOW + 100, NOW + 110)

    assert again == ReservationGranted((CounterLevel(0, 30),), (1,))
    assert reservations.levels(["team"], NOW + 110) == [NONE]
