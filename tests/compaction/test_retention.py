"""Tests of what later calls need survives, on dialogues made up in the manner of recorded ones."""

import pytest

from compaction.facts.fact import DetailLevel
from compaction.policy import CompactionPolicy
from tests.bench.compaction_baselines import baselines, ranks
from tests.bench.compaction_methods import at_detail_level, compacted_part
from tests.bench.compaction_metrics import (
    SAID,
    CompactedRange,
    Scale,
    Tokens,
    at_risk,
    holds,
    last_steps,
    last_turns,
    plain,
    stands,
)
from tests.bench.compaction_probes import (
    POLICIES,
    breaches,
    calls,
    count_faults,
    orphans,
    put_in_mouths,
    ten_in_a_row,
)
from tests.fakes.dialogue import SPELT, Dialogue, names_in, words
from tests.fakes.dialogues import (
    ORDER,
    RULE,
    SHELL_RULE,
    asks,
    desk,
    gives,
    says,
    shell,
    user,
)

COUNT = Tokens()
DESK = desk()
SHELL = shell()
ORDERS = list(last_turns(DESK, 3))
STEPS = list(last_steps(SHELL, 3))
BOTH = pytest.mark.parametrize("dialogue", [DESK, SHELL], ids=["desk", "shell"])


def score_of(cuts, method):
    return Scale(COUNT).score(cuts, method)


def test_records_keep_all_values_and_bindings_in_three_fifths_of_the_tokens():
    score = score_of(ORDERS, at_detail_level(DetailLevel.FACTS, COUNT))

    assert score.needed["value"] > 20
    assert score.recall() == 100.0, score.lost
    assert score.bound_percent() == 100.0, score.parted
    assert score.share <= 60.0


def test_the_value_rung_keeps_all_values_beside_each_other_in_half_of_the_tokens():
    score = score_of(ORDERS, at_detail_level(DetailLevel.VALUES, COUNT))

    assert score.recall() == 100.0, score.lost
    assert score.bound_percent() == 100.0, score.parted
    assert score.share <= 51.0


def test_a_shell_keeps_paths_and_names_in_a_quarter_of_the_tokens():
    score = score_of(STEPS, at_detail_level(DetailLevel.FACTS, COUNT))

    assert min(score.needed["path"], score.needed["name"]) > 8
    assert score.recall("path") == 100.0, score.lost
    assert score.recall("name") >= 95.0, score.lost
    assert score.share <= 25.0


def test_the_whole_compaction_keeps_what_the_ladder_keeps():
    score = score_of(ORDERS, compacted_part(CompactionPolicy(force=True), COUNT))

    assert score.recall() >= 99.0, score.lost
    assert score.bound_percent() >= 98.0, score.parted


@pytest.mark.slow
def test_simpler_ways_keep_less():
    recalls = {name: score_of(ORDERS, way).recall() for name, way in baselines(COUNT).items()}

    assert recalls.pop("raw") == 100.0
    assert recalls["keep last"] == 0.0
    assert max(recalls.values()) < 95.0


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


def test_values_that_stand_elsewhere_are_not_at_risk():
    messages = [user("A-1 and B-2 and C-3."), says("Yes."), user("B-2 again."), says("Well?")]
    call = asks("x", "go", one="A-1", two="B-2", three="C-3", four="D-4")
    dialogue = Dialogue(
        name="",
        messages=[*messages, call, gives("x", "")],
        needs={4: ((("value", "A-1"), ("value", "B-2"), ("value", "C-3"), ("value", "D-4")),)},
        results=frozenset({5}),
    )

    risk = at_risk(CompactedRange(dialogue, 0, 2, (4,)))

    assert [value for _, value in risk.values] == ["A-1", "C-3"]
    assert risk.pairs == (("A-1", "C-3"),)
    assert risk.said == ()


def test_pairs_that_only_the_assistant_made_are_counted_apart():
    messages = [user("A-1."), gives("y", "C-3"), says("A-1 with C-3."), user("Go."),
                asks("x", "go", one="A-1", two="C-3")]  # fmt: skip
    needs = {4: ((("value", "A-1"), ("value", "C-3")),)}
    dialogue = Dialogue(name="", messages=messages, needs=needs, results=frozenset({1}))
    cut = CompactedRange(dialogue, 0, 3, (4,))

    score = score_of([cut], lambda _: ["A-1", "C-3"])

    assert (score.recall(), score.bound_percent(), score.bound_percent(SAID)) == (100.0, 100.0, 0.0)


@pytest.mark.parametrize(
    ("text", "value", "stands_there"),
    [
        ("id 12 is", "12", True),
        ("id 123 is", "12", False),
        ("id 312, 12", "12", True),
        ('{"a":"12"}', "12", True),
        ("12", "12", True),
        ("", "12", False),
    ],
)
def test_a_value_stands_as_a_whole(text, value, stands_there):
    assert holds(text, value) is stands_there


def test_any_spelling_will_do():
    assert stands("on 2026-03-08", f"next Friday{SPELT}2026-03-08")
    assert not stands("on Friday", f"next Friday{SPELT}2026-03-08")


def test_escapes_and_white_space_make_no_difference():
    assert plain('a\\n b\\u00e9 \\"c\\"\n\nd') == 'a bé "c" d'


def test_an_action_names_paths_and_identifiers():
    names = names_in("sed -i s/x/y/ src/a_b/lexer.py && run lastTok emit_token(1) plain")

    assert ("path", "src/a_b/lexer.py") in names
    assert {name for kind, name in names if kind == "name"} == {"lastTok", "emit_token"}


def test_the_value_that_shares_words_with_most_ranks_first():
    ranked = ranks([{"a", "b"}, {"b", "c"}, {"b", "d"}, {"e"}])

    assert max(ranked) > ranked[3]
    assert ranked[3] == pytest.approx(0.15)


def test_orphans_and_what_providers_refuse_are_found():
    call, result = asks("x", "go"), gives("x", "")

    assert orphans([user("a"), call, result]) == 0
    assert orphans([user("a"), result]) == 1
    assert orphans([user("a"), call, user("b")]) == 1
    assert count_faults([user("a"), call, gives("x", "gone")]) == 0
    assert count_faults([says("a"), says("b")]) == 2
    assert count_faults([user(""), user("b")]) == 1


def test_all_that_a_message_says_is_its_words():
    parts = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url"}]}

    assert words(parts) == "a\n"
    assert words(asks("x", "go", a=1)) == 'go {"a":1}'
