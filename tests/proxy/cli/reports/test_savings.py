import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from compaction.policy import CompactionMode
from proxy.cli.reports.savings import (
    conversations_summary,
    misses,
    savings,
    waiting_layout_summary,
)
from proxy.records.feature_mode import LayoutScope, PlanningMode
from proxy.records.receipt import Receipt
from proxy.settings import read
from slo.usage import Usage
from tests.fakes.chaos import two_model_catalog
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt
from tests.fakes.savings import propose_layout

SAVINGS = single_command(lambda terminal: savings(terminal, two_model_catalog, lambda: read({})))
MISSES = single_command(misses)


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, START + 86_400)


def a_call(n: int, **changes: Any) -> Receipt:
    is_control = n % 3 == 0
    fields: dict[str, Any] = {
        "team": "team_0",
        "feature": "",
        "conversation": f"{n}",
        "arm": "control" if is_control else "treated",
        "usage": Usage(input=1000 + n % 17, cache_read=0 if is_control else 1000),
        "cost_nanos": 300_000_000 + n,
    }
    return a_receipt(n, **(fields | changes))


def test_without_planned_calls_there_is_nothing_to_tell(runner: CommandRunner) -> None:
    assert "No planned calls in the last 3 days." in runner.said(SAVINGS, "--days", "3")
    assert "No cache was missed" in runner.said(MISSES)


def test_savings_come_with_their_interval_and_both_hit_rates(runner: CommandRunner) -> None:
    runner.keep(*(a_call(n) for n in range(300)))
    output = runner.said(SAVINGS)

    assert "team_0  (none)" in output
    assert "200      100" in output
    assert "49.8% (49.8% … 49.9%)" in output
    assert re.search(r"49.8%  +0.0%", output)
    assert "59.5" in output
    assert "measured" in output


def test_too_little_is_said_to_be_too_little(runner: CommandRunner) -> None:
    runner.keep(*(a_call(n, feature="chat") for n in range(1, 3)))
    output = runner.said(SAVINGS)

    assert "unknown" in output
    assert "not enough: 0 conversations in the smaller arm; 3 are needed" in output
    assert "(shown after some 60 more)" in output
    assert "none" in output


def test_an_estimate_is_reported_from_the_first_call(runner: CommandRunner) -> None:
    amounts = {"cost_nanos": 300_000_000, "list_nanos": 300_000_000}
    runner.keep(a_call(1, planning_nanos=700_000_000, **amounts), a_call(2, **amounts))
    (saving,) = orjson.loads(runner.said(SAVINGS, "--json"))["savings"]
    output = runner.said(SAVINGS)

    assert "0.7000 (70%)" in output
    assert (
        "Saved $0.7 (53.8%) against sending directly: $0.6 in place of $1.3, by estimate." in output
    )
    assert float(saving["estimated_saved_usd"]) == 0.7
    assert saving["estimated_saved_share"] == pytest.approx(0.7)
    assert saving["conversations_needed"] == 60


def test_a_proposal_that_waits_for_approval_shows_its_expected_savings(
    runner: CommandRunner,
) -> None:
    store = runner.open()
    propose_layout(store, "chat", 2_500_000_000)
    store.close(5)

    assert (
        "Moving text in feature chat of team team_0 on gpt should save $2.50 per 1,000 calls more"
        " (by estimate from 180 calls)."
        " To see it: `thriftgate layout show team_0 chat --family gpt`."
        " To apply it: `thriftgate layout approve team_0 chat 1 --family gpt`."
    ) in runner.said(SAVINGS)
    (waiting,) = orjson.loads(runner.said(SAVINGS, "--json"))["proposed"]
    assert (waiting["feature"], float(waiting["saves_usd_per_1k"])) == ("chat", 2.5)
    assert (waiting["calls"], waiting["at_least"]) == (180, False)


def test_a_proposal_that_approving_would_not_put_in_force_is_not_listed(
    runner: CommandRunner,
) -> None:
    store = runner.open()
    propose_layout(store, "chat", 2_500_000_000)
    store.layouts.suspend(LayoutScope("team_0", "chat"), "it is dearer", START)
    store.close(5)

    assert "Moving text" not in runner.said(SAVINGS)


