from collections import Counter

import pytest

from proxy.services.budgets.accounts import LedgerAccount, LedgerAccounts, is_compared
from proxy.store.sql.ledger.spendings import MAX_NAMES, NamedSpendings, Spending
from slo.budgets.budget import Budget, BudgetUnit
from slo.window import Window

DAY = 86_400
#: The 21st of a September.
NOW = 1_790_000_000.0
MIDNIGHT = NOW // DAY * DAY
FIRST = MIDNIGHT - 20 * DAY


class FakeSpendings:
    """Spendings that have one thing of each day's each hour, and count who asks."""

    def __init__(self) -> None:
        self.asked: Counter[tuple[str, str]] = Counter()
        self.days: Counter[float] = Counter()
        self.is_whole = True
        self.late = 0
        self.users = 1
        self.cut: dict[float, float | None] = {}
        self.attempts: Counter[float] = Counter()
        self.counts_of_attempts = 0

    def attempts_of_days(self, start: float, end: float) -> int:
        self.counts_of_attempts += 1
        return sum(self.attempts[day] for day in range(int(start), int(end), DAY))

    def from_rollups(
        self, scope: str, start: float, end: float, ended_before: float | None = None
    ) -> dict[str, Spending]:
        self.asked["rollups", scope] += 1
        self.cut[start] = ended_before
        return self._spending(start, end)

    def from_receipts(
        self, scope: str, start: float, end: float, ended_before: float | None = None
    ) -> NamedSpendings:
        self.asked["receipts", scope] += 1
        self.cut[start] = ended_before
        return NamedSpendings(self._spending(start, end), self.is_whole)

    def _spending(self, start: float, end: float) -> dict[str, Spending]:
        self.days.update(range(int(start), int(min(end, NOW)), DAY))
        hours = int(min(end, NOW) - start) // 3600 + self.late
        return {f"n{n}": Spending(hours, 2 * hours, 3 * hours) for n in range(self.users)}


def budget(**fields: object) -> Budget:
    return Budget(
        **{  # type: ignore[arg-type]
            "name": "b",
            "scope": "team",
            "unit": BudgetUnit.USD,
            "window": Window.DAY,
            "limit": 1,
            **fields,
        }
    )


@pytest.fixture
def spendings() -> FakeSpendings:
    return FakeSpendings()


@pytest.fixture
def accounts(spendings: FakeSpendings) -> LedgerAccounts:
    return LedgerAccounts(spendings)  # type: ignore[arg-type]


HOURS = int(NOW - MIDNIGHT) // 3600


@pytest.mark.parametrize(
    ("fields", "source"),
    [
        ({}, "rollups"),
        ({"scope": "organization", "window": Window.HOUR}, "rollups"),
        ({"scope": "key", "window": Window.MONTH, "unit": BudgetUnit.TOKENS}, "rollups"),
        ({"unit": BudgetUnit.REQUESTS}, "receipts"),
        ({"window": Window.MINUTE}, "receipts"),
        ({"scope": "user"}, "receipts"),
    ],
)
def test_rollups_are_asked_where_they_know_and_else_receipts(spendings, accounts, fields, source):
    accounts.account(budget(**fields), NOW)

    assert {who for who, _ in spendings.asked} == {source}


@pytest.mark.parametrize(
    ("unit", "amount"),
    [(BudgetUnit.USD, HOURS), (BudgetUnit.TOKENS, 2 * HOURS), (BudgetUnit.REQUESTS, 3 * HOURS)],
)
def test_the_amount_is_in_the_budget_s_unit(accounts, unit, amount):
    assert accounts.account(budget(unit=unit), NOW) == LedgerAccount({"n0": amount}, is_whole=True)


def test_of_one_name_only_its_own_is_reported_and_of_every_name_that_of_nobody_is_not(
    spendings, accounts
):
    spendings.users = 3
    assert accounts.account(budget(of="n1"), NOW).by == {"n1": HOURS}
    assert len(accounts.account(budget(), NOW).by) == 3
    spendings.from_rollups = lambda *_: {"": Spending(1, 1), "a": Spending(2, 2)}
    assert accounts.account(budget(scope="feature"), NOW).by == {"a": 2}
    assert accounts.account(budget(scope="feature", of=""), NOW).by == {"": 1}


def test_budgets_that_are_asked_about_together_share_what_is_read(spendings, accounts):
    for of in ("a", "b", "*"):
        for unit in (BudgetUnit.USD, BudgetUnit.TOKENS):
            accounts.account(budget(of=of, unit=unit), NOW)
    assert spendings.asked == {("rollups", "team"): 1}

    accounts.account(budget(), NOW + 60)
    assert spendings.asked == {("rollups", "team"): 2}


def test_of_a_month_the_days_before_yesterday_are_read_once(spendings, accounts):
    month = budget(window=Window.MONTH, scope="user")
    first = accounts.account(month, NOW)
    spendings.days.clear()
    again = accounts.account(month, NOW + 60)

    assert first.by["n0"] == again.by["n0"] == 20 * 24 + HOURS
    assert set(spendings.days) == {MIDNIGHT - DAY, MIDNIGHT}


