"""The loss by cache marks stays within the promise: random features, models and restarts."""

import pytest

from proxy.store.store import Store
from tests.fakes.stake_attack import DAY_S, Attack, FeatureLosses

STAKE = 0.01
TEAM_DAY = 1.0


def loss_limit(losses: FeatureLosses) -> float:
    """Dollars that a feature may lose: its stake or a surcharge, and that of one read."""
    return max(STAKE, losses.surcharge) + losses.surcharge


@pytest.mark.parametrize("seed", range(4))
def test_features_and_their_team_lose_no_more_than_promised(store: Store, seed: int):
    attack = Attack(seed=seed, features=8, calls=500)
    attack.run(store)

    for losses in attack.losses.values():
        assert losses.dearest <= loss_limit(losses)
    assert max(attack.team_days.values()) <= TEAM_DAY
    assert attack.marked > 50


@pytest.mark.parametrize("seed", range(4))
def test_two_processes_that_restart_and_crash_lose_no_more_than_each_may(store: Store, seed: int):
    attack = Attack(seed=seed, features=8, calls=500, processes=2, restarts=6)
    attack.run(store)

    for losses in attack.losses.values():
        assert losses.dearest <= 2 * loss_limit(losses)
    assert max(attack.team_days.values()) <= TEAM_DAY


def test_marks_for_an_hour_lose_no_more_than_promised(store: Store):
    attack = Attack(seed=7, features=8, calls=800, pauses=(900.0, 1_500.0))
    attack.run(store)

    for losses in attack.losses.values():
        assert losses.dearest <= loss_limit(losses)
    assert max(attack.team_days.values()) <= TEAM_DAY
    assert attack.hours > 10


@pytest.mark.parametrize("span", [20.0, 900.0, DAY_S])
@pytest.mark.parametrize("processes", [1, 2])
def test_hundreds_of_features_that_read_nothing_lose_the_teams_dollar_at_most(
    store: Store, span: float, processes: int
):
    attack = Attack(
        seed=processes,
        features=150,
        calls=450,
        processes=processes,
        restarts=3 * (processes - 1),
        never_read=1.0,
        factor=3.0,
        span=span,
    )
    attack.run(store)

    assert sum(losses.extra for losses in attack.losses.values()) > 0.3
    assert max(attack.team_days.values()) <= TEAM_DAY
