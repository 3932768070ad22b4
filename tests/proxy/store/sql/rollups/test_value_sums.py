from collections.abc import Sequence
from dataclasses import replace

import pytest

from dashboards.reports import ALL_CALLS, Part
from proxy.store.sql.rollups.bucket_sums import SumQuery, Sums
from proxy.store.sql.rollups.value_sums import (
    OTHER_VALUES,
    ValueQuery,
    largest_values,
    merge_labels,
    merge_unshown,
    value_sums,
)

EDGES = (0, 10)
#: Sums by model asked for and route.
FOUND: Sums = {
    (0, "big", "lab/small"): {"cost": 5},
    (0, "small", "lab/small#b"): {"cost": 2},
    (0, "any", "lab/*"): {"cost": 4},
    (0, "big", "lab/big"): {"cost": 1},
}


def read(edges: Sequence[int], query: SumQuery) -> Sums:
    assert edges == EDGES
    return FOUND


def a_query(part: Part | None = "model") -> ValueQuery:
    return ValueQuery(part=part, addends=lambda _: {}, only=ALL_CALLS)


def costs(sums_by_value: Sums) -> dict[str, int]:
    return {value: sums["cost"] for (_, value), sums in sums_by_value.items()}


def test_models_are_those_that_answered_whatever_was_asked_for() -> None:
    assert costs(value_sums(read, EDGES, a_query())) == {"small": 7, "any": 4, "big": 1}


@pytest.mark.parametrize(
    ("limit", "wanted"),
    [(1, {"small": 7, OTHER_VALUES: 5}), (2, {"small": 7, "any": 4, OTHER_VALUES: 1})],
)
def test_the_largest_are_kept_apart_and_all_others_are_one(limit: int, wanted) -> None:
    sums = value_sums(read, EDGES, a_query())
    shown = largest_values(sums, "cost", limit)

    assert costs(merge_unshown(sums, shown)) == wanted
    assert costs(value_sums(read, EDGES, replace(a_query(), shown=shown))) == wanted


def test_values_are_ranked_by_the_bucket_that_is_asked_for() -> None:
    sums: Sums = {(0, "old"): {"cost": 9}, (1, "old"): {"cost": 1}, (1, "new"): {"cost": 2}}

    assert largest_values(sums, "cost", 1, bucket=1) == {"new"}
    assert merge_unshown(sums, {"new"}) == {
        (0, OTHER_VALUES): {"cost": 9},
        (1, OTHER_VALUES): {"cost": 1},
        (1, "new"): {"cost": 2},
    }


def test_values_of_one_label_are_one_and_those_without_are_another() -> None:
    sums: Sums = {(0, "a"): {"n": 1}, (0, "b"): {"n": 2}, (1, "a"): {"n": 4}, (0, "c"): {"n": 8}}

    assert merge_labels(sums, {"a": "x", "b": "x"}) == {
        (0, "x"): {"n": 3},
        (1, "x"): {"n": 4},
        (0, ""): {"n": 8},
    }
