import pytest
from msgspec.structs import replace

from slo.budgets.tally import GoodBadCounts
from slo.controller.evaluate import evaluate
from slo.controller.pins import apply_pin, freeze_state
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState, LevelCounts

NOW = 1_000_000.0
RULES = ControllerRules(target=0.95, fallback_levels=2)
HEALTHY = ControllerSnapshot(since=NOW - 1000)
DEGRADED = ControllerSnapshot(
    state=ControllerState.DEGRADED,
    level=1,
    since=NOW - 120,
    share=0.1,
    step_since=NOW - 5,
    until=NOW,
)
RECOVERING = ControllerSnapshot(
    state=ControllerState.RECOVERING, level=1, since=NOW - 60, share=0.1, step_since=NOW - 60
)


def calls(bad: int, n: int) -> GoodBadCounts:
    return GoodBadCounts(n - bad, bad)


NONE = GoodBadCounts()


def counts(
    minute: GoodBadCounts = NONE,
    two: GoodBadCounts | None = None,
    five: GoodBadCounts | None = None,
) -> LevelCounts:
    """So many in the last minute, in the last two, and in all five there are."""
    two = two or minute
    return LevelCounts((*6 * [minute], *6 * [two], *18 * [five or two]))


def steady(bad: int, n: int) -> LevelCounts:
    """So many in a minute, and as many in every other."""
    return counts(calls(bad, n), calls(2 * bad, 2 * n), calls(5 * bad, 5 * n))


#: Traffic of ten calls a second, so that canaries stay one in ten.
BUSY = steady(0, 570)


@pytest.mark.parametrize(("bad", "n"), [(6, 50), (9, 100), (62, 1000)])
def test_a_minute_that_is_surely_over_budget_degrades_where_five_are_over_it(bad, n):
    after = evaluate(HEALTHY, {0: steady(bad, n)}, RULES, NOW)

    assert (after.state, after.level, after.since) == (ControllerState.DEGRADED, 1, NOW)
    assert (after.share, after.step_since) == (0.04, NOW)
    assert (after.until, after.relapses) == (NOW + 120, 0)
    assert after.reason.startswith(f"Of {n} calls on fallback level 0 in 60 s {bad} were bad (")
    assert after.reason.endswith(" %); 5 % may be.")


@pytest.mark.parametrize(
    "primary",
    [
        pytest.param(steady(5, 50), id="it may be chance"),
        pytest.param(steady(13, 49), id="few calls are not grossly over it"),
        pytest.param(counts(calls(19, 19)), id="the calls are too few"),
        pytest.param(counts(calls(20, 100), five=calls(20, 500)), id="five minutes were good"),
        pytest.param(counts(calls(20, 100), five=calls(25, 500)), id="five minutes just were"),
        pytest.param(LevelCounts((NONE, calls(20, 30))), id="there are none in this minute"),
        pytest.param(LevelCounts(), id="there are none"),
    ],
)
def test_a_healthy_objective_stays_healthy_without_enough_evidence(primary):
    assert evaluate(HEALTHY, {0: primary}, RULES, NOW) is HEALTHY


@pytest.mark.parametrize(("bad", "n"), [(8, 20), (16, 49)])
def test_few_calls_degrade_where_they_are_grossly_over_budget(bad, n):
    after = evaluate(HEALTHY, {0: counts(calls(bad, n))}, RULES, NOW)

    assert (after.state, after.level) == (ControllerState.DEGRADED, 1)
    assert after.reason.startswith(f"Of {n} calls on fallback level 0 in 60 s {bad} were bad (")


@pytest.mark.parametrize(("target", "bad"), [(0.95, 8), (0.7, 15), (0.999, 2), (0.23, 20)])
def test_of_twenty_calls_so_many_are_grossly_over_budget(target, bad):
    rules = ControllerRules(target=target, fallback_levels=1)

    after = evaluate(HEALTHY, {0: counts(calls(bad, 20))}, rules, NOW)
    assert after.state is ControllerState.DEGRADED
    assert evaluate(HEALTHY, {0: counts(calls(bad - 1, 20))}, rules, NOW) is HEALTHY