def test_a_new_month_begins_at_nothing(spendings, accounts):
    month = budget(window=Window.MONTH)
    accounts.account(month, FIRST - 60)
    spendings.attempts[FIRST - DAY] = 1

    assert accounts.account(month, FIRST + 3600).by == {"n0": (NOW - FIRST) // 3600}
    spendings.late = 1
    assert accounts.account(month, FIRST + 7200).by == {"n0": (NOW - FIRST) // 3600 + 1}


@pytest.mark.parametrize("scope", ["team", "user"])
def test_past_days_of_a_month_are_read_again_once_their_receipts_came_late(
    spendings, accounts, scope
):
    month = budget(window=Window.MONTH, scope=scope)
    accounts.account(month, NOW)
    spendings.late, spendings.attempts[FIRST + 3 * DAY] = 1, 5
    late = accounts.account(month, NOW + 60)
    spendings.days.clear()
    again = accounts.account(month, NOW + 120)

    days = 20 + 1
    assert late.by == again.by
    assert late.by["n0"] == 20 * 24 + HOURS + days - 1  # yesterday and today are read as one
    assert set(spendings.days) == {MIDNIGHT - DAY, MIDNIGHT}


def test_a_day_that_has_just_passed_is_no_reason_to_read_the_others_again(spendings, accounts):
    month = budget(window=Window.MONTH, scope="user")
    spendings.attempts.update({FIRST + n * DAY: n + 1 for n in range(22)})
    accounts.account(month, NOW)
    spendings.days.clear()
    accounts.account(month, NOW + DAY)

    assert min(spendings.days) == MIDNIGHT - DAY


def test_attempts_of_past_days_are_counted_once_for_all_budgets(spendings, accounts):
    for now in (NOW, NOW + 60):
        for scope in ("team", "key", "user"):
            accounts.account(budget(window=Window.MONTH, scope=scope), now)

    assert spendings.counts_of_attempts == 2


def test_a_month_of_which_a_day_is_not_whole_never_is(spendings, accounts):
    month = budget(window=Window.MONTH, scope="user")
    spendings.is_whole = False
    assert not accounts.account(month, NOW).is_whole
    spendings.is_whole = True
    assert not accounts.account(month, NOW + 60).is_whole
    assert accounts.account(budget(scope="user"), NOW + 60).is_whole


def test_of_a_month_no_more_names_are_kept_than_of_a_day(spendings, accounts):
    spendings.users = MAX_NAMES + 10

    assert len(accounts.account(budget(window=Window.MONTH), NOW).by) == MAX_NAMES


def test_labels_stand_in_no_ledger():
    assert not is_compared(budget(scope="label:project"))
    assert is_compared(budget(scope="user", unit=BudgetUnit.REQUESTS, window=Window.MONTH))


@pytest.mark.parametrize("fields", [{}, {"scope": "user"}])
def test_attempts_that_ended_later_are_left_out_of_the_days_that_are_read_each_time(
    spendings, accounts, fields
):
    accounts.account(budget(window=Window.MONTH, **fields), NOW, NOW - 12)
    recent = max(spendings.cut)

    assert spendings.cut.pop(recent) == NOW - 12
    assert set(spendings.cut.values()) == {None}
    accounts.account(budget(window=Window.MONTH, **fields), NOW)
    assert spendings.cut[recent] is None


def test_last_whole_days_are_read_once_a_day_for_all_budgets_of_a_scope() -> None:
    spendings = FakeSpendings()
    accounts = LedgerAccounts(spendings)  # type: ignore[arg-type]

    for unit, amount in ((BudgetUnit.USD, 24), (BudgetUnit.TOKENS, 48)):
        assert accounts.last_days(budget(unit=unit), NOW) == {"n0": [amount] * 7}
    assert accounts.last_days(budget(of="n1"), NOW) == {}
    assert spendings.asked == {("rollups", "team"): 7}
    assert sorted(spendings.cut) == [MIDNIGHT - n * DAY for n in range(7, 0, -1)]

    accounts.last_days(budget(), NOW + DAY)
    assert spendings.asked == {("rollups", "team"): 14}


def test_yesterday_is_read_again_every_hour_for_what_settles_late() -> None:
    spendings = FakeSpendings()
    accounts = LedgerAccounts(spendings)  # type: ignore[arg-type]
    accounts.last_days(budget(), MIDNIGHT)
    spendings.late = 1

    assert accounts.last_days(budget(), MIDNIGHT + 3_599)["n0"] == [24] * 7
    assert accounts.last_days(budget(), MIDNIGHT + 3_600)["n0"] == [*[24] * 6, 25]
    assert spendings.asked == {("rollups", "team"): 8}


def test_last_days_have_no_more_names_than_are_kept(spendings, accounts) -> None:
    spendings.users = MAX_NAMES + 10

    assert len(accounts.last_days(budget(), NOW)) == MAX_NAMES


@pytest.mark.parametrize(
    "fields",
    [
        {"scope": "user"},
        {"scope": "label:x"},
        {"unit": BudgetUnit.REQUESTS},
        {"window": Window.HOUR},
    ],
)
def test_last_days_of_what_rollups_do_not_know_are_not_read(fields: dict[str, object]) -> None:
    spendings = FakeSpendings()

    accounts = LedgerAccounts(spendings)  # type: ignore[arg-type]

    assert accounts.last_days(budget(**fields), NOW) == {}
    assert not spendings.asked
