"""The reason that a feature's marks wait, as a call's miss tells it."""

import msgspec

from proxy.prefix.explain.reasons import MissReason
from proxy.prefix.planned import Planned
from proxy.records.mark_account import MAX_TEAM_LOSS
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
)

ANTHROPIC = TARGETS["anthropic-breakpoint"]
#: The reason once the one write of such a call was lost.
ONE_LOST = (
    "marks wait: the feature lost $0.000617 of $0.000741, and these could lose $0.000618 more;"
    " they are tried again once they would have earned it back"
)


def one_shot(process: PlanningProcess, number: int) -> Planned:
    """A call that repeats none before; what is marked is written, nothing is read."""
    return settle(process, body(chat_message("user", f"{number} {RULES}")))


def settle(process: PlanningProcess, raw: bytes) -> Planned:
    planned = process.plan(planning_request(raw))
    total = planned.evidence.expected.scale.total
    usage = Usage(write_5m=total) if b"cache_control" in planned.body else Usage(input=total)
    process.planner.settle_call(planned, usage)
    return planned


def miss_of(process: PlanningProcess, raw: bytes) -> tuple[MissReason, str]:
    planned = process.plan(planning_request(raw))
    settled = process.planner.settle_call(
        planned, Usage(input=planned.evidence.expected.scale.total)
    )
    assert settled is not None
    return settled.reason, settled.detail


def waits(planned: Planned) -> str:
    assert planned.trial is not None
    return planned.trial.waits


def test_marks_that_are_sent_wait_for_nothing():
    assert waits(one_shot(PlanningProcess(ANTHROPIC), 0)) == ""


def test_an_unmarked_call_tells_the_loss_that_its_marks_wait_for():
    process = PlanningProcess(ANTHROPIC)
    lost, waiting = one_shot(process, 0), one_shot(process, 1)
    reason, detail = miss_of(process, waiting.draft.request.body)

    assert b"cache_control" in lost.body
    assert waits(waiting) == ONE_LOST
    assert reason is MissReason.UNMARKED
    assert detail.startswith(ONE_LOST)
    assert detail.endswith("; no mark; 2,470 tokens are repeated")


def test_without_a_stake_the_setting_is_named():
    process = PlanningProcess(ANTHROPIC, stake=0.0)
    settle(process, body(*conversation_messages(0)))
    reason, detail = miss_of(process, body(*conversation_messages(1)))

    assert reason is MissReason.UNMARKED
    assert detail.startswith(
        "marks wait: nothing is paid for in advance (THRIFTGATE_LEARNING_STAKE is 0); no mark;"
    )


def test_losses_at_no_known_price_are_told_without_amounts():
    process = PlanningProcess(msgspec.structs.replace(ANTHROPIC, rates=None))
    one_shot(process, 0)

    assert waits(one_shot(process, 1)) == (
        "marks wait: the feature lost what it may; they are tried again once they would have"
        " earned it back"
    )


def test_a_team_that_lost_all_it_may_in_a_day_waits_for_the_next():
    process = PlanningProcess(ANTHROPIC)
    process.planner.memory.stake_of("team_1").record(MAX_TEAM_LOSS, process.now)

    assert waits(one_shot(process, 0)) == (
        "marks wait: the team's features lost or risk what they may lose in a day; they are tried"
        " again with the first call that fits, at the latest tomorrow"
    )


def test_places_that_lost_more_than_they_earned_are_named():
    process = PlanningProcess(ANTHROPIC)
    calls = [
        body(*conversation_messages(0), tools=[tool("find", note=f"{n} {RULES}")])
        for n in range(10)
    ]
    place = settle(process, calls[0]).place
    for raw in calls[1:9]:
        process.now += 400.0  # what was written can not be read any more
        settle(process, raw)
    account = process.planner.memory.of("team_1").stakes._account_of(place)
    account.of(place.family).balance = 1e15
    waiting = settle(process, calls[9])

    assert b"cache_control" not in waiting.body
    assert waits(waiting) == (
        "marks wait: they lost more than they earned lately; they are tried again once they would"
        " have earned it back"
    )
