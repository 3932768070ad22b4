import pytest

from proxy.store.inserts import inserter
from proxy.store.spendings import Spending, Spendings
from proxy.store.teams import Teams
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt

DAY = START // 86_400 * 86_400


@pytest.fixture
def spendings(engine):
    teams = [Teams(engine).create(name, now=START).id for name in ("acme", "other")]
    fields = {"usage": Usage(input=1, cache_read=2, write_5m=3, output=4, reasoning=5)}
    inserter(engine)(
        [
            a_receipt(
                n, team=teams[n % 2], feature="ab"[n // 2], key_id="k", cost_nanos=n, **fields
            )
            for n in range(4)
        ]
        + [a_receipt(9, team=teams[0], started=START - 86_400, **fields)]
    )
    return Spendings(engine)


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("organization", {"*": Spending(6, 60)}),
        ("team", {"acme": Spending(2, 30), "other": Spending(4, 30)}),
        ("feature", {"a": Spending(1, 30), "b": Spending(5, 30)}),
        ("key", {"k": Spending(6, 60)}),
        ("user", {}),
    ],
)
def test_what_was_used_in_a_window_is_told_by_whose(spendings, scope, found):
    assert spendings.of(scope, DAY, DAY + 86_400) == found


def test_where_nothing_was_used_nothing_is_told(spendings):
    assert spendings.of("team", DAY + 86_400, DAY + 2 * 86_400) == {}
    assert spendings.of("organization", DAY + 86_400, DAY + 2 * 86_400) == {}


def test_what_has_no_known_price_costs_nothing(engine):
    inserter(engine)([a_receipt(0, cost_nanos=None, list_nanos=None)])

    assert Spendings(engine).of("key", DAY, DAY + 86_400)["key_0"].nanos == 0
