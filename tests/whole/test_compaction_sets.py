"""Tests of what must survive compaction, on recorded dialogues; a sample of each set."""

from collections import Counter
from functools import cache
from itertools import islice

import pytest

from compaction.facts.fact import DetailLevel
from tests.bench.compaction_field import KINDS, outcome
from tests.bench.compaction_methods import at_detail_level
from tests.bench.compaction_metrics import Scale, Score, Tokens
from tests.bench.compaction_probes import CHAINS, POLICIES, breaches, ten_in_a_row
from tests.bench.compaction_retention import sample_of_cuts
from tests.bench.compaction_sets import SETS, TABLES, dialogues, dialogues_in_chains

#: Every so manieth dialogue is probed, so that all of it takes half a minute.
EVERY = {"tau": 16, "sgd x4": 8, "swe-agent": 4, "mini-swe": 4, "agentdojo": 240}
#: The same of the dialogues that are scored, where it is not each.
SCORED_EVERY = {"sgd": 2, "sgd x4": 3, "agentdojo": 3}
#: Parts of fewer tokens are left out; no policy compacts them unless it is told to.
LEAST = 1_000


@pytest.fixture(scope="module")
def count():
    return Tokens()


def require_set(name: str) -> None:
    _, path = SETS[name]
    if not path.exists():
        pytest.skip(f"no recordings at {path}")


#: Of a module's scope: pytest then runs all tests of a table in a row, and so in one process.
@cache
def score(table: str, level: DetailLevel, count: Tokens) -> Score:
    name = TABLES[table][0]
    require_set(name)
    least = LEAST if name in {"tau", "sgd x4"} else 0
    return Scale(count).score(
        sample_of_cuts(table, SCORED_EVERY.get(name, 1), least, count),
        at_detail_level(level, count),
    )


@pytest.mark.parametrize("table", ["tau, K=1", "tau, K=3"], scope="module")
def test_records_keep_what_an_airlines_desk_needs(table, count):
    result = score(table, DetailLevel.FACTS, count)

    assert result.recall() >= 99.0, result.lost
    assert result.bound_percent() >= 98.0, result.parted
    assert result.share <= 50.0


@pytest.mark.parametrize("table", ["tau, K=1", "tau, K=3"], scope="module")
def test_values_with_their_keys_and_fields_take_less(table, count):
    result = score(table, DetailLevel.VALUES, count)

    assert result.recall() >= 99.0, result.lost
    assert result.bound_percent() >= 95.0, result.parted
    assert result.share <= 43.0


@pytest.mark.parametrize("table", ["sgd, K=3", "sgd x4, K=3"], scope="module")
def test_slots_and_services_keep_their_values(table, count):
    result = score(table, DetailLevel.VALUES, count)

    assert result.recall() >= 99.0, result.lost
    assert result.share <= 45.0


@pytest.mark.parametrize(
    "table", ["tau, K=1", "tau, K=3", "sgd x4, K=3", "agentdojo"], scope="module"
)
def test_pruning_is_a_step_between(table, count):
    facts, pruned, values = (score(table, level, count).share for level in list(DetailLevel)[:3])

    assert facts > pruned > values


@pytest.mark.parametrize("table", ["swe-agent", "mini-swe"], scope="module")
def test_paths_and_identifiers_of_an_agents_work_stay(table, count):
    result = score(table, DetailLevel.FACTS, count)

    assert result.recall("path") == 100.0, result.lost
    assert result.recall("name") >= 95.0, result.lost
    assert result.share <= 25.0


@pytest.mark.parametrize("kind", ["desk", "clerk", "coder"])
def test_twenty_turns_come_under_three_thousand_tokens(kind, count):
    require_set({"desk": "tau", "clerk": "agentdojo", "coder": "pi-mono"}[kind])
    outcomes = [outcome(case, 3_000, count) for case in islice(KINDS[kind](count), 8)]
    roomy = [case for case in outcomes if 2 * case.floor <= 3_000]

    assert roomy
    assert [case.after for case in roomy if case.after > 3_000] == []
    # A short number stands in a longer one, and is not named.
    assert all(case.made.lost or max(map(len, case.lost), default=0) < 4 for case in roomy)


def test_of_a_long_work_on_code_most_of_what_later_calls_name_stays(count):
    require_set("pi-mono")
    counts = [outcome(case, 3_000, count).later for case in KINDS["coder"](count)]
    needed, totals = (sum(column) for column in zip(*counts, strict=True))

    assert needed
    assert totals >= 0.75 * needed


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_probe_fails(name, policy, count):
    require_set(name)
    failures = sum(
        (
            breaches(dialogue, POLICIES[policy], count)
            for dialogue in dialogues_in_chains(name, CHAINS.get(name, 1), EVERY[name])
        ),
        Counter(),
    )

    assert failures["calls"]
    for probe in ("rules", "orphans", "providers", "same again", "prefix", "words"):
        assert failures[probe] == 0, probe


@pytest.mark.parametrize("name", ["tau", "mini-swe"])
def test_ten_compactions_in_a_row_keep_what_one_keeps(name, count):
    require_set(name)
    rows = [ten_in_a_row(dialogue, count) for dialogue in dialogues(name, 4)]
    needed, once, ten = (sum(column) for column in zip(*rows, strict=True))

    assert needed
    assert ten >= once
