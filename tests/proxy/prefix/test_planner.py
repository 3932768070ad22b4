"""All pieces of planning together: what is decided, what is sent, and what is learned."""

import msgspec
import pytest

from proxy.caches.outlook import regime_at_retention
from proxy.prefix.breakpoints.plan import ExperimentArm, Plan
from proxy.prefix.explain.reasons import MissReason, ProviderReason
from proxy.prefix.observation import find_miss
from proxy.prefix.planner import Planner
from proxy.prefix.prompts.fingerprints import team_fingerprint
from proxy.prefix.prompts.objects import Unplannable
from slo.usage import Usage
from tests.proxy.prefix.planning_requests import (
    NOW,
    RULES,
    SECRET,
    TARGETS,
    PlanningProcess,
    body,
    chat_message,
    conversation_messages,
    planning_request,
    tool,
    without_marks,
)

ANTHROPIC, INTERVAL = TARGETS["anthropic-breakpoint"], TARGETS["openai-interval"]


def first(raw: bytes = body(*conversation_messages(0)), **fields: object) -> tuple[Planner, Plan]:
    """A planner, and what it decides for the conversation of this call."""
    planner = Planner(SECRET, share=float(str(fields.pop("share", 0.0))))
    return planner, planner.begin_plan(planner.read_call(planning_request(raw, **fields)), 3)


def a_usage(planned, read: int = 0) -> Usage:
    """Return what a provider counts whose tokens are as long as we take them to be."""
    return Usage(input=planned.evidence.sent.estimate - read, cache_read=read)


def test_a_body_that_is_no_chat_is_left_alone_with_a_reason():
    with pytest.raises(Unplannable, match="not a chat body"):
        Planner(SECRET).read_call(planning_request(b'{"prompt":"hi"}'))


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize("regime", sorted(TARGETS))
def test_a_prompt_of_rules_alone_is_planned_and_read_again(regime, role):
    process, raw = PlanningProcess(TARGETS[regime]), body(chat_message(role, RULES))
    first = process.plan_and_settle(planning_request(raw))
    process.plan_and_settle(planning_request(raw), a_usage(first))
    again = process.plan_and_settle(planning_request(raw))

    assert again.evidence.expected.same == len(again.evidence.sent.blocks) == 1


def test_an_adopted_plan_is_known():
    planner = Planner(SECRET)
    draft = planner.read_call(planning_request(body(*conversation_messages(0))))
    before = planner.known_plan(draft)
    planner.plan_call(draft, TARGETS["openai-interval"], Plan(layout=7), None, NOW)
    planner.adopt_plan(draft, Plan(layout=7))

    assert before is None
    assert planner.known_plan(
        planner.read_call(planning_request(body(*conversation_messages(3))))
    ) == Plan(layout=7)


@pytest.mark.parametrize(
    "other", [{"team": "t"}, {"feature": "f"}, {"key": "k"}, {"hint": "the second"}]
)
def test_a_conversation_is_its_callers_own(other):
    planner = Planner(SECRET)
    planner.adopt_plan(planner.read_call(planning_request(body(*conversation_messages(0)))), Plan())

    assert (
        planner.known_plan(
            planner.read_call(planning_request(body(*conversation_messages(1)), **other))
        )
        is None
    )


def test_a_new_conversation_begins_with_the_layout_that_holds():
    assert first()[1] == Plan(layout=3)


def test_a_conversation_met_midway_begins_with_none():
    assert first(body(*conversation_messages(2)))[1] == Plan(joined=True)


def test_the_control_arm_is_sent_exactly_as_it_came():
    planner, plan = first(share=1.0)
    call = planning_request(body(*conversation_messages(0), tools=[tool("b"), tool("a")]))
    planned = planner.plan_call(planner.read_call(call), ANTHROPIC, plan, None, NOW)

    assert plan.arm is ExperimentArm.CONTROL
    assert planned.body is call.body
    assert planned.plan is plan
    assert (planned.prompt.tail, planned.notes) == (0, ())


def test_tools_keep_their_callers_spelling():
    process = PlanningProcess(INTERVAL)
    keys = ("parameters", "name", "description")
    spelled = {"type": "function", "function": dict.fromkeys(keys, "find")}
    call = planning_request(body(*conversation_messages(0), tools=[tool("a"), spelled]))

    assert msgspec.json.encode(spelled) in process.plan_and_settle(call).body


