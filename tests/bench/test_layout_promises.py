"""Layouts save what they promise."""

import pytest

from tests.bench.layout_promises import Promise, PromiseRow, measure


@pytest.mark.slow
def test_layout_saves_what_it_promises_while_conversations_run():
    """Only first calls gain, and a tenth are: taking those that run as ended promises 1.3 times."""
    row = measure("name and date on top", "deepseek-flash", calls=450, rate=30.0)
    early, late = row.promises[12], row.promises[400]

    assert early is not None
    assert late is not None
    assert early.is_least
    assert early.dollars <= 1.15 * row.came
    assert not late.is_least
    assert late.dollars == pytest.approx(row.came, rel=0.15)
    assert not row.is_off


@pytest.mark.parametrize(
    ("promise", "notes"),
    [
        (Promise(1.1, is_least=False), "within"),
        (Promise(1.2, is_least=False), "off"),
        (Promise(0.8, is_least=False), "off"),
        (Promise(0.1, is_least=True), "within"),
        (Promise(1.2, is_least=True), "off"),
    ],
)
def test_promise_is_off_beyond_fifteen_percent_but_a_least_only_where_it_is_too_high(
    promise: Promise, notes: str
):
    row = PromiseRow(
        workload="w",
        model="m",
        cost=5.0,
        came=1.0,
        promises={50: promise, 100: None},
        again=0.0,
        is_rolled_back=False,
    )

    assert row.is_off is (notes == "off")
