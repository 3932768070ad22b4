"""Marks are bought for an hour where the five minutes' entries expire before they are read."""

import pytest

from proxy.prefix.planned import Planned
from tests.proxy.prefix.planning_requests import PlanningProcess, body, conversation_messages
from tests.proxy.prefix.test_mark_stakes import ANTHROPIC, LONG_RULES, cost, direct_cost, send

PAUSE_S = 1_200.0


def send_with_pauses(
    process: PlanningProcess, calls: int, every: int, pause_s: float = PAUSE_S
) -> list[Planned]:
    """Calls of one conversation ten seconds apart, with a pause after so many."""
    sent = []
    for turns in range(calls):
        sent.append(send(process, body(*conversation_messages(turns, LONG_RULES))))
        process.now += pause_s if turns % every == every - 1 else 0.0
    return sent


def mark_lifetimes(calls: list[Planned]) -> set[str]:
    return {ttl for call in calls for ttl in call.evidence.sent.marks.values()}


def cost_ratio(calls: list[Planned]) -> float:
    """Cost of calls beside sending them directly."""
    return sum(map(cost, calls)) / sum(map(direct_cost, calls))


def test_a_conversation_with_pauses_is_marked_for_an_hour_and_reads_across_them():
    calls = send_with_pauses(PlanningProcess(ANTHROPIC), 40, every=4)

    assert mark_lifetimes(calls[:4]) == {"5m"}
    assert mark_lifetimes(calls[20:]) == {"1h"}
    assert cost_ratio(calls[20:]) < 0.15


@pytest.mark.parametrize("every", [1, 2, 4])
def test_an_hour_is_bought_within_the_stake_of_a_feature(every: int):
    calls = send_with_pauses(PlanningProcess(ANTHROPIC), 60, every)
    extra = max(
        sum(cost(call) - direct_cost(call) for call in calls[:end]) for end in range(len(calls))
    )

    assert extra <= 0.3 * direct_cost(calls[-1])
    assert cost_ratio(calls) < 0.45 or every == 1


def test_a_conversation_without_pauses_is_never_marked_for_an_hour():
    assert mark_lifetimes(send_with_pauses(PlanningProcess(ANTHROPIC), 40, every=41)) == {"5m"}


def test_pauses_of_hours_are_not_bridged():
    calls = send_with_pauses(PlanningProcess(ANTHROPIC), 40, every=4, pause_s=7_200.0)

    assert mark_lifetimes(calls) == {"5m"}