def test_tools_that_are_new_to_a_conversation_follow_in_their_callers_order():
    process = PlanningProcess(INTERVAL)
    process.plan_and_settle(planning_request(body(*conversation_messages(0), tools=[tool("k")])))
    again = planning_request(body(*conversation_messages(0), tools=[tool("c"), tool("b")]))
    tools = msgspec.json.decode(process.plan_and_settle(again).body)["tools"]

    assert [tool["function"]["name"] for tool in tools] == ["c", "b"]


def test_cache_reads_of_the_control_arm_are_measured():
    process = PlanningProcess(INTERVAL, share=1.0)
    process.plan_and_settle(planning_request(body(*conversation_messages(0))))
    planned = process.plan_and_settle(planning_request(body(*conversation_messages(1))))

    assert planned.evidence.expected.known > 0


def test_a_conversation_with_tools_is_marked_where_it_is_likely_to_go_on():
    process = PlanningProcess(ANTHROPIC)
    process.plan_and_settle(planning_request(body(*conversation_messages(0), tools=[tool("a")])))
    planned = process.plan(planning_request(body(*conversation_messages(1), tools=[tool("a")])))

    assert b'"cache_control"' in planned.body
    assert {name.partition("/")[0] for name in planned.plan.policies} == {"anthropic-breakpoint"}


def test_a_conversations_plan_and_text_hold_whatever_is_learned_since():
    process = PlanningProcess(ANTHROPIC)
    begun = process.plan(planning_request(body(*conversation_messages(0), tools=[tool("a")])))
    for number in range(60):
        process.plan_and_settle(
            planning_request(
                body(*conversation_messages(0, opening=f"Only this: {number}"), tools=[tool("a")])
            )
        )
    again = process.plan(planning_request(body(*conversation_messages(0), tools=[tool("a")])))
    later = process.plan(planning_request(body(*conversation_messages(1), tools=[tool("a")])))
    fresh = process.plan(
        planning_request(body(*conversation_messages(0, opening="Another?"), tools=[tool("a")]))
    )

    assert again.plan == begun.plan
    assert without_marks(again.body) == without_marks(begun.body)
    assert later.plan.policies == begun.plan.policies == fresh.plan.policies
    assert len(fresh.evidence.sent.marks) < len(begun.evidence.sent.marks)


def test_each_kind_of_cache_gets_a_breakpoint_policy_of_its_own():
    process = PlanningProcess(ANTHROPIC)
    process.plan(planning_request(body(*conversation_messages(0))))
    process.to = TARGETS["openai-breakpoint"]
    planned = process.plan(planning_request(body(*conversation_messages(0))))

    assert {name.partition("/")[0] for name in planned.plan.policies} == {
        "openai-breakpoint",
        "anthropic-breakpoint",
    }


def test_an_answer_without_usage_teaches_but_explains_nothing():
    process = PlanningProcess(INTERVAL)
    planned = process.plan(planning_request(body(*conversation_messages(0))))

    assert process.planner.settle_call(planned, None) is None
    assert (
        process.plan(planning_request(body(*conversation_messages(1)))).evidence.before is not None
    )


def test_a_prompt_never_sent_before_is_first_seen():
    process = PlanningProcess(INTERVAL)
    planned = process.plan(planning_request(body(*conversation_messages(0))))
    miss = process.planner.settle_call(planned, a_usage(planned))

    assert miss is not None
    assert miss.reason is MissReason.FIRST_SEEN


def test_teams_whose_features_have_one_name_are_not_compared_with_one_another():
    process = PlanningProcess(INTERVAL)
    process.plan_and_settle(planning_request(body(*conversation_messages(0)), team="team_1"))
    of_another = process.plan(planning_request(body(*conversation_messages(0)), team="team_2"))
    process.planner.settle_call(of_another, None)
    own = process.plan(
        planning_request(body(*conversation_messages(0, opening="Another?")), team="team_1")
    )

    assert of_another.evidence.before is None
    assert own.evidence.before is not None
    assert own.evidence.before.place == own.evidence.sent.place


def test_a_call_that_reads_what_it_can_misses_nothing():
    process = PlanningProcess(TARGETS["block-chain"])
    process.plan_and_settle(planning_request(body(*conversation_messages(0))))
    planned = process.plan(planning_request(body(*conversation_messages(1))))

    assert (
        process.planner.settle_call(planned, a_usage(planned, planned.evidence.expected.known))
        is None
    )


