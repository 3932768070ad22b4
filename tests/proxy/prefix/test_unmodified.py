"""The expected cost of calls, had they been sent unmodified."""

import msgspec
import pytest

from proxy.caches.regime import prompt_cost
from proxy.prefix.guard import Harm
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.prefix_chains import expected_usage
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
)

OPENAI, ANTHROPIC, INTERVAL = "openai-breakpoint", "anthropic-breakpoint", "openai-interval"


def usage_of(found: Planned) -> Usage:
    """Return what a provider that keeps its promises charges for what is sent."""
    sent, expected = found.evidence.sent, found.evidence.expected
    return expected_usage(sent, expected, sent.estimate)


def conversation(
    process: PlanningProcess, name: str, calls: int = 6, **fields: object
) -> list[Planned]:
    """The calls of a conversation; each is charged for as it was sent."""
    found = []
    for turns in range(calls):
        call = planning_request(
            body(*conversation_messages(turns, RULES * 3, f"Where is parcel {name}?"), **fields)
        )
        planned = process.plan(call)
        process.planner.settle_call(planned, usage_of(planned))
        found.append(planned)
    return found


def direct_cost(found: Planned) -> float:
    """Return what the call should have cost unmodified, in fresh tokens."""
    direct = found.direct
    assert direct is not None
    sent = direct.sent
    return prompt_cost(expected_usage(sent, direct.expected, sent.estimate), sent.regime)


def harm(process: PlanningProcess, found: Planned) -> object:
    return process.planner.take_harm(found, process.now)


def test_a_call_that_is_sent_unmodified_has_nothing_beside_it():
    (first, *_) = conversation(PlanningProcess(TARGETS[INTERVAL]), "1")

    assert first.direct is None


def test_without_marks_anthropic_would_have_read_nothing():
    *_, last = conversation(PlanningProcess(TARGETS[ANTHROPIC]), "1")

    assert last.evidence.expected.tokens > 0
    assert last.direct is not None
    assert last.direct.expected.tokens == 0
    assert direct_cost(last) == last.direct.sent.estimate


def test_openai_would_have_read_by_its_own_breakpoints():
    *_, before, last = conversation(PlanningProcess(TARGETS[OPENAI]), "1")

    assert last.direct is not None
    assert last.direct.expected.tokens >= before.evidence.sent.estimate * 9 // 10


def test_calls_that_are_as_dear_or_cheaper_show_no_harm():
    for regime in (OPENAI, ANTHROPIC):
        process = PlanningProcess(TARGETS[regime])
        for name in range(12):
            *_, last = conversation(process, str(name))

        assert harm(process, last) is None


def test_a_stable_text_that_is_declared_to_vary_is_found_dearer_within_fifty_calls():
    process = PlanningProcess(TARGETS[OPENAI])
    calls = [
        call
        for name in range(8)
        for call in conversation(process, str(name), metadata={"thriftgate_slots": "0=variable"})
    ]

    assert len(calls) < 50
    assert harm(process, calls[-1]) is not None


@pytest.mark.parametrize("regime", [INTERVAL, "implicit", OPENAI, ANTHROPIC])
def test_a_read_lost_by_the_provider_is_no_harm_of_planning(regime):
    process = PlanningProcess(TARGETS[regime])
    for name in range(8):
        for turns in range(6):
            rules = f"<tg:stable>{RULES * 3}</tg:stable>"
            planned = process.plan(
                planning_request(body(*conversation_messages(turns, rules, f"Parcel {name}?")))
            )
            total = planned.evidence.sent.estimate
            ttl = next(iter(planned.target.regime.writes), "")
            process.planner.settle_call(
                planned, Usage(**{f"write_{ttl}" if ttl else "input": total})
            )

    assert harm(process, planned) is None


@pytest.mark.parametrize("regime", [OPENAI, ANTHROPIC])
def test_a_provider_that_stores_nothing_is_no_harm_of_planning(regime):
    process = PlanningProcess(TARGETS[regime])
    for name in range(8):
        for turns in range(6):
            planned = process.plan(
                planning_request(body(*conversation_messages(turns, RULES * 3, f"Parcel {name}?")))
            )
            process.planner.settle_call(planned, Usage(input=planned.evidence.sent.estimate))

    assert harm(process, planned) is None


