"""Replicas that judge and hear: one leads, another takes over, counters are lost and come back."""

import asyncio
from contextlib import suppress

import pytest

from proxy.services.objectives.objective_state import MISSED, shown_state
from proxy.store.redis.objective_state import MAX_INCREMENT, MAX_KEYS
from slo.controller.state import ControllerState
from slo.objectives.objective import Enforce
from tests.fakes.chaos import two_model_catalog
from tests.fakes.clock import run_in_instant_time
from tests.fakes.objective_process import open_counters
from tests.fakes.objective_replicas import Replica, ReplicaGroup, objective, tracks
from tests.proxy.services.objectives.replica_stories import DOWN, FROZEN, WELL, pin, two_replicas


@pytest.mark.instant_time
async def test_one_replica_leads_and_the_other_adopts_its_states():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=3, bad=1)

    assert first.state == second.state == DOWN
    assert (first.steering._leads, second.steering._leads) == (True, False)
    assert [alert.kind for alert in first.said].count("move") == 1
    assert second.said == []


@pytest.mark.instant_time
async def test_burns_that_the_leader_measured_are_heard_by_all():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=3, bad=1)

    assert first.router.burns == second.router.burns
    shortest = second.router.burns["chat-ttft"][0]
    assert shortest.rate == pytest.approx(5.0)
    assert shortest.counted > 300


@pytest.mark.instant_time
async def test_few_calls_of_each_are_enough_calls_of_both():
    world, first, second = await two_replicas()
    for _ in range(12):
        await world.goes_on(5, first, second)
        first.answers(2, 1)
        second.answers(2, 1)
    await world.goes_on(2, first, second)

    assert second.state == DOWN


@pytest.mark.instant_time
async def test_when_the_leader_dies_another_goes_on_from_where_it_stood():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    began = first.router.snapshots["chat-ttft"].since
    await world.goes_on(10, second)

    assert second.steering._leads
    assert second.state == DOWN
    assert second.router.snapshots["chat-ttft"].since == began
    assert second.said == []


@pytest.mark.instant_time
async def test_a_new_leader_knows_what_was_counted_before():
    world, first, second = await two_replicas()
    await world.goes_on(200, first, second, good=20)
    await world.goes_on(6, second, good=20)

    assert second.steering._leads
    assert second.steering._judge.counts(world.tracks["chat-ttft"], world.now, 300).good > 5_000


@pytest.mark.instant_time
async def test_a_leader_that_was_stopped_for_a_while_hears_who_leads_now():
    world, first, second = await two_replicas()
    await world.goes_on(10, second)
    await world.goes_on(60, second, good=1, bad=1)
    await world.goes_on(1, first, second)

    assert (first.steering._leads, second.steering._leads) == (False, True)
    assert first.state == DOWN


@pytest.mark.instant_time
async def test_a_leader_that_leads_again_does_not_take_the_time_between_for_a_jump():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    await world.goes_on(100, second, good=1, bad=1)
    await world.goes_on(10, first, good=1, bad=1)

    assert first.steering._leads
    assert first.state[0] is ControllerState.DEGRADED


@pytest.mark.instant_time
async def test_a_state_published_before_a_long_stop_counts_as_healthy():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    world.now += 601
    anew = world.replica("anew")
    await anew.steering.sync_once()
    assert anew.state == WELL


def test_a_restart_goes_on_where_it_was_and_ends_its_alerts():
    async def play() -> None:
        world = ReplicaGroup()
        first = world.replica("first")
        await world.goes_on(60, first, good=1, bad=1)
        began = [alert.id for alert in first.said]
        world.now += 60
        anew = world.replica("anew")
        await world.goes_on(2, anew)
        assert anew.state == DOWN
        await world.goes_on(900, anew, good=20)

        assert anew.state == WELL
        ended = [alert.id for alert in anew.said if not alert.is_open]
        moves = [alert.id for alert in first.said if alert.kind == "move"]
        assert {alert.id for alert in anew.said} <= set(began)
        assert set(moves) <= set(ended)
        assert len(ended) == len(set(ended))

    run_in_instant_time(play())


