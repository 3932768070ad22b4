from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, select

from proxy.prefix.breakpoints.plan import (
    SEVERAL,
    BreakpointPolicy,
    ExperimentArm,
    Plan,
    merge_plans,
)
from proxy.store.sql import schema
from proxy.store.sql.database import open_database, read_transaction
from proxy.store.sql.settings.plans import Plans

NOW = 1_790_000_000.0
DAY = 86_400.0
ID = "ab" * 16
A_PLAN = Plan(
    layout=3,
    shape=1,
    tools=("t1", "t2"),
    policies={"anthropic-breakpoint/anthropic": BreakpointPolicy(ttl="1h", places=3, key="k1")},
)


@pytest.fixture
def plans(engine: Engine) -> Plans:
    return Plans(engine)


def grow(plans: Plans, plan: Plan, now: float = NOW, name: str = ID) -> Plan:
    """Return what holds for one conversation once it has this plan, too."""
    return plans.grow_all({name: plan}, now)[name]


def times_of_use(engine: Engine) -> list[float]:
    with read_transaction(engine) as connection:
        return list(connection.execute(select(schema.plans.c.used)).scalars())


def test_a_conversation_nobody_planned_has_no_plan(plans: Plans) -> None:
    assert plans.find(ID, NOW) is None


def test_a_plan_that_was_kept_is_found_whole(plans: Plans) -> None:
    assert grow(plans, A_PLAN) == A_PLAN
    assert plans.find(ID, NOW + 1) == A_PLAN


def test_the_first_to_bring_a_plan_decides(plans: Plans) -> None:
    grow(plans, A_PLAN)

    assert grow(plans, Plan(arm=ExperimentArm.CONTROL), NOW + 1) == A_PLAN
    assert plans.find(ID, NOW + 2) == A_PLAN


def test_processes_that_race_agree(url: str, engine: Engine) -> None:
    def bring(layout: int) -> Plan:
        own = open_database(url)
        plan = grow(Plans(own), Plan(layout=layout))
        own.dispose()
        return plan

    with ThreadPoolExecutor(6) as threads:
        plans_kept = list(threads.map(bring, range(1, 7)))

    assert len({plan.layout for plan in plans_kept}) == 1
    assert Plans(engine).find(ID, NOW) == plans_kept[0]


def test_a_plan_grows_by_what_it_lacks_and_changes_in_nothing(plans: Plans) -> None:
    grow(plans, A_PLAN)
    more = Plan(
        arm=ExperimentArm.CONTROL,
        layout=9,
        tools=("t3", "t1"),
        policies={
            "anthropic-breakpoint/anthropic": BreakpointPolicy(),
            "openai-breakpoint/openai": BreakpointPolicy(explicit=True),
        },
    )
    grown = grow(plans, more, NOW + 1)

    assert grown == plans.find(ID, NOW + 2)
    assert (grown.arm, grown.layout) == (ExperimentArm.TREATED, 3)
    assert grown.tools == ("t1", "t2", "t3")
    assert grown.policies == {
        **A_PLAN.policies,
        "openai-breakpoint/openai": BreakpointPolicy(explicit=True),
    }


def test_many_plans_grow_in_one_step(plans: Plans) -> None:
    grow(plans, A_PLAN, name="b")
    more = Plan(arm=ExperimentArm.CONTROL, tools=("t3",))
    grown = plans.grow_all({"c": more, "b": more, "a": A_PLAN}, NOW + 1)

    assert grown == {"a": A_PLAN, "b": merge_plans(A_PLAN, more), "c": more}
    assert {name: plans.find(name, NOW + 2) for name in grown} == grown
    assert plans.grow_all({}, NOW) == {}


def test_processes_that_grow_many_plans_at_once_lose_nothing(url: str, engine: Engine) -> None:
    names = [f"{n:032x}" for n in range(20)]

    def add(tool: int) -> None:
        own = open_database(url)
        order = names if tool % 2 else names[::-1]
        Plans(own).grow_all({name: Plan(tools=(f"t{tool}",)) for name in order}, NOW)
        own.dispose()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(4)))
    plans_found = [Plans(engine).find(name, NOW) for name in names]

    assert [sorted(plan.tools) for plan in plans_found if plan] == [["t0", "t1", "t2", "t3"]] * 20


