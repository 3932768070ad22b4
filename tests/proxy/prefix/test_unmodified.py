"""The expected cost of calls, had they been sent unmodified."""

import msgspec
import pytest

from proxy.caches.regime import prompt_cost
from proxy.prefix.breakpoints.plan import ExperimentArm
from proxy.prefix.guard import CostComparison, Harm
from proxy.prefix.layouts.layout import Layout
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.prefix.unmodified import (
    ControlAccount,
    UnmodifiedBaseline,
    UsageComparison,
    compare_bill,
)
from proxy.records.mark_account import MAX_TEAM_LOSS, STAKE_UNITS_PER_DOLLAR
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    usage_of,
)

OPENAI, ANTHROPIC, INTERVAL = "openai-breakpoint", "anthropic-breakpoint", "openai-interval"


def conversation(
    process: PlanningProcess, name: str, calls: int = 6, *, feature: str = "desk", **fields: object
) -> list[Planned]:
    """The calls of a conversation; each is charged for as it was sent."""
    planned_calls = []
    for turns in range(calls):
        call = planning_request(
            body(*conversation_messages(turns, RULES * 3, f"Where is parcel {name}?"), **fields),
            feature=feature,
        )
        planned = process.plan(call)
        process.planner.settle_call(planned, usage_of(planned))
        planned_calls.append(planned)
    return planned_calls


def direct_cost(planned: Planned) -> float:
    """Return what the call should have cost unmodified, in fresh tokens."""
    direct = planned.direct
    assert direct is not None
    sent = direct.sent
    return prompt_cost(expected_usage(sent, direct.expected, sent.estimate), sent.regime)


def harm(process: PlanningProcess, planned: Planned) -> object:
    return process.planner.take_harm(planned, process.now)


def test_control_arm_may_lose_a_quarter_of_the_stake_and_a_tenth_of_what_planning_earned():
    account = ControlAccount(100.0)
    account.record_call(CostComparison(planned=75.0, direct=50.0), is_planned=False)
    assert account.has_credit

    account.record_call(CostComparison(planned=51.0, direct=50.0), is_planned=False)
    assert (account.has_credit, account.unpaid_loss) == (False, 26.0)

    account.record_call(CostComparison(planned=40.5, direct=50.0), is_planned=True)
    assert (account.has_credit, account.unpaid_loss) == (False, 16.5)

    account.record_call(CostComparison(planned=49.5, direct=50.0), is_planned=True)
    assert (account.has_credit, account.unpaid_loss) == (True, 16.0)


def test_control_arm_draws_no_conversations_while_it_lost_more_than_it_may():
    process = PlanningProcess(TARGETS[INTERVAL], share=1.0, stake=0.0)
    (first,) = conversation(process, "1", 1)
    account = process.planner.memory.of("team_1").unmodified._control(first.place)
    account.record_call(CostComparison(planned=60.0, direct=50.0), is_planned=False)
    (second,) = conversation(process, "2", 1)
    account.record_call(CostComparison(planned=0.0, direct=100.0), is_planned=True)
    (third,) = conversation(process, "3", 1)

    assert [call.plan.arm.value for call in (first, second, third)] == [
        "control",
        "treated",
        "control",
    ]


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
    harm_of_last = harm(process, last)
    assert isinstance(harm_of_last, Harm)
    assert harm_of_last.layout == 1


@pytest.mark.parametrize(("dollars", "is_stopped"), [(0.01, True), (1.0, False)])
def test_layout_may_lose_the_learning_stake_of_its_operator(dollars, is_stopped):
    stake = dollars * STAKE_UNITS_PER_DOLLAR
    process = PlanningProcess(TARGETS[OPENAI], layout=Layout(), stake=stake)
    *_, last = conversation(process, "1", metadata={"thriftgate_slots": "0=variable"})

    assert (harm(process, last) is not None) is is_stopped


def test_layouts_of_a_hundred_features_lose_a_dollar_of_their_team_in_a_day_at_most():
    process = PlanningProcess(TARGETS[INTERVAL], layout=Layout(), stake=MAX_TEAM_LOSS)
    team = process.planner.memory.stake_of("team_1")
    losses = []
    for number in range(100):
        first, *_ = conversation(
            process,
            str(number),
            feature=f"feature {number}",
            metadata={"thriftgate_slots": "0=variable"},
        )
        losses.append(team.lost if first.plan.layout else None)
    moved = [loss for loss in losses if loss is not None]

    assert 100 * moved[0] > 2 * MAX_TEAM_LOSS
    assert 0.95 * MAX_TEAM_LOSS < moved[-1] <= MAX_TEAM_LOSS + moved[0]
    assert losses[: len(moved)] == moved
    process.now += 86_400.0
    (tomorrow,) = conversation(process, "2", 1, feature="feature 99")
    assert tomorrow.plan.layout == 1


def test_feature_that_earned_a_cent_keeps_its_layout_once_the_teams_dollar_is_lost():
    process = PlanningProcess(TARGETS[INTERVAL], layout=Layout())
    process.planner.memory.stake_of("team_1").record(MAX_TEAM_LOSS, process.now)
    (first,) = conversation(process, "1", 1)
    account = process.planner.memory.of("team_1").unmodified._control(first.place)
    cent = STAKE_UNITS_PER_DOLLAR / 100
    account.record_call(CostComparison(planned=0.0, direct=cent), is_planned=True)
    (second,) = conversation(process, "2", 1)

    assert (first.plan.layout, second.plan.layout) == (0, 1)