def test_the_control_arm_is_not_judged():
    process = PlanningProcess(TARGETS[OPENAI], share=1.0)
    calls = [call for name in range(10) for call in conversation(process, str(name))]

    assert harm(process, calls[-1]) is None


def test_harm_is_of_the_layout_that_its_conversations_had():
    process = PlanningProcess(TARGETS[OPENAI], layout=Layout())
    for name in range(8):
        *_, last = conversation(process, str(name), metadata={"thriftgate_slots": "0=variable"})
    without = msgspec.structs.replace(last, plan=msgspec.structs.replace(last.plan, layout=0))

    assert harm(process, without) is None
    found = harm(process, last)
    assert isinstance(found, Harm)
    assert found.layout == 1


def test_a_feature_is_judged_afresh_once_it_was_stepped_back():
    process = PlanningProcess(TARGETS[OPENAI])
    for name in range(8):
        *_, last = conversation(process, str(name), metadata={"thriftgate_slots": "0=variable"})

    assert process.planner.take_harm(last, process.now) is not None
    assert harm(process, last) is None


def test_the_callers_own_marks_count_for_both():
    marked = {"type": "text", "text": RULES * 3, "cache_control": {"type": "ephemeral"}}
    process = PlanningProcess(TARGETS[ANTHROPIC])
    for name in range(3):
        raw = body(chat_message("system", [marked]), chat_message("user", f"Where is {name}?"))
        planned = process.plan(planning_request(raw))
        process.planner.settle_call(planned, usage_of(planned))
    direct = planned.direct.expected if planned.direct else planned.evidence.expected

    assert direct.tokens > 0
    assert msgspec.structs.asdict(planned.evidence.expected)["tokens"] >= direct.tokens


def marks_sent(process: PlanningProcess, name: str, calls: int = 6) -> list[bool]:
    """Return which calls of a conversation are sent with marks."""
    return [bool(each.evidence.sent.marks) for each in conversation(process, name, calls)]


def test_marks_are_sent_once_ten_calls_began_alike_and_marks_would_have_paid():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    first, second = marks_sent(process, "1"), marks_sent(process, "2")

    assert first == [False] * 6
    assert second == [False] * 4 + [True, True]
    assert all(marks_sent(process, "3"))


def test_a_single_conversation_pays_for_its_marks_out_of_what_its_start_brought_back():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    calls = conversation(process, "1", 24)
    marked = [call for call in calls if call.evidence.sent.marks]
    (first, *_), last = marked, marked[-1]

    assert max(first.evidence.sent.marks) < first.evidence.sent.block_ranges.messages.start
    assert first.trial is not None
    assert not first.trial.is_live
    assert last.trial is not None
    assert last.trial.is_live


def test_a_conversation_without_a_start_begins_with_the_shortest_prefix_that_is_cached():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    spent = lost = 0.0
    messages = []
    marks: list[int] = []
    for turn in range(120):
        messages += [chat_message("user", f"{turn}: {RULES}"), chat_message("assistant", "Read.")]
        planned = process.plan(planning_request(body(*messages, chat_message("user", "And?"))))
        process.planner.settle_call(planned, usage_of(planned))
        cost = prompt_cost(usage_of(planned), planned.evidence.sent.regime)
        direct = cost if planned.direct is None else direct_cost(planned)
        spent, lost = spent + direct, lost + cost - direct
        marks += sorted(planned.evidence.sent.marks)[-1:]

        assert lost <= 0.0005 * spent

    assert marks[0] < 20 < marks[-1]
    assert lost < -0.3 * spent


def test_the_first_bet_is_on_what_conversations_share():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    calls = [call for name in range(8) for call in conversation(process, str(name), calls=2)]
    marked = [call for call in calls if call.evidence.sent.marks]
    first = marked[0]

    assert first.trial is not None
    assert not first.trial.is_live
    assert len(first.evidence.sent.marks) < len(first.trial.sent.marks)
    assert marked[-1].trial is not None
    assert marked[-1].trial.is_live