@pytest.mark.parametrize(
    ("needed", "sentence"),
    [
        ({}, ""),
        ({"done": 300}, ""),
        (
            {"chat": 2, "done": 300},
            "A measured figure needs some 60 more conversations of feature chat of team acme.",
        ),
        (
            {"chat": 2, "code": 6, "early": 90, "done": 300},
            (
                "Of 2 features without a measured figure feature code of team acme needs the"
                " fewest: some 3 more conversations."
            ),
        ),
    ],
)
def test_the_feature_that_is_nearest_to_a_measured_figure_is_named(
    runner: CommandRunner, needed: dict[str, int], sentence: str
) -> None:
    for index, (feature, calls) in enumerate(needed.items()):
        numbers = range(1000 * index + 1, 1000 * index + 1 + calls)
        runner.keep(*(a_call(n, feature=feature) for n in numbers))
    store = runner.open()
    comparisons = store.savings.compare(START - 86_400)
    store.close(5)

    assert conversations_summary(comparisons, {"team_0": "acme"}) == sentence


def test_expected_savings_of_layouts_are_reported_unless_they_approve_themselves(
    runner: CommandRunner,
) -> None:
    store = runner.open()
    assert waiting_layout_summary(store) == ""
    propose_layout(store, "chat", 2_500_000_000)
    propose_layout(store, "code", 1_000_000_000)
    both = waiting_layout_summary(store)
    store.layouts.switch(LayoutScope("team_0", "chat"), PlanningMode.AUTO, "me", START)
    code = waiting_layout_summary(store)
    store.layouts.switch(LayoutScope("team_0", "code"), PlanningMode.OFF, "me", START)
    none = waiting_layout_summary(store)
    store.close(5)

    assert both == (
        "A layout of feature chat of team team_0 waits for approval: it should save $2.50"
        " per 1,000 calls more (by estimate from 180 calls), and 1 other layout less:"
        " `thriftgate savings`."
        " To apply it: `thriftgate layout approve team_0 chat 1 --family gpt`."
    )
    assert code == (
        "A layout of feature code of team team_0 waits for approval: it should save $1.00"
        " per 1,000 calls more (by estimate from 180 calls)."
        " To apply it: `thriftgate layout approve team_0 code 1 --family gpt`."
    )
    assert none == ""


def test_misses_come_with_their_price_an_example_and_the_fix(runner: CommandRunner) -> None:
    runner.keep(
        a_call(1, miss="diverged", miss_tokens=2_000, miss_nanos=6_000_000),
        a_call(2, miss="of_tomorrow", miss_tokens=5),
    )
    lines = runner.said(MISSES).splitlines()

    assert lines[1].split() == [
        "team_0",
        "(none)",
        "diverged",
        "1",
        "2,000",
        "$0.0060",
        a_receipt(1).call_id,
    ]
    assert lines[2].split()[2:6] == ["of_tomorrow", "1", "5", "unknown"]
    assert lines[3].startswith("diverged: Move what varies behind")
    assert len(lines) == 4


def test_misses_for_marks_that_wait_say_what_the_feature_waits_for(runner: CommandRunner) -> None:
    waits = "marks wait: the feature lost $0.0100 of $0.0100, and these could lose $0.003 more"
    missed = {"miss": "unmarked", "miss_tokens": 2_000, "miss_nanos": 6_000_000}
    runner.keep(a_call(1, **missed), a_call(2, miss_detail=waits, feature="chat", **missed))
    lines = runner.said(MISSES).splitlines()

    assert lines[3].startswith("unmarked: Nothing to fix: the gateway sends marks as far as")
    assert lines[4:] == [f"feature chat of team team_0, {a_receipt(2).call_id}: {waits}."]
    (bare, marked) = orjson.loads(runner.said(MISSES, "--json"))["misses"]
    assert (bare["detail"], marked["detail"]) == ("", waits)


def test_misses_may_be_one_teams_by_its_name_or_id(runner: CommandRunner) -> None:
    store = runner.open()
    acme = store.teams.create("acme", now=START)
    store.close(5)
    runner.keep(
        a_call(1, miss="diverged", miss_tokens=2_000, team=acme.id),
        a_call(2, miss="expired", miss_tokens=1_000),
    )
    everybodys = runner.said(MISSES)

    assert "team_0" in everybodys
    assert "diverged" in everybodys
    for name in ("acme", acme.id):
        output = runner.said(MISSES, "--team", name)
        assert "diverged" in output
        assert "expired" not in output
    assert "no team named nobody" in runner.error_of(MISSES, "--team", "nobody")


def test_the_feature_that_misses_for_most_money_comes_first(runner: CommandRunner) -> None:
    runner.keep(
        a_call(1, feature="a", miss="diverged", miss_tokens=9, miss_nanos=2_000_000),
        a_call(2, feature="b", miss="expired", miss_tokens=9, miss_nanos=1_000_000),
        a_call(4, feature="b", miss="diverged", miss_tokens=9, miss_nanos=1_500_000),
        a_call(5, feature="c", miss="expired", miss_tokens=9),
    )
    rows = [line.split()[1:3] for line in runner.said(MISSES).splitlines()[1:5]]

    assert rows == [["b", "diverged"], ["b", "expired"], ["a", "diverged"], ["c", "expired"]]


