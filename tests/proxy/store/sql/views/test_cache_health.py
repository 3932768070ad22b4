from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine

from dashboards.report_periods import time_buckets
from dashboards.reports import ALL_CALLS, ReportPeriod, SpendFilter
from dashboards.views.cache_health import CacheDimension, MissReasonSums
from proxy.store.sql.database import read_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.bucket_sums import Sums
from proxy.store.sql.rollups.value_sums import OTHER_VALUES
from proxy.store.sql.views.cache_health import (
    CacheQuestion,
    ComparedPrompts,
    compare_prompts,
    misses,
    tokens_by_value,
)
from proxy.store.sql.views.readers import Readers
from slo.usage import Usage
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

DAY = 86_400
FIRST = int(START) // DAY * DAY
DATE = datetime.fromtimestamp(FIRST, UTC).date()


@pytest.fixture(params=MERGED_PARTS)
def ledger(engine: Engine, request: pytest.FixtureRequest) -> Engine:
    missed = {"conversation": "ab", "miss": "expired", "miss_tokens": 9, "miss_nanos": 4}
    book(
        engine,
        [
            a_receipt(1, team="a", feature="x", usage=Usage(input=10, cache_read=90)),
            a_receipt(2, team="a", feature="x", usage=Usage(input=40, write_5m=60), **missed),
            a_receipt(3, team="b", feature="y", usage=Usage(input=7)),
        ],
        request.param,
    )
    return engine


def tokens(
    engine: Engine, by: CacheDimension, *, top: int = 5, only: SpendFilter = ALL_CALLS
) -> tuple[Sums, Sums, Sums]:
    """Sums by value, by feature, and by bucket and value."""
    period = ReportPeriod(first=DATE, end=DATE + timedelta(days=2), zone="UTC")
    question = CacheQuestion(
        by=by,
        top=top,
        period=period,
        buckets=time_buckets(period, "day"),
        only=only,
        providers={},
        regimes={},
        floors=(),
        max_loss_nanos=0,
    )
    with read_transaction(engine, is_snapshot=True) as connection:
        return tokens_by_value(connection, question)


def reasons(
    engine: Engine, first: int, end: int, only: SpendFilter = ALL_CALLS, **how: Any
) -> list[MissReasonSums]:
    with read_transaction(engine) as connection:
        return misses(connection, (first, end), only, {"a": "Acme"}, **how)


def test_prompts_are_summed_by_value_and_the_rest_together(ledger: Engine) -> None:
    values, _, buckets = tokens(ledger, "team", top=1)

    assert set(values) == set(buckets) == {(0, "a"), (0, OTHER_VALUES)}
    assert buckets[0, "a"] == {"prompt_tokens": 200, "read_tokens": 90}
    assert values[0, "a"] == {
        "calls": 2, "prompt_tokens": 200, "read_tokens": 90, "written_tokens": 60,
        "expected_tokens": 0, "missed_attempts": 1, "missed_tokens": 9, "missed_nanos": 4,
    }  # fmt: skip
    assert values[0, OTHER_VALUES]["prompt_tokens"] == 7


def test_caches_of_teams_that_may_not_be_seen_are_not_counted(ledger: Engine) -> None:
    values, features, buckets = tokens(ledger, "feature", only=SpendFilter(teams=frozenset({"b"})))

    assert set(values) == set(buckets) == {(0, "y")}
    assert set(features) == {(0, "b", "y")}


def test_models_of_cached_prompts_are_those_that_answered(ledger: Engine) -> None:
    values, _, buckets = tokens(ledger, "model")

    assert set(values) == set(buckets) == {(0, "model-0"), (0, "model-1")}


def test_misses_are_those_of_the_days_and_teams_the_dearest_first(engine: Engine) -> None:
    missed: dict[str, Any] = {"conversation": "ab", "miss": "expired"}
    calls = [
        a_receipt(1, team="a", feature="x", **missed, miss_tokens=7, miss_nanos=3),
        a_receipt(3, team="b", feature="y", **missed, miss_tokens=1),
    ]
    book(engine, calls, 0.5)
    only = SpendFilter(teams=frozenset({"a"}))
    places: dict[str, Any] = {"places": ("team", "feature")}
    every = reasons(engine, FIRST, FIRST + DAY, **places)

    assert [(row.team, row.team_name, row.tokens, row.nanos) for row in every] == [
        ("a", "Acme", 7, 3),
        ("b", "b", 1, 0),
    ]
    assert [row.team for row in reasons(engine, FIRST, FIRST + 1, only, **places)] == ["a"]
    assert [row.team for row in reasons(engine, FIRST, FIRST + DAY, **places, limit=1)] == ["a"]
    assert reasons(engine, FIRST + DAY, FIRST + 2 * DAY, **places) == []


def test_reasons_for_misses_are_summed_over_all_features(ledger: Engine) -> None:
    (row,) = reasons(ledger, FIRST, FIRST + DAY)

    assert (row.reason, row.attempts, row.tokens, row.nanos) == ("expired", 1, 9, 4)
    assert (row.team, row.team_name, row.feature) == ("", "", "")


def test_the_prompt_of_a_miss_is_paired_with_that_of_the_last_hit(engine: Engine) -> None:
    def a_call(n: int, **changes: object):
        fields = {"team": "a", "feature": "x", "model": "m", "conversation": "ab"} | changes
        return a_receipt(n, prompt=f"prompt {n}", **fields)

    calls = [
        a_call(1),
        a_call(2),
        a_call(3, model="other"),
        a_call(4, miss="expired"),
        a_call(5, usage=Usage(input=9)),
        a_call(6, miss="diverged"),
    ]
    inserter(engine)(calls)
    readers = Readers(engine)
    pair = compare_prompts(readers, calls[5].call_id)

    assert (pair.keeps_prompts, pair.hit_call_id) == (True, calls[1].call_id)
    assert pair.difference is not None
    assert (pair.difference.missed, pair.difference.hit) == ("6", "2")
    assert compare_prompts(readers, calls[0].call_id) == ComparedPrompts(keeps_prompts=True)
    assert compare_prompts(readers, "call_0") == ComparedPrompts(keeps_prompts=False)
