"""Tests of the laws of compaction, and of what it keeps, on a sample of recorded dialogues."""

from collections import Counter
from pathlib import Path

import pytest

from tests.bench.compaction.chat_sets import DATA
from tests.bench.compaction.dialogues import SETS, dialogues, dialogues_in_chains
from tests.bench.compaction.measuring import FACTS, WAYS, measure, tokenizer
from tests.bench.compaction.probes import CHAINS, POLICIES, breaches, ten_in_a_row
from tests.bench.compaction.rows import NO_TARGET, SIZES, rows

#: Every so manieth dialogue is probed, so that all of it takes half a minute.
EVERY = {"tau": 16, "sgd x4": 8, "swe-agent": 4, "mini-swe": 4, "agentdojo": 240}
CASES = 120
#: Recorded rows that are measured at half of their tokens.
HALF = [name for name, row in rows(DATA).items() if row.is_recorded and "50 %" in row.goals]


def require(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"no recordings at {path}")


def kept_percent(name: str, size: str) -> dict[str, float]:
    row = rows(DATA)[name]
    require(row.path)
    results = [
        measure(case, *SIZES[size]) for case, _ in zip(row.cases(), range(CASES), strict=False)
    ]
    needs = [(result, need) for result in results for need in result.needed]
    return {
        way: 100 * sum(need in result.kept[way] for result, need in needs) / len(needs)
        for way in WAYS
    }


def test_records_keep_all_values_that_an_airlines_desk_needs():
    assert kept_percent("τ-bench, airline: values of later calls", NO_TARGET)[FACTS] >= 99.0


def test_records_keep_nearly_all_pairs_that_an_airlines_desk_needs():
    assert kept_percent("τ-bench, airline: pairs of them", NO_TARGET)[FACTS] >= 95.0


@pytest.mark.parametrize("name", HALF)
def test_facts_keep_no_less_than_simple_ways_at_half_of_the_tokens(name):
    percent = kept_percent(name, "50 %")

    assert percent[FACTS] >= max(percent[way] for way in WAYS if way != FACTS)


def test_facts_keep_no_less_than_simple_ways_of_windows_of_twelve_thousand_tokens():
    percent = kept_percent("12,000 tokens: values of later calls", "to 3,000")

    assert percent[FACTS] >= max(percent[way] for way in WAYS if way != FACTS)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("policy", POLICIES)
def test_no_probe_fails(name, policy):
    require(SETS[name][1])
    failures = sum(
        (
            breaches(dialogue, POLICIES[policy], tokenizer())
            for dialogue in dialogues_in_chains(name, CHAINS.get(name, 1), EVERY[name])
        ),
        Counter(),
    )

    assert failures["calls"]
    for probe in ("rules", "orphans", "providers", "same again", "prefix", "words"):
        assert failures[probe] == 0, probe


@pytest.mark.parametrize("name", ["tau", "mini-swe"])
def test_ten_compactions_in_a_row_keep_what_one_keeps(name):
    require(SETS[name][1])
    results = [ten_in_a_row(dialogue, tokenizer()) for dialogue in dialogues(name, 4)]
    needed, once, ten = (sum(column) for column in zip(*results, strict=True))

    assert needed
    assert ten >= once