def test_on_a_narrow_terminal_ids_and_findings_stay_whole(runner: CommandRunner) -> None:
    runner.width = 80
    missed = a_call(
        1, feature="a-feature-of-a-long-name", miss="diverged", miss_tokens=2_000, miss_nanos=1
    )
    runner.keep(missed)
    misses_said, savings_said = runner.said(MISSES), runner.said(SAVINGS)

    assert f"  example: {missed.call_id}\n" in misses_said
    assert "smaller arm; 3 are needed" in " ".join(savings_said.split())
    assert all(len(line) <= 80 for line in (misses_said + savings_said).splitlines())


def compacted_receipt(n: int, **changes: Any) -> Receipt:
    fields: dict[str, Any] = {
        "team": "team_0",
        "feature": "support",
        "compaction": "facts",
        "compaction_why": "pays",
        "compacted": True,
        "tokens_before": 12_000,
        "tokens_after": 3_000,
        "compaction_nanos": 20_000_000,
    }
    return a_receipt(n, **(fields | changes))


def test_compaction_savings_are_net_of_resets_and_count_gentler_modes(
    runner: CommandRunner,
) -> None:
    runner.keep(
        *(compacted_receipt(n) for n in range(4)),
        compacted_receipt(6, feature="code", compaction_nanos=-5_000_000, compacted_messages=0),
        compacted_receipt(
            7, feature="plain", compaction="", compacted=False, compaction_nanos=None
        ),
    )
    store = runner.open()
    store.compactions.step_back(("team_0", "code"), CompactionMode.TRIM, "9 of 100 lost", START)
    store.close(5)
    output = runner.said(SAVINGS)
    code, support, summed = output.splitlines()[-3:]

    assert "No planned calls in the last 30 days." in output
    assert code.split()[:7] == ["team_0", "code", "1", "1", "9,000", "-$0.0050", "reduced"]
    assert code.endswith("reduced to trim at 2026-09-21 14:13 UTC: 9 of 100 lost")
    assert support.split() == ["team_0", "support", "4", "4", "36,000", "$0.0800", "active"]
    assert summed == ("Compaction saved $0.075 net of resets. 1 of 2 features (50%) reduced.")


def test_compaction_savings_as_json(runner: CommandRunner) -> None:
    runner.keep(compacted_receipt(1))
    store = runner.open()
    store.compactions.step_back(("team_0", "gone"), CompactionMode.OFF, "9 of 100 lost", START)
    store.close(5)
    document = orjson.loads(runner.said(SAVINGS, "--json"))
    gone, support = document["compaction"]

    assert (gone["feature"], gone["stepped_back"], gone["calls"]) == ("gone", "9 of 100 lost", 0)
    assert support["saved_usd"] == "0.02"
    assert document["compaction_total"] == {
        "saved_usd": "0.02",
        "features": 2,
        "stepped_back": 1,
        "stepped_back_share": 0.5,
    }


def test_the_total_of_compaction_is_left_out_where_nothing_was_compacted(
    runner: CommandRunner,
) -> None:
    runner.keep(compacted_receipt(1, compacted=False, compaction_nanos=None))
    idle = runner.said(SAVINGS)
    store = runner.open()
    store.compactions.step_back(("team_0", "support"), CompactionMode.OFF, "9 lost", START)
    store.close(5)
    stepped = runner.said(SAVINGS)

    assert "ompaction" not in idle
    assert "reduced to off" in stepped
    assert "Compaction saved" not in stepped


def test_savings_without_compaction_say_nothing_of_it(runner: CommandRunner) -> None:
    runner.keep(*(a_call(n) for n in range(3)))

    assert "ompaction" not in runner.said(SAVINGS)


def test_as_json_both_are_one_document_each(runner: CommandRunner) -> None:
    assert orjson.loads(runner.said(MISSES, "--json")) == {"days": 30, "misses": []}
    assert orjson.loads(runner.said(SAVINGS, "--json"))["compaction"] == []
    runner.keep(
        *(a_call(n) for n in range(300)),
        a_call(301, miss="expired", miss_tokens=500, miss_nanos=1_500_000_000),
    )
    (saving,) = orjson.loads(runner.said(SAVINGS, "--json"))["savings"]
    (miss,) = orjson.loads(runner.said(MISSES, "--json", "--days", "3"))["misses"]

    assert (saving["team"], saving["feature"], saving["finding"]) == ("team_0", "", "measured")
    assert (miss["reason"], miss["tokens"], miss["cost_usd"]) == ("expired", 500, "1.5")
