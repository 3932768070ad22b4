"""Marks that cost a surcharge are sent from the first call on, and stop once they lost enough."""

import msgspec
import pytest

from proxy.caches.regime import prompt_cost
from proxy.prefix.breakpoints.feature_account import DEFAULT_STAKE
from proxy.prefix.planned import Planned
from proxy.prefix.prediction.prefix_chains import expected_usage
from proxy.records.mark_account import MAX_TEAM_LOSS
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
    usage_of,
)

ANTHROPIC = TARGETS["anthropic-breakpoint"]
LONG_RULES = RULES * 3
#: Price of a token, in the money that stakes are counted in.
PRICE = 1_000_000_000
DAY_S = 86_400.0


def cost(planned: Planned) -> float:
    """Cost of a call, in fresh tokens."""
    return prompt_cost(usage_of(planned), planned.evidence.sent.regime)


def direct_cost(planned: Planned) -> float:
    """Cost of the call had it been sent unmodified, in fresh tokens."""
    direct = planned.direct
    if direct is None:
        return cost(planned)
    sent = direct.sent
    return prompt_cost(expected_usage(sent, direct.expected, sent.estimate), sent.regime)


def savings(calls: list[Planned]) -> float:
    """Savings over sending calls directly, in fresh tokens."""
    return sum(direct_cost(call) - cost(call) for call in calls)


def send(process: PlanningProcess, raw: bytes, **fields: object) -> Planned:
    """A call that is answered and charged for as it was sent."""
    planned = process.plan(planning_request(raw, **fields))
    process.planner.settle_call(planned, usage_of(planned))
    return planned


def conversation(
    process: PlanningProcess, name: str, calls: int = 6, **fields: object
) -> list[Planned]:
    return [
        send(
            process,
            body(*conversation_messages(turns, LONG_RULES, f"Where is parcel {name}?")),
            **fields,
        )
        for turns in range(calls)
    ]


def one_shot(number: int) -> bytes:
    """A call of which nothing is ever sent again."""
    return body(
        chat_message("system", f"Case {number}. {LONG_RULES}"),
        chat_message("user", f"And {number}?"),
    )


def marked_calls(calls: list[Planned]) -> list[Planned]:
    return [call for call in calls if call.evidence.sent.marks]


def staked_calls(calls: list[Planned]) -> list[Planned]:
    return [call for call in calls if call.trial is not None and call.trial.number]


def test_every_fixed_place_is_marked_from_the_first_call_of_a_feature_on():
    process = PlanningProcess(ANTHROPIC)
    tools = [tool("find", note="n" * 6_000), tool("book")]
    first, second = (
        send(process, body(*conversation_messages(turns, LONG_RULES), tools=tools))
        for turns in range(2)
    )

    assert [list(planned.evidence.sent.marks) for planned in (first, second)] == [
        [1, 2, 3],
        [1, 2, 3, 5],
    ]
    assert second.evidence.expected.tokens > 0.9 * first.evidence.sent.estimate


def test_a_conversation_saves_from_its_second_call_on():
    first, *later = conversation(PlanningProcess(ANTHROPIC), "1")

    assert -0.26 * direct_cost(first) < savings([first]) < 0
    assert all(savings([call]) > 0.85 * direct_cost(call) for call in later)


def test_a_feature_that_never_repeats_anything_loses_one_surcharge_and_is_sent_unmodified():
    process = PlanningProcess(ANTHROPIC)
    calls = [send(process, one_shot(number)) for number in range(60)]
    first, *later = calls

    assert marked_calls(calls) == [first]
    assert all(call.body is call.draft.request.body for call in later)
    assert savings(calls) >= -0.25 * direct_cost(first)


@pytest.mark.parametrize("stake", [1_000.0, 3_000.0])
def test_a_feature_that_earned_once_loses_no_more_than_its_stake_or_one_surcharge_again(
    stake: float,
):
    process = PlanningProcess(ANTHROPIC, stake=stake * PRICE)
    calls = conversation(process, "1", 4)
    for number in range(120):
        calls.append(send(process, one_shot(number)))
        surcharge = 0.25 * max(direct_cost(call) for call in calls)

        assert savings(calls) >= -max(stake, surcharge)

    assert marked_calls(calls[-30:]) == []


@pytest.mark.parametrize("role", ["system", "user"])
def test_earlier_savings_do_not_pay_for_prompts_that_are_never_sent_again(role: str):
    process = PlanningProcess(ANTHROPIC)
    conversation(process, "1", 60)
    calls = [
        send(process, body(chat_message(role, f"{number}: {RULES * 2}"), chat_message("user", "?")))
        for number in range(160)
    ]

    assert marked_calls(calls[-100:]) == []


