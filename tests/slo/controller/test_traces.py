"""Whole stories and every move in them: calls second by second, judged every two seconds."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import json

from slo.budgets.tally import Tally
from slo.controller.evaluate import evaluate
from slo.controller.pins import freeze_state, thaw_state
from slo.controller.state import ControllerRules, ControllerSnapshot, ControllerState, level_counts
from tests.examples import examples
from tests.slo.controller.steady_traffic import AWFUL, EPOCH, FINE, RULES, Bad, SteadyTraffic


def primary(bad: Callable[[int], float]) -> Bad:
    """Only level 0 is bad, and that at times."""
    return lambda level, second: FINE if level else bad(second)


def during(begin: int, end: int, bad: float = AWFUL) -> Callable[[int], float]:
    return lambda second: bad if begin <= second < end else FINE


def ten_per_second(second: int) -> float:
    return 10.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bad", "rate", "seconds", "moves"),
    [
        pytest.param(
            primary(during(600, 10**9)),
            ten_per_second,
            3600,
            ["620: healthy 0 > degraded 1"],
            id="a step degrades once",
        ),
        pytest.param(
            primary(during(600, 1200)),
            ten_per_second,
            3600,
            [
                "620: healthy 0 > degraded 1",
                "1300: degraded 1 > recovering 1",
                "1482: recovering 1 > healthy 0",
            ],
            id="an incident is over within six minutes of its end",
        ),
        pytest.param(
            primary(lambda second: min(max(second - 600, 0) / 6000, AWFUL)),
            ten_per_second,
            1800,
            ["1050: healthy 0 > degraded 1"],
            id="a ramp degrades when five minutes are over budget",
        ),
        pytest.param(
            primary(during(600, 610, 1.0)),
            ten_per_second,
            1800,
            [],
            id="a spike of ten seconds is nothing",
        ),
        pytest.param(
            primary(during(600, 620, 1.0)),
            ten_per_second,
            1800,
            [
                "612: healthy 0 > degraded 1",
                "732: degraded 1 > recovering 1",
                "914: recovering 1 > healthy 0",
            ],
            id="a spike of twenty is over after the least dwell",
        ),
        pytest.param(
            primary(lambda second: 0.06 if second // 30 % 2 else 0.04),
            ten_per_second,
            7200,
            [],
            id="a swing about the budget is nothing",
        ),
        pytest.param(
            primary(lambda second: AWFUL if second // 400 % 2 else FINE),
            ten_per_second,
            7200,
            [
                "420: healthy 0 > degraded 1",
                "900: degraded 1 > recovering 1",
                "1082: recovering 1 > healthy 0",
                "1216: healthy 0 > degraded 1",
                "1700: degraded 1 > recovering 1",
                "1882: recovering 1 > healthy 0",
                "2016: healthy 0 > degraded 1",
                "2600: degraded 1 > recovering 1",
                "2806: recovering 1 > degraded 1",
            ],
            id="an upstream that comes and goes is followed three times",
        ),
        pytest.param(
            primary(during(600, 10**9)),
            lambda second: 0.5,
            3600,
            ["630: healthy 0 > degraded 1"],
            id="with a call in two seconds what is grossly bad degrades",
        ),
        pytest.param(
            primary(during(600, 10**9)),
            lambda second: 1 / 6,
            1200,
            ["672: healthy 0 > degraded 1"],
            id="with ten a minute it does, too",
        ),
        pytest.param(
            primary(during(600, 10**9, 0.15)),
            lambda second: 0.5,
            3600,
            [],
            id="with few calls what is not grossly bad is left alone",
        ),
        pytest.param(
            primary(during(600, 10**9)),
            lambda second: 1 / 32,
            3600,
            [],
            id="with less than two a minute nothing degrades",
        ),
        pytest.param(
            primary(during(600, 1200)),
            lambda second: 10.0 if second < 900 else 0.4,
            3600,
            [
                "620: healthy 0 > degraded 1",
                "1530: degraded 1 > recovering 1",
                "1544: recovering 1 > healthy 0",
            ],
            id="what degraded recovers also where traffic has become low",
        ),
        pytest.param(
            primary(during(1200, 2400)),
            lambda second: 1 / 30,
            7200,
            [
                "1590: healthy 0 > degraded 1",
                "3486: degraded 1 > recovering 1",
                "3488: recovering 1 > healthy 0",
            ],
            id="what degraded with two calls a minute recovers, too",
        ),
        pytest.param(
            lambda level, second: AWFUL if level < 2 and 600 <= second < 1200 else FINE,
            ten_per_second,
            3600,
            [
                "620: healthy 0 > degraded 1",
                "630: degraded 1 > degraded 2",
                "1300: degraded 2 > recovering 2",
                "1482: recovering 2 > healthy 0",
            ],
            id="a level as bad is passed over after ten seconds",
        ),
        pytest.param(
            lambda level, second: AWFUL if second >= 600 else FINE,
            ten_per_second,
            3600,
            ["620: healthy 0 > degraded 1", "630: degraded 1 > degraded 2"],
            id="above the last level there is none",
        ),
    ],
)
def test_a_story_has_these_moves_and_no_others(bad, rate, seconds, moves):
    assert SteadyTraffic(bad, rate).run(seconds).moves == moves


@pytest.mark.slow
@pytest.mark.parametrize("gap", [10, 20, 30])
def test_while_all_canaries_are_bad_one_in_eight_tries_at_most_however_few_calls_there_are(gap):
    story = SteadyTraffic(primary(lambda second: float(second >= 600)), lambda second: 1 / gap).run(
        1800
    )
    degraded = story.second - int(story.moves[0].partition(":")[0])

    spoiled, shares = story.bad_in_all[0], set()
    for _ in range(180):
        story.run(60)
        shares.add(story.snapshot.share)

    assert len(story.moves) == 1
    assert degraded > 600
    assert shares == {0.125}
    assert story.bad_in_all[0] - spoiled <= 180 * 60 / gap / 8 + 1


@pytest.mark.parametrize("rate", [1, 2, 4, 6])
def test_a_level_whose_calls_are_all_slow_is_passed_over_within_15_seconds(rate):
    story = SteadyTraffic(
        lambda level, second: float(level < 2 and second >= 600), lambda second: rate
    )

    down, on = (int(move.partition(":")[0]) for move in story.run(3600).moves)

    assert story.snapshot.level == 2
    assert on - down <= 15


def test_a_level_that_turns_bad_within_the_dwell_is_passed_over_before_its_end():
    story = SteadyTraffic(
        lambda level, second: float(second >= (600, 640, 10**9)[level]), lambda second: 2
    )

    assert story.run(3600).moves == ["614: healthy 0 > degraded 1", "652: degraded 1 > degraded 2"]


@pytest.mark.parametrize("rate", [1, 2, 6])
def test_a_spike_of_five_seconds_on_a_level_that_was_good_does_not_pass_it_over(rate):
    story = SteadyTraffic(
        lambda level, second: float(640 <= second < 645 if level else second >= 600),
        lambda second: rate,
    )

    assert story.run(1800).moves == ["614: healthy 0 > degraded 1"]


def test_conversations_that_stay_on_a_level_show_that_it_need_not_be_tried():
    """The first incident leaves calls on level 1, which is as slow in the second."""
    tally = Tally()
    for second in range(120):
        tally.add("0", 0, 2, EPOCH + second)
        tally.add("1", 0, 1, EPOCH + second)
    arms = {level: level_counts(tally, str(level), EPOCH + 119) for level in range(3)}

    after = evaluate(ControllerSnapshot(since=EPOCH - 1000), arms, RULES, EPOCH + 119)

    assert (after.state, after.level) == (ControllerState.DEGRADED, 2)


@pytest.mark.slow
@given(
    st.lists(st.booleans(), min_size=2, max_size=5),
    st.sampled_from([1, 2, 3, 6]),
    st.sampled_from([0.0, 0.01]),
)
@examples(20, deadline=None)
def test_the_first_good_level_is_reached_in_15_seconds_a_level_and_kept(is_bad, rate, luck):
    """Level 0 is bad; of those below it any may be, all the time."""
    bad = (True, *is_bad)
    rules = ControllerRules(target=0.95, fallback_levels=len(is_bad))
    story = SteadyTraffic(
        lambda level, second: float(bad[level]) if second >= 600 and bad[level] else luck,
        lambda second: rate,
        rules,
    )
    first_good = next(
        (level for level, level_is_bad in enumerate(bad) if not level_is_bad), rules.fallback_levels
    )

    story.run(1800)

    levels = [int(move.rpartition(" ")[2]) for move in story.moves]
    times = [int(move.partition(":")[0]) for move in story.moves]
    assert levels == list(range(1, first_good + 1))
    assert all(later - earlier <= 15 for earlier, later in pairwise(times))


def test_an_upstream_that_is_bad_again_while_it_recovers_is_left_alone_for_longer():
    story = SteadyTraffic(
        primary(lambda second: AWFUL if 600 <= second < 700 or second >= 900 else FINE)
    )

    story.run(1500)

    assert story.moves == [
        "620: healthy 0 > degraded 1",
        "800: degraded 1 > recovering 1",
        "906: recovering 1 > degraded 1",
    ]
    assert story.snapshot.until == EPOCH + 906 + 240


def test_a_clock_that_jumps_forward_is_a_freeze_for_as_long_as_counts_are_few():
    story = SteadyTraffic(primary(during(600, 1200))).run(700)

    story.stand(freeze_state(story.snapshot, story.now, "the clock jumped"))
    story.jump = 3600.0
    story.run(60).stand(thaw_state(story.snapshot, story.now))
    story.run(1500)

    assert story.moves == [
        "620: healthy 0 > degraded 1",
        "700: degraded 1 > frozen 1",
        "760: frozen 1 > degraded 1",
        "1300: degraded 1 > recovering 1",
        "1482: recovering 1 > healthy 0",
    ]


@pytest.mark.parametrize("jump", [-3600.0, -30.0, 3600.0])
def test_an_unnoticed_clock_jump_changes_no_move_by_more_than_a_window(jump):
    story = SteadyTraffic(primary(during(600, 1200))).run(700)

    story.jump = jump
    story.run(2000)

    assert [move.partition(": ")[2] for move in story.moves] == [
        "healthy 0 > degraded 1",
        "degraded 1 > recovering 1",
        "recovering 1 > healthy 0",
    ]
    assert int(story.moves[-1].partition(":")[0]) == pytest.approx(1482, abs=10)


def test_an_objective_is_frozen_while_the_store_is_away_and_goes_on_after():
    story = SteadyTraffic(primary(during(600, 1200))).run(1350)
    at_first_step = story.snapshot.share

    story.stand(freeze_state(story.snapshot, story.now, "the store is lost"))
    story.run(1000, counting=False)
    assert story.snapshot.share == at_first_step
    story.stand(thaw_state(story.snapshot, story.now))
    story.run(300)

    assert story.moves == [
        "620: healthy 0 > degraded 1",
        "1300: degraded 1 > recovering 1",
        "1350: recovering 1 > frozen 1",
        "2350: frozen 1 > recovering 1",
        "2530: recovering 1 > healthy 0",
    ]


def test_process_that_goes_on_from_a_stored_state_moves_as_the_first():
    one, other = (
        SteadyTraffic(primary(during(600, 1200))),
        SteadyTraffic(primary(during(600, 1200))),
    )

    for _ in range(900):
        one.run(2)
        other.run(2)
        other.snapshot = json.decode(json.encode(other.snapshot), type=ControllerSnapshot)

    assert one.moves == other.moves
    assert one.snapshot == other.snapshot