@pytest.mark.instant_time
async def test_a_leader_tells_nothing_until_it_knows_which_alerts_are_open():
    world = ReplicaGroup()
    first = world.replica("first")
    await world.goes_on(600, first, good=1, bad=1)
    alerts = set(world.kept.alerts)
    assert len(alerts) > 1
    world.kept.is_away = True
    heir = world.replica("heir")
    await world.goes_on(60, heir, good=1, bad=1)
    assert (heir.steering._leads, heir.said) == (True, [])
    world.kept.is_away = False
    await world.goes_on(60, heir, good=1, bad=1)

    assert set(world.kept.alerts) == alerts


@pytest.mark.instant_time
async def test_a_level_that_was_told_is_kept_without_telling_again():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=1, bad=1)
    first.counters.is_lost = second.counters.is_lost = True
    await world.goes_on(100, first, second, good=1, bad=1)
    assert first.state == second.state == FROZEN
    first.counters.is_lost = second.counters.is_lost = False
    await world.goes_on(2, first, second, good=1, bad=1)
    assert first.state == second.state == DOWN
    moves = [alert for replica in (first, second) for alert in replica.said if alert.kind == "move"]
    assert len(moves) == 1


@pytest.mark.instant_time
async def test_a_clock_that_jumps_freezes_what_is_not_healthy_for_a_minute():
    world, first, _ = await two_replicas()
    await world.goes_on(60, first, good=1, bad=1)
    world.now += 4000
    await world.goes_on(3, first, good=1, bad=1)
    assert first.state[0] in {ControllerState.FROZEN, ControllerState.HEALTHY}
    world.now -= 4000
    await world.goes_on(3, first, good=1, bad=1)
    await world.goes_on(70, first, good=1, bad=1)
    assert first.state[0] is not ControllerState.FROZEN


@pytest.mark.instant_time
async def test_without_its_database_a_new_leader_leads_all_the_same():
    world = ReplicaGroup()
    world.kept.is_away = True
    one = world.replica("one")
    await world.goes_on(60, one, good=1, bad=1)
    assert one.state == DOWN


@pytest.mark.instant_time
async def test_a_state_published_by_another_version_is_judged_anew(caplog):
    world = ReplicaGroup()
    epoch = await world.counters.lead("another", 1.0)
    assert epoch
    await world.counters.publish(epoch, {"chat-ttft": b"{}", "gone": b"{}"})
    one = world.replica("one")
    await one.steering.sync_once()
    assert one.state == WELL
    assert "cannot be read" in caplog.text
    await world.goes_on(3, one)
    assert one.steering._leads