def test_where_few_good_calls_are_promised_anyway_no_twenty_are_too_bad_but_fifty_can_be():
    rules = ControllerRules(target=0.2, fallback_levels=1)

    assert evaluate(HEALTHY, {0: counts(calls(20, 20))}, rules, NOW) is HEALTHY
    after = evaluate(HEALTHY, {0: counts(calls(50, 50))}, rules, NOW)
    assert after.state is ControllerState.DEGRADED


def test_few_calls_may_be_of_ten_minutes_if_the_last_of_them_are_bad_too():
    slow = (calls(0, 2), *30 * [calls(2, 9)], *10 * [calls(5, 15)], *19 * [calls(12, 25)])

    after = evaluate(HEALTHY, {0: LevelCounts(slow)}, RULES, NOW)
    assert (
        after.reason == "Of 25 calls on fallback level 0 in 420 s 12 were bad (48 %); 5 % may be."
    )

    over = (calls(0, 2), *30 * [calls(0, 10)], *29 * [calls(20, 30)])
    assert evaluate(HEALTHY, {0: LevelCounts(over)}, RULES, NOW) is HEALTHY


def test_without_counts_or_without_fallback_levels_nothing_degrades():
    assert evaluate(HEALTHY, {}, RULES, NOW) is HEALTHY
    none = ControllerRules(target=0.95, fallback_levels=0)
    assert evaluate(HEALTHY, {0: steady(90, 100)}, none, NOW) is HEALTHY


def test_degrading_again_is_a_relapse_until_an_hour_of_health_has_passed():
    recovered = replace(HEALTHY, until=NOW + 1, relapses=1)

    relapsed = evaluate(recovered, {0: steady(90, 100)}, RULES, NOW)
    assert (relapsed.relapses, relapsed.until) == (2, NOW + 480)

    forgotten = evaluate(recovered, {0: steady(0, 100)}, RULES, NOW + 1)
    assert (forgotten.state, forgotten.relapses) == (ControllerState.HEALTHY, 0)
    assert forgotten.until is None
    again = evaluate(forgotten, {0: steady(90, 100)}, RULES, NOW + 3)
    assert (again.relapses, again.until) == (0, NOW + 123)


def test_canaries_within_budget_begin_a_recovery_when_the_dwell_is_over():
    arms = {0: counts(calls(1, 20), calls(2, 40)), 1: BUSY}
    before_that = replace(DEGRADED, until=NOW + 0.1)

    assert evaluate(before_that, arms, RULES, NOW) is before_that
    after = evaluate(DEGRADED, arms, RULES, NOW)
    assert (after.state, after.level, after.since) == (ControllerState.RECOVERING, 1, NOW)
    assert (after.share, after.step_since, after.until) == (0.1, NOW - 5, None)
    assert after.reason == "Of 40 calls on fallback level 0 in 120 s 2 were bad (5 %); 5 % may be."


@pytest.mark.parametrize(
    "primary",
    [
        pytest.param(counts(NONE, calls(3, 40), calls(3, 80)), id="they are over budget"),
        pytest.param(counts(NONE, calls(0, 39), calls(0, 39)), id="they are few"),
        pytest.param(counts(NONE, calls(0, 39), calls(4, 60)), id="so many were not lately"),
        pytest.param(
            counts(calls(8, 20), calls(8, 200)), id="the last of them are surely over budget"
        ),
    ],
)
def test_a_degraded_objective_stays_so_while_canaries_miss_it(primary):
    after = evaluate(DEGRADED, {0: primary, 1: BUSY}, RULES, NOW)

    assert (after.state, after.level, after.since) == (ControllerState.DEGRADED, 1, DEGRADED.since)


def test_where_canaries_are_rare_those_of_longer_count():
    arms = {0: counts(NONE, calls(0, 20), calls(2, 50)), 1: BUSY}

    after = evaluate(DEGRADED, arms, RULES, NOW)

    assert after.state is ControllerState.RECOVERING
    assert after.reason == "Of 50 calls on fallback level 0 in 130 s 2 were bad (4 %); 5 % may be."