def test_without_a_stake_no_mark_of_ours_is_ever_sent():
    process = PlanningProcess(ANTHROPIC, stake=0.0)

    assert marked_calls(conversation(process, "1", 24)) == []


def test_a_feature_is_tried_again_after_a_day_that_halved_its_loss():
    process = PlanningProcess(ANTHROPIC)
    for number in range(20):
        send(process, one_shot(number))
    process.now += 4 * DAY_S
    later = conversation(process, "1")

    assert marked_calls(later)


def test_conversations_of_two_calls_never_risk_more_than_one_surcharge_and_soon_save():
    process = PlanningProcess(ANTHROPIC)
    calls: list[Planned] = []
    for name in range(30):
        for call in conversation(process, str(name), calls=2):
            calls.append(call)

            assert savings(calls) >= -0.3 * direct_cost(call)

    assert savings(calls) > 0.8 * sum(direct_cost(call) for call in calls)


def test_a_conversation_without_system_text_never_loses_over_three_tenths_of_a_call_and_saves():
    process = PlanningProcess(ANTHROPIC)
    calls: list[Planned] = []
    messages = []
    for turn in range(60):
        messages += [chat_message("user", f"{turn}: {RULES}"), chat_message("assistant", "Read.")]
        calls.append(send(process, body(*messages, chat_message("user", "And?"))))

        assert savings(calls) >= -0.3 * sum(direct_cost(call) for call in calls) / len(calls)

    assert savings(calls) > 0.6 * sum(direct_cost(call) for call in calls)


def test_one_shots_of_a_feature_do_not_take_the_marks_from_a_conversation_in_full_swing():
    process = PlanningProcess(ANTHROPIC)
    conversation(process, "long", 14)
    others = []
    for number in range(80):
        others.append(send(process, one_shot(number)))
        process.now -= 10.0
    later = send(process, body(*conversation_messages(14, LONG_RULES, "Where is parcel long?")))

    assert marked_calls(others[-30:]) == []
    assert max(later.evidence.sent.marks) == len(later.evidence.sent.blocks) - 1


def test_a_place_that_keeps_losing_is_left_unmarked_and_the_places_before_it_stay():
    process = PlanningProcess(ANTHROPIC)
    document = "A page that nobody sends again. " * 400
    calls = [
        send(
            process,
            body(chat_message("system", LONG_RULES), chat_message("user", f"{number}: {document}")),
        )
        for number in range(100)
    ]

    assert [list(call.evidence.sent.marks) for call in calls[-60:]] == [[0]] * 60
    assert savings(calls) > 0


def test_a_call_that_costs_no_surcharge_needs_no_stake():
    process = PlanningProcess(TARGETS["openai-breakpoint"])

    assert [call.trial for call in conversation(process, "1")] == [None] * 6


def test_where_only_the_callers_marks_stand_nothing_is_at_stake():
    process = PlanningProcess(ANTHROPIC)
    own = {"type": "text", "text": LONG_RULES, "cache_control": {"type": "ephemeral"}}
    part = {"type": "text", "text": "Where?", "cache_control": {"type": "ephemeral"}}
    sent = send(process, body(chat_message("system", [own]), chat_message("user", [part])))

    assert sent.trial is None


def test_the_control_arm_is_never_at_stake():
    process = PlanningProcess(ANTHROPIC, share=1.0)
    calls = conversation(process, "1")

    assert marked_calls(calls) == staked_calls(calls) == []


def burst(process: PlanningProcess, calls: int = 12) -> list[Planned]:
    """Calls at once, of which none was answered yet."""
    return [process.plan(planning_request(one_shot(number))) for number in range(calls)]


def test_calls_of_one_burst_make_one_stake_together():
    assert len(staked_calls(burst(PlanningProcess(ANTHROPIC)))) == 1


def test_a_call_that_ended_unsent_releases_its_stake():
    process = PlanningProcess(ANTHROPIC)
    (first,) = staked_calls(burst(process))
    process.planner.end_call(first)

    assert len(staked_calls(burst(process))) == 1


def test_calls_that_end_without_usage_cost_no_more_than_one_stake_together():
    process = PlanningProcess(ANTHROPIC)
    calls = []
    for number in range(20):
        planned = process.plan(planning_request(one_shot(number)))
        process.planner.settle_call(planned, None)
        process.planner.end_call(planned)
        calls.append(planned)

    assert staked_calls(calls) == calls[:1]


def test_calls_that_fail_are_no_loss():
    process = PlanningProcess(ANTHROPIC)
    for number in range(20):
        planned = process.plan(planning_request(one_shot(number)))
        process.planner.end_call(planned)

        assert staked_calls([planned]) == [planned]
    assert len(staked_calls(burst(process))) == 1


