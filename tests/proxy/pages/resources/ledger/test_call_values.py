from typing import Any

import pytest
from msgspec.structs import replace

from dashboards.views.calls import SegmentSize
from proxy.pages.resources.ledger.call_values import call_story, cost_lines
from proxy.records.prompt_segments import CacheMark, PromptSegments
from proxy.records.receipt import Outcome, Receipt, ServedBy
from slo.price import call_cost
from slo.usage import Usage
from tests.fakes.chaos import two_model_catalog
from tests.fakes.receipts import a_receipt, an_engine_receipt

CATALOG = two_model_catalog()
MODEL = next(iter(CATALOG.models.values()))
ROUTE = MODEL.routes[0]
USAGE = Usage(input=1_000, output=500)


def priced_call(**changes):
    assert ROUTE.tariff is not None
    receipt = a_receipt(1, model=MODEL.id, route=ROUTE.name, usage=USAGE)
    cost = call_cost(USAGE, ROUTE.tariff, receipt.started)
    assert cost is not None
    return replace(receipt, list_nanos=cost.list_nanos, **changes)


def test_the_lines_of_a_cost_add_up_to_it() -> None:
    receipt = priced_call()
    lines = cost_lines(receipt, CATALOG)

    assert [line.bucket for line in lines] == ["input", "output"]
    assert sum(line.nanos or 0 for line in lines) == receipt.list_nanos


def test_a_cost_that_prices_do_not_account_for_is_a_line_of_its_own() -> None:
    receipt = priced_call()
    dearer = replace(receipt, list_nanos=(receipt.list_nanos or 0) + 77)
    other = cost_lines(dearer, CATALOG)[-1]

    assert (other.bucket, other.tokens, other.nanos) == ("other", 0, 77)


def test_lines_of_a_route_that_the_catalog_does_not_know_have_no_price() -> None:
    lines = cost_lines(priced_call(route="gone/model", model="gone"), CATALOG)

    assert [(line.bucket, line.nanos_per_million) for line in lines[:2]] == [
        ("input", None),
        ("output", None),
    ]
    assert cost_lines(a_receipt(1, usage=None), CATALOG) == []


def test_a_story_tells_each_attempt_from_decision_to_cost() -> None:
    first = an_engine_receipt(1, attempt=0, final=False, outcome=Outcome.FAILED, notes=("slow",))
    last = a_receipt(
        1, attempt=1, route="lab/b", reroute_reason="lab/a failed", conversation="ab",
        expected_read=2_000, miss="expired", miss_detail="idle for 9 minutes", miss_tokens=976,
        compaction="facts", compacted=True, tokens_before=900, tokens_after=300, reset=True,
        recalls=2, recalled_tokens=1_340,
    )  # fmt: skip
    story = call_story([first, last], {"team_1": "Search"}, CATALOG)

    assert (story.team_name, len(story.attempts), story.keeps_prompt) == ("Search", 2, False)
    assert story.cost_nanos == (first.cost_nanos or 0) + (last.cost_nanos or 0)
    assert story.attempts[0].phases[0] == ("queue", 0.25)
    assert "Note: slow." in story.attempts[0].decision
    assert "lab/a failed" in story.attempts[1].decision[0]
    assert any("idle for 9 minutes" in line for line in story.attempts[1].cache)
    assert "300 of 900 tokens" in story.attempts[1].compaction[0]
    assert "recalled 2 times, 1,340 tokens" in story.attempts[1].compaction[1]
    assert not {"team", "route"} & {name for name, _ in story.attempts[1].facts}


def test_a_call_that_the_cache_answered_says_what_the_answer_cost_first() -> None:
    hit = a_receipt(1, route="", served_by=ServedBy.CACHE, fast_path_nanos=10**7, usage=None)
    (attempt,) = call_story([hit], {}, CATALOG).attempts

    assert attempt.decision[1].endswith("its answer cost $0.01 the first time.")


def test_a_call_that_was_sent_nowhere_says_so() -> None:
    refused = a_receipt(1, route="", outcome=Outcome.REFUSED, unplanned_why="off", usage=None)
    (attempt,) = call_story([refused], {}, CATALOG).attempts

    assert attempt.decision[0] == "The gateway sent it nowhere."
    assert attempt.cache == ["It was not planned: planning is off for its feature."]