@pytest.mark.parametrize("shows", [True, False])
def test_a_changed_line_is_named_and_quoted_only_where_prompts_are_kept(shows):
    process = PlanningProcess(TARGETS["block-chain"])
    above = "Today is {}.\n"
    process.plan_and_settle(
        planning_request(body(*conversation_messages(1, above.format("Monday") + RULES)))
    )
    planned = process.plan(
        planning_request(
            body(*conversation_messages(1, above.format("Tuesday") + RULES)), shows=shows
        )
    )
    miss = process.planner.settle_call(planned, a_usage(planned))

    assert miss is not None
    assert miss.reason is MissReason.DIVERGED
    assert miss.nanos is not None
    assert ("Tuesday" in miss.detail) == shows


def test_a_miss_is_found_without_the_planner():
    process = PlanningProcess(TARGETS["block-chain"])
    process.plan_and_settle(
        planning_request(body(*conversation_messages(1, f"Today is Monday.\n{RULES}")))
    )
    planned = process.plan(
        planning_request(body(*conversation_messages(1, f"Today is Tuesday.\n{RULES}")))
    )
    alone = find_miss(planned, a_usage(planned))

    assert find_miss(planned, None) is None
    assert alone is not None
    assert alone == process.planner.settle_call(planned, a_usage(planned))


def test_the_providers_own_reason_is_believed():
    process = PlanningProcess(INTERVAL)
    process.plan_and_settle(planning_request(body(*conversation_messages(0))))
    planned = process.plan(planning_request(body(*conversation_messages(1))))
    reason = ProviderReason(MissReason.PARAMETER_CHANGED, "tools changed")
    miss = process.planner.settle_call(planned, a_usage(planned), reason=reason)

    assert miss is not None
    assert (miss.reason, miss.detail) == (
        MissReason.PARAMETER_CHANGED,
        "the provider says tools changed",
    )


def test_a_conversation_that_the_gateway_sends_to_another_model_is_rerouted():
    process = PlanningProcess(INTERVAL)
    process.plan_and_settle(planning_request(body(*conversation_messages(0))))
    process.to = msgspec.structs.replace(INTERVAL, model="gpt-9-mini")
    planned = process.plan(planning_request(body(*conversation_messages(1))))
    miss = find_miss(planned, a_usage(planned))

    assert miss is not None
    assert miss.reason is MissReason.REROUTED


def test_a_miss_after_the_caller_changed_the_model_is_their_own_change():
    process = PlanningProcess(INTERVAL)
    raw = body(*conversation_messages(1))
    process.plan_and_settle(planning_request(raw))
    process.to = msgspec.structs.replace(INTERVAL, model="gpt-9-mini")
    planned = process.plan(planning_request(raw.replace(b'"model":"', b'"model":"gpt-9-mini/')))
    miss = find_miss(planned, a_usage(planned))

    assert miss is not None
    assert (miss.reason, miss.detail) == (MissReason.PARAMETER_CHANGED, "model changed")


def test_an_unknown_upstream_gets_the_unmodified_call():
    unknown = msgspec.structs.replace(INTERVAL, regime=type(INTERVAL.regime)())
    planned = PlanningProcess(unknown).plan(planning_request(body(*conversation_messages(1))))

    assert planned.body is planned.draft.request.body


def test_fingerprints_are_equal_for_one_team_and_secret_alone():
    makers = [team_fingerprint(b"s", "t"), team_fingerprint(b"s", "u"), team_fingerprint(b"r", "t")]

    assert len({make(b"text") for make in makers}) == 3
    assert team_fingerprint(b"s", "t")(b"text") == makers[0](b"text")
    assert len(makers[0](b"")) == 16
    assert team_fingerprint(b"s" * 99, "\ud800")(b"") == team_fingerprint(b"s" * 99, "\ud800")(b"")


@pytest.mark.parametrize(
    ("retention", "is_expected"), [({}, True), ({"prompt_cache_retention": "in_memory"}, False)]
)
def test_retention_that_a_call_asks_for_goes_before_the_routes(retention, is_expected):
    regime = regime_at_retention(TARGETS["openai-interval"].regime, "24h")
    process = PlanningProcess(msgspec.structs.replace(TARGETS["openai-interval"], regime=regime))
    process.plan_and_settle(planning_request(body(*conversation_messages(0), **retention)))
    process.now += 1_000.0
    request = planning_request(body(*conversation_messages(1), **retention))
    planned = process.plan_and_settle(request)

    assert bool(planned.evidence.expected.tokens) == is_expected
    assert planned.body == request.body