def test_a_conversation_that_was_met_midway_stays_so(plans: Plans) -> None:
    grow(plans, Plan(joined=True))
    grow(plans, A_PLAN)
    plan = plans.find(ID, NOW)

    assert plan is not None
    assert (plan.joined, plan.layout) == (True, 0)


def test_processes_that_grow_a_plan_at_once_lose_nothing(url: str, engine: Engine) -> None:
    def add(tool: int) -> Plan:
        own = open_database(url)
        plan = grow(Plans(own), Plan(tools=(f"t{tool}",)))
        own.dispose()
        return plan

    with ThreadPoolExecutor(6) as threads:
        plans_grown = list(threads.map(add, range(6)))
    stored = Plans(engine).find(ID, NOW)

    assert stored is not None
    assert sorted(stored.tools) == [f"t{n}" for n in range(6)]
    assert all(plan.tools == stored.tools[: len(plan.tools)] for plan in plans_grown)


def test_a_flood_of_tools_and_caches_takes_bounded_room(plans: Plans) -> None:
    flood = Plan(
        tools=tuple(f"t{n}" for n in range(5000)),
        policies={f"regime/{n}": BreakpointPolicy() for n in range(500)},
    )
    for plan in (grow(plans, flood), grow(plans, flood)):
        assert plan.tools == flood.tools[:1024]
        assert list(plan.policies) == list(flood.policies)[:64]


def test_plans_nobody_asked_for_are_deleted_and_others_stay(plans: Plans) -> None:
    grow(plans, A_PLAN, name="new")
    plans.grow_all({"old": A_PLAN, "old but asked for": A_PLAN}, NOW - 40 * DAY)
    plans.find("old but asked for", NOW - 2 * DAY)

    assert plans.retain(NOW - 30 * DAY, budget=0) == 0
    assert plans.retain(NOW - 30 * DAY, budget=60) == 1
    assert plans.find("old", NOW) is None
    assert plans.find("old but asked for", NOW) == A_PLAN
    assert plans.find("new", NOW) == A_PLAN


def test_asking_often_writes_once_in_half_a_day(plans: Plans, engine: Engine) -> None:
    grow(plans, A_PLAN)
    plans.find(ID, NOW + 40_000)
    early = times_of_use(engine)
    plans.find(ID, NOW + 50_000)

    assert early == [NOW]
    assert times_of_use(engine) == [NOW + 50_000]


def test_many_plans_are_found_at_once_and_where_a_name_leads(plans: Plans) -> None:
    there, name = "cd" * 16, "ef" * 16
    plans.grow_all({ID: A_PLAN, there: Plan(layout=2), name: Plan(conversation=there)}, NOW)

    assert plans.find_all((ID, name, "00" * 16), NOW) == {
        ID: A_PLAN,
        name: Plan(conversation=there),
        there: Plan(layout=2),
    }
    assert plans.find_all((), NOW) == {}


def test_a_key_of_several_conversations_leads_to_none(plans: Plans) -> None:
    for conversation in ("cd" * 16, "ef" * 16, "cd" * 16):
        grow(plans, Plan(conversation=conversation))

    assert plans.find_all((ID,), NOW) == {ID: Plan(conversation=SEVERAL)}


def test_a_plan_takes_the_place_of_what_leads_elsewhere_and_keeps_it(plans: Plans) -> None:
    elsewhere = Plan(conversation="cd" * 16)

    assert grow(plans, elsewhere) == elsewhere
    assert grow(plans, A_PLAN) == A_PLAN
    assert grow(plans, elsewhere) == plans.find(ID, NOW) == A_PLAN


def test_all_that_was_asked_for_stays(plans: Plans) -> None:
    plans.grow_all({"a": A_PLAN, "b": A_PLAN, "c": Plan(conversation="a")}, NOW - 40 * DAY)
    plans.find_all(("b", "c"), NOW)

    assert plans.retain(NOW - 30 * DAY, budget=60) == 0