def test_where_all_calls_are_canaries_and_still_few_twenty_of_ten_minutes_are_enough():
    whole = replace(DEGRADED, share=1.0, relapses=5)
    twenty = LevelCounts(tuple(calls(slot // 59, 1 + slot * 19 // 59) for slot in range(60)))
    assert twenty.within(600) == calls(1, 20)

    after = evaluate(whole, {0: twenty}, RULES, NOW)

    assert after.state is ControllerState.RECOVERING
    assert after.reason == "Of 20 calls on fallback level 0 in 600 s 1 were bad (5 %); 5 % may be."
    for still in (
        evaluate(replace(whole, share=0.48), {0: twenty}, RULES, NOW),
        evaluate(whole, {0: LevelCounts(twenty.trailing[:-1])}, RULES, NOW),
        evaluate(whole, {0: LevelCounts((*twenty.trailing[:-1], calls(2, 21)))}, RULES, NOW),
    ):
        assert still.state is ControllerState.DEGRADED


def test_the_last_canaries_stop_no_recovery_while_they_are_few():
    arms = {0: counts(calls(5, 19), calls(5, 100)), 1: BUSY}

    assert evaluate(DEGRADED, arms, RULES, NOW).state is ControllerState.RECOVERING


def test_a_level_that_is_bad_itself_is_left_for_the_next_and_the_dwell_begins_anew():
    arms = {0: steady(20, 30), 1: steady(90, 570)}

    after = evaluate(replace(DEGRADED, relapses=1), arms, RULES, NOW)

    assert (after.state, after.level, after.since) == (ControllerState.DEGRADED, 2, NOW)
    assert (after.until, after.relapses) == (NOW + 240, 1)
    assert after.reason.startswith("Of 570 calls on fallback level 1 in 60 s 90 were bad (15.8 %)")
    last = replace(DEGRADED, level=2, share=0.04)
    assert evaluate(last, {0: steady(20, 30), 2: steady(90, 570)}, RULES, NOW) is last


ENTERED = replace(DEGRADED, since=NOW - 10, until=NOW + 110)


@pytest.mark.parametrize(("bad", "n"), [(5, 10), (10, 10), (40, 120)])
def test_a_level_that_is_grossly_bad_is_passed_over_within_its_dwell(bad, n):
    after = evaluate(ENTERED, {1: counts(calls(bad, n))}, RULES, NOW)

    assert (after.state, after.level, after.until) == (ControllerState.DEGRADED, 2, NOW + 120)
    assert after.reason.startswith(f"Of {n} calls on fallback level 1 in 60 s {bad} were bad (")


@pytest.mark.parametrize(
    ("snapshot", "own"),
    [
        pytest.param(ENTERED, calls(9, 9), id="there were nine calls"),
        pytest.param(ENTERED, calls(4, 10), id="ten calls are not grossly over budget"),
        pytest.param(ENTERED, calls(30, 120), id="many are over it, but not grossly"),
        pytest.param(replace(ENTERED, since=NOW - 9), calls(60, 60), id="it had nine seconds"),
        pytest.param(replace(ENTERED, level=2), calls(60, 60), id="it is the last"),
    ],
)
def test_a_level_is_not_passed_over_within_its_dwell_while(snapshot, own):
    arms = {snapshot.level: counts(own)}

    assert evaluate(snapshot, arms, RULES, NOW).level == snapshot.level


def test_a_level_that_is_known_to_be_bad_is_not_tried_unless_it_is_the_last():
    rules = ControllerRules(target=0.95, fallback_levels=3)
    bad, old = counts(calls(30, 60)), LevelCounts((*31 * [NONE], *29 * [calls(60, 60)]))

    assert evaluate(HEALTHY, {0: bad, 1: bad}, rules, NOW).level == 2
    assert evaluate(HEALTHY, {0: bad, 1: bad, 2: bad, 3: bad}, rules, NOW).level == 3
    assert evaluate(HEALTHY, {0: bad, 1: old}, rules, NOW).level == 1
    assert evaluate(ENTERED, {1: bad, 2: bad}, rules, NOW).level == 3


def test_good_canaries_matter_more_than_a_bad_level():
    arms = {0: steady(0, 30), 1: steady(90, 570)}

    assert evaluate(DEGRADED, arms, RULES, NOW).state is ControllerState.RECOVERING


def test_a_share_that_canaries_had_for_long_counts_as_a_step_of_the_recovery():
    arms = {0: counts(calls(1, 20), calls(2, 40)), 1: BUSY}

    after = evaluate(replace(DEGRADED, step_since=NOW - 58), arms, RULES, NOW)
    assert (after.share, after.step_since) == (0.1, NOW - 58)
    assert evaluate(after, arms, RULES, NOW + 2).share == 0.22

    other = evaluate(replace(DEGRADED, share=0.04, step_since=NOW - 58), arms, RULES, NOW)
    assert (other.share, other.step_since) == (0.1, NOW)


def test_after_two_relapses_evidence_and_steps_take_twice_as_long():
    twice = replace(DEGRADED, relapses=2)
    bad_before = (*12 * [calls(0, 80)], *12 * [calls(40, 120)])
    good_before = (*12 * [calls(0, 80)], *12 * [calls(4, 120)])

    assert (
        evaluate(twice, {0: LevelCounts(bad_before), 1: BUSY}, RULES, NOW).state
        is ControllerState.DEGRADED
    )
    assert evaluate(DEGRADED, {0: LevelCounts(bad_before), 1: BUSY}, RULES, NOW).relapses == 0
    after = evaluate(twice, {0: LevelCounts(good_before), 1: BUSY}, RULES, NOW)
    assert after.state is ControllerState.RECOVERING
    assert (
        after.reason == "Of 120 calls on fallback level 0 in 240 s 4 were bad (3.33 %); 5 % may be."
    )

    stepping = replace(RECOVERING, relapses=2, step_since=NOW - 119)
    good = {0: steady(0, 100), 1: BUSY}
    assert evaluate(stepping, good, RULES, NOW) is stepping
    assert evaluate(stepping, good, RULES, NOW + 1).share == 0.22


def test_with_little_traffic_more_conversations_try_level_0_unless_the_last_were_bad():
    fine = {0: counts(calls(0, 3), five=calls(1, 12)), 1: steady(0, 27)}
    bad = {0: counts(calls(1, 3), five=calls(2, 12)), 1: steady(0, 27)}

    after = evaluate(DEGRADED, fine, RULES, NOW)
    assert after == replace(DEGRADED, share=1.0, step_since=NOW)
    assert evaluate(DEGRADED, bad, RULES, NOW) == replace(DEGRADED, share=0.125, step_since=NOW)


def test_a_recovery_goes_from_step_to_step_and_ends_after_a_minute_of_all():
    snapshot, arms = RECOVERING, {0: steady(1, 100), 1: BUSY}
    shares = []
    for minute in range(4):
        assert evaluate(snapshot, arms, RULES, NOW + 60 * minute - 1) is snapshot
        snapshot = evaluate(snapshot, arms, RULES, NOW + 60 * minute)
        shares.append((snapshot.state, snapshot.share))

    assert shares == [
        (ControllerState.RECOVERING, 0.22),
        (ControllerState.RECOVERING, 0.48),
        (ControllerState.RECOVERING, 1.0),
        (ControllerState.HEALTHY, 1.0),
    ]
    assert (snapshot.level, snapshot.since, snapshot.until) == (0, NOW + 180, NOW + 180 + 3600)
    assert (
        snapshot.reason == "Of 100 calls on fallback level 0 in 60 s 1 were bad (1 %); 5 % may be."
    )


def test_a_recovery_that_is_surely_over_budget_is_a_relapse_at_once():
    snapshot = replace(RECOVERING, step_since=NOW - 1, level=2)

    for surely in (steady(6, 50), steady(8, 20)):
        after = evaluate(snapshot, {0: surely, 2: BUSY}, RULES, NOW)
        assert (after.state, after.level, after.relapses) == (ControllerState.DEGRADED, 2, 1)
        assert (after.share, after.until) == (0.04, NOW + 240)
    for perhaps in (steady(5, 50), steady(7, 20)):
        assert evaluate(snapshot, {0: perhaps, 2: BUSY}, RULES, NOW) is snapshot


def test_a_recovery_takes_no_step_on_few_calls_and_looks_further_back_for_more():
    few = calls(0, 19)
    assert evaluate(RECOVERING, {0: counts(few), 1: BUSY}, RULES, NOW) is RECOVERING

    for further in (counts(few, calls(0, 20)), counts(few, few, calls(0, 20))):
        assert evaluate(RECOVERING, {0: further, 1: BUSY}, RULES, NOW).share == 0.22


def test_a_recovery_with_too_little_traffic_to_go_on_lets_more_of_it_try():
    arms = {0: steady(0, 1), 1: steady(0, 29)}

    assert evaluate(RECOVERING, arms, RULES, NOW) == replace(RECOVERING, share=1.0, step_since=NOW)


def test_a_recovery_with_too_little_traffic_takes_no_step_while_the_last_calls_were_bad():
    for last in (calls(12, 12), calls(10, 19), calls(1, 1)):
        arms = {0: LevelCounts((NONE, *59 * [last])), 1: steady(0, 48)}

        assert evaluate(RECOVERING, arms, RULES, NOW) is RECOVERING


def test_a_frozen_objective_stays_frozen_whatever_is_counted():
    for snapshot in (HEALTHY, DEGRADED, RECOVERING):
        ice = freeze_state(snapshot, NOW, "the store is lost")
        assert evaluate(ice, {0: steady(90, 100)}, RULES, NOW + 10_000) is ice


def test_a_pin_stays_until_its_end_whatever_is_counted():
    pin = apply_pin(HEALTHY, 1, NOW + 600, NOW, "a test")

    assert evaluate(pin, {0: steady(90, 100), 1: steady(90, 100)}, RULES, NOW + 599) is pin
    after = evaluate(pin, {}, RULES, NOW + 600)
    assert (after.state, after.level) == (ControllerState.HEALTHY, 0)  # as before the pin


def test_an_objective_degraded_before_its_pin_is_degraded_again_and_recovers_by_evidence():
    pin = apply_pin(DEGRADED, 2, NOW + 600, NOW, "a test")
    good = {0: steady(0, 40), 1: BUSY}

    after = evaluate(pin, {}, RULES, NOW + 600)
    assert (after.state, after.level, after.share) == (ControllerState.DEGRADED, 1, DEGRADED.share)
    assert evaluate(after, good, RULES, NOW + 601).state is ControllerState.RECOVERING


@pytest.mark.parametrize("leap", [1.0, 3600.0])
def test_after_the_clock_went_back_nothing_waits_longer_than_it_would_have(leap):
    then = NOW - leap
    degraded = replace(DEGRADED, since=NOW, until=NOW + 120)
    good = {0: steady(0, 40), 1: BUSY}

    waiting = evaluate(degraded, good, RULES, then)
    assert waiting.state is ControllerState.DEGRADED
    assert (waiting.since, waiting.until) == (then, then + 120)
    assert evaluate(waiting, good, RULES, then + 120).state is ControllerState.RECOVERING

    stepping = evaluate(replace(RECOVERING, since=NOW, step_since=NOW), good, RULES, then)
    assert evaluate(stepping, good, RULES, then + 60).share == 0.22

    recovered = evaluate(replace(HEALTHY, since=NOW, until=NOW + 3600), good, RULES, then)
    assert recovered.until == then + 3600


def test_moves_happen_also_at_the_look_that_finds_the_clock_gone_back():
    after = evaluate(replace(HEALTHY, since=NOW + 50), {0: steady(90, 100)}, RULES, NOW)

    assert (after.state, after.since, after.until) == (ControllerState.DEGRADED, NOW, NOW + 120)