@pytest.mark.instant_time
async def test_more_objectives_than_can_be_read_at_once_are_read_in_parts():
    many = (objective(name=f"o{n}") for n in range(MAX_KEYS // 2))
    world = ReplicaGroup(*many)
    one = world.replica("one")
    assert len(one.steering._judge.arms) > MAX_KEYS
    await world.goes_on(60, one, good=1, bad=1)
    assert one.state == DOWN


@pytest.mark.instant_time
async def test_more_than_can_be_added_at_once_is_added_in_proportion():
    world = ReplicaGroup()
    one = world.replica("one")
    one.answers(3 * MAX_INCREMENT, MAX_INCREMENT)
    await world.goes_on(2, one)
    counts = one.steering._judge.counts(world.tracks["chat-ttft"], world.now, 60)
    assert counts.good == MAX_INCREMENT
    assert counts.share == pytest.approx(0.25)


@pytest.mark.instant_time
async def test_a_state_published_after_the_leaders_lease_is_ignored():
    world, first, _ = await two_replicas()
    epoch = await world.counters.lead("first", 5.0)
    assert epoch

    async def publish_in_between(who: str, seconds: float) -> int:
        await world.counters.publish(epoch + 1, {})
        return epoch

    first.counters.__dict__["lead"] = publish_in_between
    await first.steering.sync_once()
    assert not first.steering._leads
    assert (await world.counters.snapshots())[0] == epoch + 1


@pytest.mark.instant_time
async def test_a_replica_syncs_every_second():
    world = ReplicaGroup()
    one = world.replica("one")
    task = asyncio.get_running_loop().create_task(one.steering.run())
    await asyncio.sleep(2.5)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert one.steering._leads


async def test_replicas_share_their_controller_snapshots_through_redis(redis_prefix):
    together = open_counters(redis_prefix)
    try:
        seconds, _ = await together._redis.time()
        world = ReplicaGroup(counters=together)
        world.now = float(seconds)
        world.kept.pinned = {"chat-ttft": pin(1, world.now + 100)}
        first, second = world.replica("first"), world.replica("second")
        for replica in (first, second):
            replica.answers(1, 1)
            await replica.steering.sync_once()
        assert first.state == second.state == (ControllerState.PINNED, 1)
        assert (first.steering._leads, second.steering._leads) == (True, False)
        await first.steering.sync_once()
        arm = world.tracks["chat-ttft"]
        assert first.steering._judge.counts(arm, world.now, 60).n == 4
    finally:
        await together.aclose()


@pytest.mark.instant_time
async def test_objectives_that_change_go_on_from_where_they_stand_and_alerts_of_gone_ones_end():
    world, first, second = await two_replicas()
    await world.goes_on(60, first, second, good=3, bad=1)
    since = first.router.snapshots["chat-ttft"].since
    counted = first.steering._judge.counts(world.tracks["chat-ttft"], world.now, 300).n
    shorter = tracks(objective(under=0.4, ladder=("elsewhere",)))
    for replica in (first, second):
        replica.steering.update(shorter, two_model_catalog())
    await world.goes_on(3, first, second, good=3, bad=1)

    assert first.state == second.state == DOWN
    assert first.router.snapshots["chat-ttft"].since == since
    assert first.steering._judge.counts(shorter["chat-ttft"], world.now, 300).n > counted

    first.steering.update({}, two_model_catalog())
    assert first.router.snapshots == {}
    assert [alert.is_open for alert in first.said if alert.kind == "move"] == [True, False]


def missed_everywhere(replica: Replica) -> bool:
    """True if pages and metrics show the first objective as missed."""
    name = next(iter(replica.router.tracks))
    return shown_state(
        replica.router.snapshots.get(name), replica.router.missed.get(name)
    ).name == (MISSED)


@pytest.mark.instant_time
@pytest.mark.parametrize("enforce", [Enforce.OBSERVE, Enforce.ALERT])
async def test_a_missed_objective_without_a_ladder_is_missed_on_all_replicas(enforce):
    world = ReplicaGroup(objective(ladder=(), enforce=enforce))
    first, second = world.replica("first"), world.replica("second")
    await world.goes_on(60, first, second, good=2)
    assert not missed_everywhere(first)
    await world.goes_on(240, first, second, bad=2)
    assert missed_everywhere(first)
    assert missed_everywhere(second)
    assert first.state == second.state == WELL
    alerts = [alert.kind for alert in first.said if alert.is_open]
    assert alerts == ([] if enforce is Enforce.OBSERVE else ["burn"])

    await world.goes_on(20, second, bad=2)
    assert second.steering._leads
    assert missed_everywhere(second)
    await world.goes_on(1200, first, second, good=5)
    assert not missed_everywhere(first)
    assert not missed_everywhere(second)


@pytest.mark.instant_time
async def test_an_objective_is_missed_as_long_as_its_alert_is_open_also_after_a_restart():
    world = ReplicaGroup(objective(ladder=(), enforce=Enforce.ALERT))
    first = world.replica("first")
    await world.goes_on(180, first, bad=2)
    world.forget()
    restarted = world.replica("restarted")
    await world.goes_on(20, restarted)

    assert [alert.is_open for alert in world.kept.alerts.values()] == [True]
    assert missed_everywhere(restarted)


@pytest.mark.instant_time
async def test_a_missed_objective_is_missed_also_while_the_database_is_away():
    world = ReplicaGroup(objective(ladder=(), enforce=Enforce.ALERT))
    world.kept.is_away = True
    replica = world.replica("only")
    await world.goes_on(60, replica, bad=2)

    assert missed_everywhere(replica)
