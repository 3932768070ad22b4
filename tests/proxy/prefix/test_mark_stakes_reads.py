"""A feature that lost a write reads again what its later calls share."""

import pytest

from tests.proxy.prefix.planning_requests import (
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
)
from tests.proxy.prefix.test_mark_stakes import ANTHROPIC, LONG_RULES, direct_cost, savings, send


@pytest.mark.parametrize("pages", [3_000, 1_000, 20])
def test_a_long_first_call_does_not_take_the_reads_from_shorter_ones(pages):
    process = PlanningProcess(ANTHROPIC)
    calls = []
    for number in range(40):
        document = "A page that nobody sends again. " * (pages if number == 0 else 20)
        rules = chat_message("system", LONG_RULES * 3)
        calls.append(send(process, body(rules, chat_message("user", f"{number}: {document}"))))

    assert savings(calls) > 0.6 * sum(map(direct_cost, calls))


@pytest.mark.parametrize("size", [1, 8])
def test_one_shots_do_not_take_the_marks_from_a_later_conversation(size):
    process = PlanningProcess(ANTHROPIC)
    for number in range(5):
        case = chat_message("system", f"Case {number}. {LONG_RULES * size}")
        send(process, body(case, chat_message("user", f"And {number}?")))
    calls = [
        send(process, body(*conversation_messages(turns, LONG_RULES * size, "Where?")))
        for turns in range(40)
    ]

    assert savings(calls) > 0.6 * sum(map(direct_cost, calls))
