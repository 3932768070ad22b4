"""Tests of what later calls need survives, on dialogues made up in the manner of recorded ones."""

from functools import partial

import pytest

from compaction.policy import CompactionPolicy
from tests.bench.compaction.cases import ChatCase, at_risk, later_values, old_part, pairs
from tests.bench.compaction.marked_sets import (
    accepted_proposals,
    assistant_values,
    kinds_of_work,
    known_wishes,
)
from tests.bench.compaction.measuring import FACTS, WAYS, measure, tokenizer
from tests.bench.compaction.probes import (
    POLICIES,
    breaches,
    calls,
    put_in_mouths,
    ten_in_a_row,
)
from tests.fakes.dialogue import Dialogue
from tests.fakes.dialogues import ORDER, RULE, SHELL_RULE, desk, shell, user
from tests.fakes.marked_conversations import twins

COUNT = tokenizer()
DESK = desk()
SHELL = shell()
BOTH = pytest.mark.parametrize("dialogue", [DESK, SHELL], ids=["desk", "shell"])


def desk_case() -> ChatCase:
    now = DESK.turns[len(DESK.turns) // 2] + 1
    values = at_risk(DESK.messages, now, later_values(DESK, now))
    bound = pairs(DESK.messages[slice(*old_part(DESK.messages, now))], values)
    needed = [*((value,) for value in values), *bound]
    return ChatCase(name="desk", messages=DESK.messages[:now], needed=needed)


def test_records_keep_all_values_and_bindings_in_two_thirds_of_the_tokens():
    result = measure(desk_case())

    assert len(result.needed) > 40
    assert result.kept[FACTS] == set(result.needed)
    assert result.after <= 0.67 * result.before


def test_simple_ways_keep_fewer_values_than_records_at_the_same_tokens():
    result = measure(desk_case())

    assert all(len(result.kept[way]) < len(result.needed) for way in WAYS if way != FACTS)


@pytest.mark.parametrize("share", [0.0, 0.5], ids=["no target", "half"])
@pytest.mark.parametrize(
    "cases",
    [partial(assistant_values, tuple(twins())), accepted_proposals, kinds_of_work],
    ids=["told", "accepted", "work"],
)
def test_facts_keep_no_less_of_written_conversations_than_simple_ways(cases, share):
    results = [measure(case, share) for case in cases()]
    kept = {way: sum(len(result.kept[way]) for result in results) for way in WAYS}

    assert kept[FACTS] >= max(kept[way] for way in WAYS if way != FACTS)


def test_standing_wishes_of_nineteen_languages_and_four_kinds_of_work_become_rules():
    assert {name: kept for name, (kept, total) in known_wishes().items() if kept < total} == {}


@BOTH
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_no_probe_fails(dialogue, policy):
    counts = breaches(dialogue, policy, COUNT)

    assert counts["calls"] > 20
    for probe in ("rules", "orphans", "providers", "same again", "prefix", "words"):
        assert counts[probe] == 0, probe


@BOTH
def test_ten_compactions_in_a_row_keep_what_one_keeps(dialogue):
    needed, once, ten = ten_in_a_row(dialogue, COUNT)

    assert needed > 10
    assert ten >= once


def test_instructions_in_a_tool_result_are_on_no_line_of_a_user():
    *_, last = calls(DESK, CompactionPolicy(force=True), COUNT)

    assert last.made is not None
    (first, *_) = last.made.segments
    assert any(RULE in fact.text for fact in first.facts)
    assert put_in_mouths(DESK, last.made.segments) == []
    lines = [line for line in first.text.split("\n") if "billing@elsewhere" in line]
    assert all("user" not in line.split(":")[0] for line in lines)


def test_a_fact_in_a_users_name_that_no_user_said_is_found():
    *_, last = calls(DESK, CompactionPolicy(force=True), COUNT)
    dialogue = Dialogue(name="", messages=[user(ORDER)], needs={}, results=frozenset())

    assert last.made is not None
    assert put_in_mouths(dialogue, last.made.segments)


def test_a_shells_rule_stays():
    *_, last = calls(SHELL, CompactionPolicy(force=True), COUNT)

    assert SHELL_RULE in "\n".join(raw.decode() for raw in last.sent)
