"""The field's example comes out as the field says, on each cache regime, through HTTP.

``python -m tests.bench.prefix`` prints the table with more calls.
"""

from collections.abc import Iterator

import pytest

from tests.bench.prefix import PLANNED, LedgerFigures, rows
from tests.bench.prefix_traffic import traffic
from tests.fakes.handbook import handbook
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

CALLS = 60
#: Answers differ by a few tokens from way to way, and intervals of 2,048 hide short conversations.
AS_MUCH = 0.998
Table = dict[str, LedgerFigures]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrefixHarness]:
    with prefix_harness(tmp_path_factory.mktemp("hours")) as running:
        yield running


@pytest.fixture(scope="module", params=MODELS)
def table(request: pytest.FixtureRequest, harness: PrefixHarness) -> Table:
    return {row.way: row for row in rows(harness, traffic(CALLS), [request.param])}


def test_the_prompt_is_some_twelve_thousand_tokens(harness: PrefixHarness) -> None:
    assert 12_000 <= len(harness.lab.vocabulary.ids(handbook())) <= 12_700


def test_the_users_are_a_realistic_mix() -> None:
    calls = traffic(600)
    turns = [1 + max(one.turn for one in calls if one.user.number == n) for n in range(100)]

    assert calls == traffic(600)
    assert [one.at for one in calls] == sorted(one.at for one in calls)
    assert 0.2 < sum(count == 1 for count in turns) / len(turns) < 0.4
    assert set(turns) == {1, 2, 3, 4, 5, 6}
    assert len({one.question for one in calls}) == 600


def test_variable_first_hits_next_to_nothing(table: Table) -> None:
    assert table["variable-first"].hit_rate < 0.01


def test_stable_first_hits_most(table: Table) -> None:
    assert table["stable-first"].hit_rate >= 0.70


def test_sharing_prefixes_hits_as_much_and_more(table: Table) -> None:
    assert table["prefix sharing"].hit_rate >= 0.85
    assert table["prefix sharing"].hit_rate >= AS_MUCH * table["stable-first"].hit_rate


def test_each_step_costs_no_more_than_the_one_before(table: Table) -> None:
    first, then, last = (table[way] for way in ("variable-first", "stable-first", "prefix sharing"))

    assert AS_MUCH * last.dollars <= then.dollars < 0.5 * first.dollars


def test_the_right_order_alone_hits_nothing_where_a_mark_is_wanted(table: Table) -> None:
    if "unmarked" in table:
        assert table["unmarked"].hit_rate < 0.01
        assert table["unmarked"].dollars >= 0.99 * table["variable-first"].dollars


def test_planning_makes_variable_first_nearly_as_good_as_sharing(table: Table) -> None:
    assert table[PLANNED].hit_rate >= 0.85
    assert table[PLANNED].hit_rate >= 0.97 * table["prefix sharing"].hit_rate
    assert table[PLANNED].dollars <= 1.10 * table["prefix sharing"].dollars