@pytest.mark.parametrize("stake", [0.0, 1_000.0, 10_000.0])
def test_a_provider_that_never_reads_costs_the_stake_and_one_surcharge_at_most(stake: float):
    process = PlanningProcess(ANTHROPIC, stake=stake * PRICE)
    lost = 0.0
    calls = []
    for turns in range(30):
        planned = process.plan(planning_request(body(*conversation_messages(turns, LONG_RULES))))
        total = planned.evidence.sent.estimate
        usage = Usage(write_5m=total) if planned.evidence.sent.marks else Usage(input=total)
        process.planner.settle_call(planned, usage)
        calls.append(planned)
        lost += 0.25 * usage.write_5m
    surcharge = 0.25 * calls[-1].evidence.sent.estimate

    assert lost <= (max(stake, surcharge) + surcharge if stake else 0.0)
    assert marked_calls(calls[10:]) == []


@pytest.mark.parametrize("calls", [3, 10, 200])
def test_calls_at_once_whose_reads_never_come_lose_the_stake_and_one_surcharge_at_most(calls: int):
    process = PlanningProcess(ANTHROPIC)
    lost = surcharge = 0.0
    for count in (1, calls, calls):
        planned = [
            process.plan(
                planning_request(
                    body(chat_message("system", LONG_RULES), chat_message("user", f"{number}?"))
                )
            )
            for number in range(count)
        ]
        for call in planned:
            total = call.evidence.sent.estimate
            surcharge = 0.25 * total
            usage = Usage(write_5m=total) if call.evidence.sent.marks else Usage(input=total)
            process.planner.settle_call(call, usage)
            process.planner.end_call(call)
            lost += 0.25 * usage.write_5m

    assert lost * PRICE <= DEFAULT_STAKE + surcharge * PRICE


def test_a_read_of_the_callers_own_marks_that_the_provider_loses_is_no_loss_of_ours():
    process = PlanningProcess(ANTHROPIC)
    own = {"type": "text", "text": LONG_RULES, "cache_control": {"type": "ephemeral"}}
    calls = []
    for turns in range(5):
        planned = process.plan(
            planning_request(body(chat_message("system", [own]), *conversation_messages(turns)[1:]))
        )
        total = planned.evidence.sent.estimate
        process.planner.settle_call(planned, Usage(write_5m=total))
        calls.append(planned)

    assert staked_calls(calls) == calls


def test_where_no_price_of_writes_is_known_no_mark_of_ours_is_sent_and_calls_are_counted():
    regime = msgspec.structs.replace(ANTHROPIC.regime, writes={})
    process = PlanningProcess(msgspec.structs.replace(ANTHROPIC, regime=regime))
    calls = [*conversation(process, "1"), *conversation(process, "2")]

    assert not marked_calls(calls)
    ((_, account),) = process.planner.memory.of("team_1").stakes._accounts.items()
    assert sum(books.calls for books in account.families.values()) == len(calls)


def test_features_of_one_team_lose_together_no_more_than_a_dollar_in_a_day():
    process = PlanningProcess(ANTHROPIC, stake=MAX_TEAM_LOSS)
    surcharge = 0.25 * process.plan(planning_request(one_shot(0))).evidence.sent.estimate * PRICE
    calls = [
        send(process, one_shot(number), feature=f"feature {number}")
        for number in range(int(MAX_TEAM_LOSS / surcharge) + 20)
    ]
    other = send(process, one_shot(0), feature="another", team="team_2")

    assert 0.95 * MAX_TEAM_LOSS < -savings(calls) * PRICE <= MAX_TEAM_LOSS
    assert marked_calls(calls[-10:]) == []
    assert marked_calls([other]) == [other]


def test_losses_that_count_less_by_evening_give_the_team_no_more_to_lose_that_day():
    process = PlanningProcess(ANTHROPIC, stake=MAX_TEAM_LOSS)
    process.now = midnight = NOW // DAY_S * DAY_S + DAY_S
    surcharge = 0.25 * process.plan(planning_request(one_shot(0))).evidence.sent.estimate * PRICE
    features = int(MAX_TEAM_LOSS / surcharge) + 20
    calls: list[Planned] = []
    for hour in (0, 22):
        for number in range(features + hour):
            process.now = midnight + hour * 3_600.0
            calls.append(send(process, one_shot(len(calls)), feature=f"feature {number}"))

    assert 0.95 * MAX_TEAM_LOSS < -savings(calls) * PRICE <= MAX_TEAM_LOSS