@pytest.mark.slow
def test_without_credit_no_mark_is_sent_before_it_may_be_lost_unnoticed():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=0.0)
    spent = lost = 0.0
    calls = [call for name in range(350) for call in conversation(process, str(name), calls=2)]
    for call in calls:
        cost = prompt_cost(usage_of(call), call.evidence.sent.regime)
        direct = cost if call.direct is None else direct_cost(call)
        spent, lost = spent + direct, lost + cost - direct

        assert lost <= 0.0005 * spent

    assert not any(call.evidence.sent.marks for call in calls[:100])
    assert calls[-1].evidence.sent.marks


def test_no_mark_is_sent_where_no_prompt_comes_again():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    for number in range(60):
        raw = body(
            chat_message("system", f"Case {number}. {RULES * 3}"),
            chat_message("user", f"And {number}?"),
        )
        planned = process.plan(planning_request(raw))
        process.planner.settle_call(planned, usage_of(planned))

        assert not planned.evidence.sent.marks


def test_conversations_of_two_calls_never_risk_more_than_one_bet_and_soon_save():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    spent = saved = 0.0
    for name in range(30):
        for call in conversation(process, str(name), calls=2):
            regime = call.evidence.sent.regime
            cost = prompt_cost(usage_of(call), regime)
            direct = cost if call.direct is None else direct_cost(call)
            spent, saved = spent + cost, saved + direct - cost

            assert saved >= -0.3 * direct

    assert saved > 0.3 * spent


def test_marks_of_the_callers_that_lose_nothing_need_no_trial():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    planned = process.plan(planning_request(body(*conversation_messages(0, RULES * 3))))

    assert planned.trial is None
    assert conversation(PlanningProcess(TARGETS[OPENAI], credit=None), "1")[-1].trial is None


def test_one_shots_of_a_feature_do_not_take_the_marks_from_a_conversation_in_full_swing():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    assert conversation(process, "long", 14)[-1].evidence.sent.marks
    for number in range(80):
        raw = body(
            chat_message("system", f"Case {number}. {RULES * 3}"),
            chat_message("user", f"And {number}?"),
        )
        planned = process.plan(planning_request(raw))
        process.planner.settle_call(planned, usage_of(planned))
        process.now -= 10.0
    later = process.plan(
        planning_request(body(*conversation_messages(14, RULES * 3, "Where is parcel long?")))
    )

    assert later.evidence.sent.marks


def test_an_answer_whose_usage_nobody_knows_teaches_nothing_of_our_marks():
    process = PlanningProcess(TARGETS[ANTHROPIC])
    conversation(process, "1", 3)
    process.planner.settle_call(
        process.plan(planning_request(body(*conversation_messages(3, RULES * 3, "Where?")))),
        None,
    )
    *_, last = conversation(process, "1", 5)

    assert last.direct is not None
    assert last.direct.expected.tokens == 0


def burst(process: PlanningProcess, calls: int = 12) -> list[Planned]:
    """Calls at once of a feature whose first conversation showed what marks would save."""
    conversation(process, "1", 10)
    return [
        process.plan(planning_request(body(*conversation_messages(1, RULES * 3, f"And {at}?"))))
        for at in range(calls)
    ]


def bets(calls: list[Planned]) -> list[Planned]:
    return [each for each in calls if each.trial is not None and each.trial.number]


def test_calls_of_one_burst_make_one_bet_together():
    assert len(bets(burst(PlanningProcess(TARGETS[ANTHROPIC], credit=None)))) == 1


def test_a_call_that_fails_lets_another_bet():
    process = PlanningProcess(TARGETS[ANTHROPIC], credit=None)
    (first,) = bets(burst(process))
    process.planner.end_call(first)
    again = [
        process.plan(planning_request(body(*conversation_messages(1, RULES * 3, f"Or {at}?"))))
        for at in range(3)
    ]

    assert len(bets(again)) == 1
