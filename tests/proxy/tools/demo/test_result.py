from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.store.store import Store
from proxy.tools.demo.baseline import CallTotals, CostBaseline
from proxy.tools.demo.result import DemoResult, learned_features, of_store
from proxy.tools.demo.traffic import DemoCall
from tests.fakes.chaos import two_model_catalog
from tests.fakes.databases import migrated_sqlite
from tests.fakes.receipts import START, a_receipt
from tests.proxy.tools.demo.scripts import Says, plan

CATALOG = two_model_catalog()
SINCE = datetime.fromtimestamp(START, UTC)
NAMES = {"team_0": "acme-support", "team_1": "acme-engineering"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store.open(migrated_sqlite(tmp_path / "demo.db"), tmp_path / "journal")
    yield opened
    opened.close(5.0)


def a_sent(n: int, **changes: Any) -> DemoCall:
    (planned,) = plan(Says("Hello!"))
    return DemoCall(**{"planned": planned, "call_id": a_receipt(n).call_id, **changes})


def result(store: Store, *demo_calls: DemoCall) -> DemoResult:
    return of_store(
        store,
        demo_calls,
        names=NAMES,
        since=SINCE,
        now=SINCE.timestamp() + 2.0,
        catalog=CATALOG,
    )


def test_a_ledger_with_every_call_is_complete(store: Store) -> None:
    for n in range(4):
        store.keep(a_receipt(n))
    shown = result(store, *map(a_sent, range(4)))

    assert shown.is_sound
    assert shown.ledger_calls == 4
    assert shown.lacking == ()


def test_a_call_the_ledger_lacks_is_named(store: Store) -> None:
    store.keep(a_receipt(0))
    shown = result(store, a_sent(0), a_sent(1))

    assert not shown.is_sound
    assert shown.lacking == (a_receipt(1).call_id,)


def test_an_answer_without_an_id_cannot_be_in_the_ledger(store: Store) -> None:
    shown = result(store, a_sent(0, call_id=""))

    assert shown.lacking == ("call 0",)


def test_a_call_that_never_reached_the_gateway_is_an_error_and_not_lacking(store: Store) -> None:
    shown = result(store, a_sent(0, call_id="", error="APIConnectionError: no"))

    assert shown.lacking == ()
    assert not shown.is_sound


def test_the_json_line_adds_up(store: Store) -> None:
    for n in range(4):
        store.keep(a_receipt(n))
    line = orjson.loads(result(store, *map(a_sent, range(4))).json())
    teams = line["teams"]

    assert (line["calls"], line["ledger_calls"], line["ledger_complete"]) == (4, 4, True)
    assert line["input_tokens"] == sum(100 + n + 1024 + 7 for n in range(4))
    assert line["cached_tokens"] == 4 * 1024
    assert line["hit_rate"] == round(line["cached_tokens"] / line["input_tokens"], 4)
    assert set(teams) == set(NAMES.values())
    assert sum(team["output_tokens"] for team in teams.values()) == line["output_tokens"] == 4 * 23


def test_the_cost_keeps_every_digit(store: Store) -> None:
    store.keep(a_receipt(0, cost_nanos=123_456_789_012_345))
    text = result(store, a_sent(0)).json()

    assert '"cost_usd":123456.789012345,' in text
    assert Decimal(text.partition('"cost_usd":')[2].partition(",")[0]) == Decimal(
        "123456.789012345"
    )


def test_an_unknown_price_is_null_and_counted(store: Store) -> None:
    store.keep(a_receipt(0, cost_nanos=None, list_nanos=None))
    line = orjson.loads(result(store, a_sent(0)).json())

    assert line["cost_usd"] is None
    assert line["unpriced"] == 1


def test_no_calls_cost_nothing(store: Store) -> None:
    line = orjson.loads(result(store).json())

    assert (line["calls"], line["hit_rate"], line["cost_usd"]) == (0, 0.0, 0)


def test_errors_are_listed(store: Store) -> None:
    line = orjson.loads(result(store, a_sent(0, error="broke off")).json())

    assert [error["error"] for error in line["errors"]] == ["broke off"]


def test_other_ways_stand_beside_the_ledger_by_team_and_in_all(store: Store) -> None:
    for n in range(2):
        store.keep(a_receipt(n))
    ways = CostBaseline(
        {
            "acme-support": CallTotals(100, 10, 2_500_000_001),
            "acme-engineering": CallTotals(300, 30, 5),
        },
        {"acme-support": CallTotals(100, 90, 1), "acme-engineering": CallTotals(300, 30, None)},
    )
    line = orjson.loads(replace(result(store, a_sent(0), a_sent(1)), otherwise=ways).json())
    team = line["teams"]["acme-support"]

    assert line["direct_hit_rate"] == 0.1
    assert (line["arranged_hit_rate"], line["arranged_cost_usd"]) == (0.3, None)
    assert team["direct_hit_rate"] == 0.1
    assert (team["arranged_hit_rate"], team["arranged_cost_usd"]) == (0.9, 1e-9)


def test_the_cost_sent_directly_is_that_of_pages_and_reports(store: Store) -> None:
    money = {"cost_nanos": 10**9, "list_nanos": 10**9, "conversation": "c"}
    store.keep(a_receipt(0, team="team_0", planning_nanos=10**9, **money))
    store.keep(a_receipt(1, team="team_1", planning_nanos=1, **money))
    line = orjson.loads(result(store, a_sent(0), a_sent(1)).json())

    assert line["savings"]["saved_usd"] == "1.000000001"
    assert line["direct_cost_usd"] == 3.000000001
    assert line["teams"]["acme-support"]["direct_cost_usd"] == 2
    assert line["teams"]["acme-engineering"]["savings"]["saved_usd"] == "0.000000001"


def test_features_with_a_layout_are_named(store: Store) -> None:
    place = LayoutScope("team_0", "chat", "gpt")
    store.layouts.switch(place.all_families, PlanningMode.AUTO, "anna", START)
    assert learned_features(store, NAMES) == ()

    store.layouts.propose(place, "digest", "{}", START)

    assert learned_features(store, NAMES) == (LayoutScope("acme-support", "chat", "gpt"),)