def test_control_arm_loses_of_the_teams_dollar_what_layouts_did_not_earn():
    account = ControlAccount(100.0)
    lost = CostComparison(planned=75.0, direct=50.0)
    saved = CostComparison(planned=40.0, direct=50.0)

    assert account.record_call(lost, is_planned=False) == 25.0
    assert account.record_call(saved, is_planned=True) == 0.0
    assert account.record_call(saved, is_planned=True, is_moved=True) == -10.0
    assert account.record_call(lost, is_planned=True, is_moved=True) == 25.0


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


def test_an_answer_whose_usage_nobody_knows_teaches_nothing_of_our_marks():
    process = PlanningProcess(TARGETS[ANTHROPIC])
    conversation(process, "1", 3)
    process.planner.settle_call(
        process.plan(planning_request(body(*conversation_messages(3, RULES * 3, "Where?")))), None
    )
    *_, last = conversation(process, "1", 5)

    assert last.direct is not None
    assert last.direct.expected.tokens == 0


def test_a_read_that_did_not_come_is_no_saving_where_nothing_would_have_been_read_directly():
    *_, last = conversation(PlanningProcess(TARGETS[ANTHROPIC]), "1")
    usage = usage_of(last)
    short = msgspec.structs.replace(
        usage, cache_read=usage.cache_read - 500, input=usage.input + 500, output=9
    )
    bill = compare_bill(last, short)

    assert bill.sent == msgspec.structs.replace(short, output=0)
    assert bill.unmodified == Usage(input=short.prompt_tokens)


def test_a_read_that_did_not_come_would_not_have_come_directly_either():
    *_, last = conversation(PlanningProcess(TARGETS[OPENAI]), "1")
    usage = usage_of(last)
    assert last.direct is not None
    direct = expected_usage(last.direct.sent, last.direct.expected, usage.prompt_tokens)
    lost = Usage(write_30m=usage.prompt_tokens)
    bill = compare_bill(last, lost)

    assert direct.cache_read > 0
    assert (bill.sent, bill.unmodified.cache_read) == (lost, 0)
    assert bill.unmodified.prompt_tokens == direct.prompt_tokens


def test_a_control_call_that_reads_what_treated_ones_stored_would_have_read_less_directly():
    process = PlanningProcess(TARGETS[OPENAI], share=0.5)
    calls = [call for name in range(12) for call in conversation(process, str(name), 1)]
    *_, control = [call for call in calls if call.plan.arm is ExperimentArm.CONTROL]
    usage = usage_of(control)

    assert usage.cache_read > 0
    assert compare_bill(control, usage) == UsageComparison(
        usage, Usage(write_30m=usage.prompt_tokens)
    )


def test_end_that_another_process_stored_of_the_conversation_would_be_read_directly_too():
    began, other = PlanningProcess(TARGETS[OPENAI]), PlanningProcess(TARGETS[OPENAI])
    conversation(began, "1", 3)
    conversation(other, "2", 1)
    call = planning_request(body(*conversation_messages(3, RULES * 3, "Where is parcel 1?")))
    usage, planned = usage_of(began.plan(call)), other.plan(call)

    assert planned.evidence.expected.tokens < usage.cache_read
    assert compare_bill(planned, usage) == UsageComparison(usage, usage)


def test_end_that_a_mark_of_another_process_stored_would_not_be_read_directly():
    began, other = PlanningProcess(TARGETS[OPENAI]), PlanningProcess(TARGETS[OPENAI])
    conversation(began, "1", 1)
    call = planning_request(body(*conversation_messages(0, RULES * 3, "Where is parcel 2?")))
    usage, planned = usage_of(began.plan(call)), other.plan(call)

    assert usage.cache_read > 0
    assert compare_bill(planned, usage).unmodified == Usage(write_30m=usage.prompt_tokens)


def test_tokens_that_an_end_was_estimated_short_by_would_not_be_read_directly():
    process, history = PlanningProcess(TARGETS[OPENAI]), list[dict[str, object]]()
    for turns in range(6):
        history = conversation_messages(turns, RULES * 3, "Where is parcel 1?")
        tail = chat_message("user", f"It is {turns} o'clock.")
        planned = process.plan(planning_request(body(*history, tail)))
        usage = usage_of(planned)
        process.planner.settle_call(planned, usage)
    more = msgspec.structs.replace(
        usage, cache_read=usage.cache_read + 9, write_30m=usage.write_30m - 9
    )

    assert usage.cache_read > 0
    assert compare_bill(planned, more).unmodified == Usage(write_30m=usage.prompt_tokens)


def test_read_before_the_end_of_the_call_before_would_not_come_directly():
    process = PlanningProcess(TARGETS[OPENAI])
    conversation(process, "1", 1)
    call = planning_request(body(*conversation_messages(9, RULES * 3, "Where is parcel 2?")))
    planned = process.plan(call)
    usage = usage_of(planned)
    more = msgspec.structs.replace(
        usage, cache_read=usage.cache_read + 9, write_30m=usage.write_30m - 9
    )

    assert usage.cache_read > 0
    assert compare_bill(planned, more).unmodified == Usage(write_30m=usage.prompt_tokens)


def test_watched_modified_and_controlled_features_count_their_bytes():
    baseline = UnmodifiedBaseline(0.0)
    for index in baseline.indexes[-3:]:
        index.put("scope", object())

    assert [index.size_bytes for index in baseline.indexes[-3:]] == [5_500, 200, 200]
