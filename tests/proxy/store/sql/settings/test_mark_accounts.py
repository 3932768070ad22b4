"""Accounts of cache marks in the database."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.records.feature_mode import LayoutScope
from proxy.records.mark_account import MarkAccountChange, StoredMarkAccount, TeamLoan
from proxy.store.sql.settings.mark_accounts import HALVING_INTERVAL_S, MarkAccounts

NOW = 1_790_000_000.0
SCOPE = LayoutScope("team", "search", "claude-sonnet")


@pytest.fixture
def accounts(engine: Engine) -> MarkAccounts:
    return MarkAccounts(engine)


def change(
    balance: int = 0, *, decay: float = 1.0, scope: LayoutScope = SCOPE, place: int = 0
) -> MarkAccountChange:
    account = StoredMarkAccount(
        scope=scope,
        balance=balance,
        direct=1_000,
        staked=max(0, -balance),
        earned=max(0, balance),
        calls=1,
        places=(place, 0, 0, 0, -place),
    )
    return MarkAccountChange(account=account, decay=decay)


def test_counts_of_several_gateways_add_up(accounts):
    accounts.add([change(-500)], NOW)
    (account,) = accounts.add([change(800)], NOW + 1)

    assert (account.balance, account.direct, account.calls) == (300, 2_000, 2)
    assert (account.staked, account.earned) == (500, 800)
    assert accounts.updated_since(NOW, 10) == [account]


def test_a_feature_that_lost_more_than_a_dollar_in_nanos_is_kept_whole(accounts):
    (account,) = accounts.add([change(-(10**13))], NOW)

    assert account.balance == -(10**13)


def test_balances_of_places_fade_before_new_ones_are_added(accounts):
    accounts.add([change(place=1_000)], NOW)
    (account,) = accounts.add([change(decay=0.5, place=10)], NOW)

    assert account.places == (510, 0, 0, 0, -510)


def test_gateways_that_count_at_once_lose_nothing_of_each_other(accounts):
    with ThreadPoolExecutor(4) as threads:
        for _ in range(40):
            threads.submit(accounts.add, [change(1), change(1, scope=LayoutScope("b", "x"))], NOW)

    assert [account.balance for account in accounts.updated_since(NOW, 10)] == [40, 40]


def test_only_accounts_that_were_counted_since_are_read_the_latest_first(accounts):
    for seconds, name in enumerate("abc"):
        accounts.add([change(scope=LayoutScope("team", name))], NOW + seconds)

    names = [account.scope.feature for account in accounts.updated_since(NOW + 1, 10)]
    assert names == ["c", "b"]
    assert len(accounts.updated_since(NOW, 1)) == 1


def test_a_loss_is_half_after_a_day_however_many_gateways_see_to_it(accounts):
    accounts.add([change(-1_000_000), change(1_000_000, scope=LayoutScope("b", "x"))], NOW)
    for hour in range(1, 25):
        for _ in range(3):
            accounts.halve_losses(NOW + hour * HALVING_INTERVAL_S)

    balances = {account.scope.team: account.balance for account in accounts.updated_since(NOW, 10)}
    assert balances["team"] == pytest.approx(-500_000, rel=0.01)
    assert balances["b"] == 1_000_000


def test_totals_are_of_all_accounts_and_list_those_that_staked_most(accounts):
    balances = (-500, 800, -900)
    changes = [change(sum_, scope=LayoutScope("a", f"f{sum_}")) for sum_ in balances]
    accounts.add(changes, NOW)
    totals = accounts.totals(ALL_CALLS, 2)

    assert (totals.staked, totals.earned, totals.lost, totals.accounts) == (1_400, 800, 1_400, 3)
    assert [account.scope.feature for account in totals.largest] == ["f-900", "f-500"]


def test_totals_are_of_the_teams_and_features_asked_for(accounts):
    scopes = (LayoutScope("a", "x"), LayoutScope("a", "y"), LayoutScope("b", "x"))
    accounts.add([change(-1, scope=scope) for scope in scopes], NOW)
    own = SpendFilter(teams=frozenset("a"), values={"feature": frozenset("x")})

    assert [account.scope for account in accounts.totals(own, 9).largest] == [LayoutScope("a", "x")]
    assert accounts.totals(own, 9).staked == 1
    assert accounts.totals(SpendFilter(teams=frozenset()), 9).accounts == 0


def test_accounts_that_nobody_counts_for_are_deleted(accounts):
    accounts.add([change()], NOW)
    accounts.add([change(scope=LayoutScope("b", "x"))], NOW + 100)
    accounts.delete_unused(NOW + 50)

    assert [account.scope.team for account in accounts.updated_since(NOW, 10)] == ["b"]


def test_a_clock_that_ran_ahead_does_not_keep_losses_from_fading(accounts):
    accounts.add([change(-1_000_000)], NOW)
    accounts.halve_losses(NOW + 400 * 86_400.0)
    accounts.halve_losses(NOW + 10.0)

    (account,) = accounts.updated_since(NOW, 10)
    assert account.balance == pytest.approx(-1_000_000 * 0.9715**2, rel=0.001)


DAY = int(NOW // 86_400.0)


def loan(more: int, *, team: str = "team", owed: int = 0, day: int = DAY) -> TeamLoan:
    return TeamLoan(team=team, day=day, more=more, owed=owed)


def test_gateways_borrow_no_more_of_a_team_than_its_limit_together(accounts):
    assert accounts.lend([loan(70)], 100, NOW) == [70]
    assert accounts.lend([loan(70), loan(70, team="b")], 100, NOW) == [30, 70]
    assert accounts.lend([loan(1)], 100, NOW) == [0]
    assert accounts.lent_since(NOW, DAY) == {"team": 100, "b": 70}


def test_a_loss_that_was_made_already_is_counted_beyond_the_limit(accounts):
    accounts.lend([loan(100)], 100, NOW)

    assert accounts.lend([loan(50, owed=20)], 100, NOW) == [20]
    assert accounts.lent_since(NOW, DAY) == {"team": 120}


def test_amounts_that_are_given_back_are_lent_again(accounts):
    accounts.lend([loan(100)], 100, NOW)

    assert accounts.lend([loan(-60)], 100, NOW) == [-60]
    assert accounts.lend([loan(100)], 100, NOW) == [60]


def test_each_day_has_a_limit_of_its_own(accounts):
    accounts.lend([loan(100)], 100, NOW)

    assert accounts.lend([loan(100, day=DAY + 1)], 100, NOW) == [100]
    assert accounts.lent_since(NOW, DAY + 1) == {"team": 100}


def test_gateways_that_borrow_at_once_stay_within_the_limit(accounts):
    with ThreadPoolExecutor(4) as threads:
        lent = [threads.submit(accounts.lend, [loan(7)], 100, NOW) for _ in range(40)]

    assert sum(future.result()[0] for future in lent) == 100
    assert accounts.lent_since(NOW, DAY) == {"team": 100}


def test_gateways_lock_teams_in_one_order_so_that_none_waits_for_another_in_a_circle(
    accounts: MarkAccounts, engine: Engine
):
    parameters: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: parameters.append(str(call[3])))

    assert accounts.lend([loan(70, team="b"), loan(30, team="a")], 100, NOW) == [70, 30]
    teams = [team for row in parameters for team in "ab" if f"'{team}'" in row]
    assert teams == ["a", "b"]


def test_days_of_teams_are_deleted_with_unused_accounts(accounts):
    accounts.lend([loan(100)], 100, NOW)
    accounts.delete_unused(NOW + 1)

    assert accounts.lent_since(NOW, DAY) == {}
