"""Processes borrow what a team's features may lose in a day."""

import pytest

from proxy.prefix.breakpoints.account import PromptPlace
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import (
    LOAN_STEP,
    MAX_TEAM_LOSS,
    MAX_TEAM_LOSS_NANOS,
    PLACES,
    UNITS_PER_NANO,
    StoredMarkAccount,
    TeamStake,
)

DAY_S = 86_400.0
NOON = 20_000.5 * DAY_S


def sharing_process() -> TeamStake:
    """A team in a process that shares its losses."""
    return TeamStake(unlent=LOAN_STEP)


def lend_all(stake: TeamStake) -> int:
    """Lend what is asked for; returns how much that is, in nano-dollars."""
    loan = stake.loan("team")
    if loan is None:
        return 0
    stake.adopt_loan(loan, loan.more)
    return loan.more


def test_a_team_loses_no_more_than_a_dollar_in_a_day():
    team = TeamStake()
    team.allows(0.0, NOON)
    team.record(MAX_TEAM_LOSS - 10.0, NOON)

    assert team.allows(10.0, NOON)
    assert not team.allows(11.0, NOON)
    team.record(-5.0, NOON)
    assert team.allows(11.0, NOON)


def test_a_team_begins_each_day_anew():
    team = TeamStake()
    team.record(MAX_TEAM_LOSS, NOON)

    assert not team.allows(1.0, NOON + DAY_S / 2 - 1.0)
    assert team.allows(1.0, NOON + DAY_S / 2)


def test_calls_of_yesterday_that_end_today_do_not_begin_the_day_twice():
    team, midnight = TeamStake(), NOON + DAY_S / 2
    team.record(MAX_TEAM_LOSS, midnight)
    team.record(0.0, midnight - 1.0)

    assert not team.allows(1.0, midnight + 1.0)


def test_a_clock_that_runs_a_year_ahead_and_is_set_back_gives_the_team_no_third_dollar():
    team = TeamStake()
    for now in (NOON, NOON + 365 * DAY_S, NOON):
        team.allows(0.0, now)
        team.record(MAX_TEAM_LOSS, now)

    assert not team.allows(1.0, NOON)
    assert team.allows(1.0, NOON + DAY_S)


def test_a_process_loses_a_tenth_before_a_store_lent_it_anything_and_then_what_is_lent():
    team = sharing_process()

    assert team.allows(LOAN_STEP, NOON)
    assert not team.allows(1.01 * LOAN_STEP, NOON)
    assert lend_all(team) == pytest.approx(MAX_TEAM_LOSS_NANOS * 0.101)
    assert team.allows(1.01 * LOAN_STEP, NOON)


def test_a_process_loses_no_more_than_was_lent_while_the_store_is_away():
    team = sharing_process()
    team.allows(0.0, NOON)
    team.record(0.5 * LOAN_STEP, NOON)
    lent = lend_all(team) * UNITS_PER_NANO
    team.record(lent - team.lost, NOON)

    assert not team.allows(1.0, NOON)


def test_a_process_that_ends_gives_back_what_it_did_not_use():
    team = sharing_process()
    team.record(0.3 * LOAN_STEP, NOON)
    lent = lend_all(team)
    loan = team.loan("team", ends=True)

    assert loan is not None
    assert lent + loan.more == pytest.approx(0.3 * LOAN_STEP / UNITS_PER_NANO, abs=1)


def test_a_team_that_lost_nothing_asks_for_nothing():
    team = sharing_process()
    team.allows(1.0, NOON)
    team.record(0.0, NOON)

    assert team.loan("team") is None


def test_a_process_that_starts_late_begins_with_a_tenth_of_what_is_left():
    team = sharing_process()
    team.note_lent(MAX_TEAM_LOSS_NANOS * 9 // 10, NOON)

    assert team.allows(0.09 * LOAN_STEP, NOON)
    assert not team.allows(0.11 * LOAN_STEP, NOON)
    team.note_lent(MAX_TEAM_LOSS_NANOS, NOON)
    assert not team.allows(1.0, NOON)


def test_a_loan_of_yesterday_is_none_of_today():
    team = sharing_process()
    team.record(0.9 * LOAN_STEP, NOON)
    loan = team.loan("team")
    assert loan is not None
    team.allows(0.0, NOON + DAY_S)
    team.adopt_loan(loan, loan.more)

    assert not team.allows(1.5 * LOAN_STEP, NOON + DAY_S)


def test_a_clock_that_begins_at_zero_is_a_day_as_any_other():
    assert TeamStake().allows(1.0, 10.0)


def test_stored_places_are_those_that_marks_end():
    assert [place.name.lower() for place in PromptPlace] == list(PLACES)
    assert len(StoredMarkAccount(scope=LayoutScope("team", "chat")).places) == len(PLACES)