def test_a_refused_call_says_that_nothing_was_sent_and_why() -> None:
    sentence = "The budget `day` of team `acme` has a limit of $2 a day."
    refused = a_receipt(1, outcome=Outcome.REFUSED, error="budget_exceeded", usage=None)
    (known,) = call_story([replace(refused, notes=(sentence, "cut"))], {}, CATALOG).attempts
    (older,) = call_story([refused], {}, CATALOG).attempts

    assert known.decision == [f"Nothing was sent: {sentence}", "Note: cut."]
    assert older.decision == ["Nothing was sent: budget exceeded."]


def test_a_planned_call_says_where_its_segments_and_marks_stand() -> None:
    segments = PromptSegments(900, 0, 100, (CacheMark(900, "1h"), CacheMark(1_000, "")))
    planned = a_receipt(1, segments=segments, usage=Usage(input=60, cache_read=850, write_1h=90))
    (attempt,) = call_story([planned], {}, CATALOG).attempts

    assert attempt.prompt is not None
    assert (attempt.prompt.total, attempt.prompt.read, attempt.prompt.written) == (1_000, 850, 90)
    assert attempt.prompt.segments == [
        SegmentSize(slot="stable", start=0, tokens=900, read=850, written=50, new=0),
        SegmentSize(slot="variable", start=900, tokens=100, read=0, written=40, new=60),
    ]
    (unknown,) = call_story([replace(planned, usage=None)], {}, CATALOG).attempts
    assert unknown.prompt is not None
    assert {segment.read for segment in unknown.prompt.segments} == {None}
    assert [(mark.tokens, mark.lifetime) for mark in attempt.prompt.marks] == [
        (900, "1h"),
        (1_000, ""),
    ]
    assert "segments" not in dict(attempt.facts)
    assert call_story([a_receipt(1)], {}, CATALOG).attempts[0].prompt is None


def test_call_says_what_it_would_have_cost_sent_directly() -> None:
    plain = a_receipt(1, cost_nanos=80, list_nanos=100)
    saved = replace(plain, planning_nanos=50, compaction_nanos=-20, conversation="ab")
    hit = a_receipt(1, route="", served_by=ServedBy.CACHE, fast_path_nanos=70, usage=None)
    unpriced = a_receipt(1, cost_nanos=None, list_nanos=None)
    rerouted = replace(saved, reroute_reason="slow")

    def direct(*receipts: Receipt) -> int | None:
        return call_story(receipts, {}, CATALOG).direct_nanos

    assert direct(plain) == 80
    assert direct(saved) == 110
    assert direct(replace(hit, cost_nanos=0, list_nanos=0)) == 70
    assert direct(unpriced) is None
    assert direct(rerouted) is None


def test_a_call_that_fell_back_says_by_which_words_its_first_route_failed() -> None:
    failed = a_receipt(
        1, route="lab/big", outcome=Outcome.FAILED, error="upstream_rate_limited",
        upstream_error="429 slow down", final=False,
    )  # fmt: skip
    away = replace(failed, error="upstream_unreachable", upstream_error="")
    late = replace(failed, error="upstream_timeout", upstream_error="")
    answered = a_receipt(1, attempt=1, route="lab/small", reroute_reason="fallback: it failed")

    def failure(*receipts: Receipt) -> str:
        return call_story(receipts, {}, CATALOG).first_failure

    assert failure(failed, answered) == "429 slow down"
    assert failure(away, answered) == "upstream_unreachable"
    assert failure(late, answered) == ""
    assert failure(failed, replace(answered, route="lab/big")) == ""
    assert failure(answered) == ""


@pytest.mark.parametrize(
    ("changes", "fails"),
    [
        ({"upstream_error": "503 overloaded"}, True),
        ({"error": "upstream_unreachable"}, True),
        ({"upstream_error": "503 overloaded", "arm": "treated"}, False),
        ({"upstream_error": "503 overloaded", "compacted": True}, False),
        ({"upstream_error": "401 invalid_api_key"}, False),
        ({"upstream_error": "429 insufficient_quota"}, False),
    ],
)
def test_faults_of_the_upstream_alone_say_that_a_direct_call_would_have_failed(
    *, changes: dict[str, Any], fails: bool
) -> None:
    usual = {"route": "lab/big", "error": "upstream_failed", "arm": "", "layout": 0}
    failed = a_receipt(1, outcome=Outcome.FAILED, final=False, **{**usual, **changes})
    answered = a_receipt(1, attempt=1, route="lab/small", reroute_reason="fallback: it failed")

    assert call_story([failed, answered], {}, CATALOG).fails_directly is fails
