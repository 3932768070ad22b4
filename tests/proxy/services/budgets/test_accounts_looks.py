"""Tests of which looks at the ledger say what counters surely lack."""

import pytest

from proxy.services.budgets.accounts import LedgerLooks, LedgerReading, amounts_of
from tests.fakes.admission_harness import NOW, budget

SETTLED_AFTER_S = 12.0


@pytest.fixture
def looks(store):
    return LedgerLooks(store.spendings)


def ledger_reading(amount: int) -> LedgerReading:
    return LedgerReading(budget(), {"c": amount}, is_whole=True)


def note(looks: LedgerLooks, amount: int, at: float, **states: bool) -> object:
    usual = {"is_away": False, "is_lacking": False}
    return looks.note([ledger_reading(amount)], NOW + at, **(usual | states))


def test_a_look_is_settled_only_once_all_that_it_saw_must_be(looks):
    assert note(looks, 5, 0.0) == {}
    assert note(looks, 6, SETTLED_AFTER_S - 0.1) == {}
    assert note(looks, 7, SETTLED_AFTER_S) == {"c": 5}
    assert note(looks, 8, 2 * SETTLED_AFTER_S) == {"c": 7}


def test_counters_that_lost_something_lack_what_was_known_when_they_were_there_last(looks):
    note(looks, 5, 0.0)
    note(looks, 6, 1.0, is_away=True)

    assert note(looks, 7, 2.0, is_lacking=True) == {"c": 5}


def test_amounts_are_those_of_all_budgets():
    others = LedgerReading(budget(name="b"), {"d": 2}, is_whole=False)

    assert amounts_of([ledger_reading(1), others]) == {"c": 1, "d": 2}


def test_the_last_32_looks_are_remembered(looks):
    for number in range(33):
        note(looks, number, number / 10)

    assert note(looks, 99, SETTLED_AFTER_S) == {}
    assert note(looks, 99, SETTLED_AFTER_S + 0.2) == {"c": 2}
