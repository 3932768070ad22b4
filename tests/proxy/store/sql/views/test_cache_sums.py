import pytest
from sqlalchemy import Engine

from dashboards.reports import ALL_CALLS, SpendFilter
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.rollups.value_sums import OTHER_VALUES
from proxy.store.sql.views.cache_sums import CacheReader, CacheSplit
from slo.usage import Usage
from tests.fakes.ledger import MERGED_PARTS, book
from tests.fakes.receipts import START, a_receipt

DAY = 86_400
FIRST = int(START) // DAY * DAY
EDGES = (FIRST, FIRST + DAY)


@pytest.fixture(params=MERGED_PARTS)
def reader(engine: Engine, request: pytest.FixtureRequest) -> CacheReader:
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
    return CacheReader(engine)


def test_prompts_are_summed_by_value_and_the_rest_together(reader: CacheReader) -> None:
    split = CacheSplit(part="team", labels={}, limit=1)
    figures = reader.sums((*EDGES, FIRST + 2 * DAY), split, ALL_CALLS)
    found = figures.values

    assert set(found) == set(figures.buckets) == {(0, "a"), (0, OTHER_VALUES)}
    assert figures.buckets[0, "a"] == {"prompt_tokens": 200, "read_tokens": 90}
    assert found[0, "a"] == {
        "calls": 2, "prompt_tokens": 200, "read_tokens": 90, "written_tokens": 60,
        "expected_tokens": 0, "missed_attempts": 1, "missed_tokens": 9, "missed_nanos": 4,
    }  # fmt: skip
    assert found[0, OTHER_VALUES]["prompt_tokens"] == 7


def test_teams_that_may_not_be_seen_are_not_counted(reader: CacheReader) -> None:
    only = SpendFilter(teams=frozenset({"b"}))

    split = CacheSplit(part="feature", labels={}, limit=5)
    found = reader.sums(EDGES, split, only)
    assert set(found.values) == set(found.buckets) == {(0, "y")}
    assert set(found.features) == {(0, "b", "y")}


def test_models_are_those_that_answered(reader: CacheReader) -> None:
    split = CacheSplit(part="model", labels={}, limit=5)
    found = reader.sums(EDGES, split, ALL_CALLS)

    assert set(found.values) == set(found.buckets) == {(0, "model-0"), (0, "model-1")}


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
    found = CacheReader(engine).prompts_around_miss(calls[5].call_id)

    assert (found.missed, found.hit, found.hit_call_id) == (
        "prompt 6",
        "prompt 2",
        calls[1].call_id,
    )
    assert CacheReader(engine).prompts_around_miss(calls[0].call_id).hit is None
    assert CacheReader(engine).prompts_around_miss("call_0").missed is None
