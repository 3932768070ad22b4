"""Layouts save what they promise."""

import pytest

from tests.bench.layout_promises import measure


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
