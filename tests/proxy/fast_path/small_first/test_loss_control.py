"""Calls go small only as far as the promise is proved; a part of them is judged."""

from random import Random

import msgspec
import pytest

from proxy.fast_path.small_first.call_traits import read_traits
from proxy.fast_path.small_first.judge_channel import JudgeError, Verdict
from proxy.fast_path.small_first.loss_control import LossControl, LossPromise, new_control

TRAITS = read_traits("hello", has_schema=False, tools=0, turns=1)


class ControlledRun:
    """A run of calls through the rule, and its losses."""

    def __init__(self, loss_of, calls, promise=None, error=0.0, seed=1):
        self.control = new_control(promise or LossPromise(error=JudgeError(0.0, 0.0)))
        self.rng = Random(seed)  # noqa: S311 - seeded
        self.lost = self.small = self.judged = 0
        self.is_broken = False
        for number in range(calls):
            feature, loss = loss_of(number, self.rng)
            self.call(number, feature, loss, error)

    def call(self, number, feature, loss, error):
        draws = self.rng.random(), self.rng.random()
        decision = self.control.decide(str(number), feature, TRAITS, draws)
        self.small += decision.is_small
        self.judged += decision.is_judged
        self.lost += loss * decision.is_small
        if decision.is_judged:
            verdict = Verdict(loss)
            if self.rng.random() < error:
                verdict = self.rng.choice([other for other in Verdict if other != loss])
            self.control.record_verdict(str(number), verdict)
        self.is_broken |= self.lost > self.control.lost() + 1e-9


def equal(number, rng):
    return "chat", 0


def test_nothing_goes_small_before_enough_is_graded():
    assert ControlledRun(equal, 200).small == 0


def test_most_calls_go_small_where_the_small_model_is_as_good():
    run = ControlledRun(equal, 8_000)

    assert run.small > 0.4 * 8_000
    assert run.judged <= 0.1 * 8_000
    assert run.control.proved_loss() <= 0.01


def test_nothing_to_speak_of_goes_small_where_the_small_model_always_loses():
    run = ControlledRun(lambda number, rng: ("chat", 1), 2_000)

    assert run.lost <= 0.01 * 2_000
    assert run.small <= 0.01 * 2_000


def test_good_features_go_small_and_bad_ones_do_not():
    small = {"good": 0, "bad": 0}
    control = new_control(LossPromise(error=JudgeError(0.0, 0.0)))
    rng = Random(3)  # noqa: S311 - seeded
    for number in range(4_000):
        feature = "good" if number % 2 else "bad"
        loss = int(feature == "bad" and rng.random() < 0.3)
        decision = control.decide(str(number), feature, TRAITS, (rng.random(), rng.random()))
        small[feature] += decision.is_small
        if decision.is_judged:
            control.record_verdict(str(number), Verdict(loss))

    assert small["good"] > 400
    assert small["bad"] < 0.1 * small["good"]


def test_bound_stops_the_small_model_after_it_becomes_bad():
    def drifting_losses(number, rng):
        return "chat", int(number >= 3_000 and rng.random() < 0.5)

    run = ControlledRun(drifting_losses, 6_000)

    assert run.small > 300
    assert run.lost <= 0.01 * 6_000


@pytest.mark.slow
def test_loss_stays_below_the_bound_with_a_judge_wrong_in_a_tenth():
    def losses(number, rng):
        draw = rng.random()
        return f"feature {number % 5}", (draw < 0.08) - (draw > 0.98)

    promise = LossPromise()
    runs = [ControlledRun(losses, 1_500, promise, error=0.1, seed=seed) for seed in range(20)]

    assert sum(run.is_broken for run in runs) <= 1
    assert all(run.lost <= run.control.allowance for run in runs)


def test_verdict_that_never_comes_counts_as_worse():
    control = new_control(LossPromise(error=JudgeError(0.0, 0.0)))
    rng = Random(4)  # noqa: S311 - seeded
    for number in range(4_000):
        call = str(number)
        decision = control.decide(call, "chat", TRAITS, (rng.random(), rng.random()))
        if decision.is_judged and not (decision.is_small and number > 2_000):
            control.record_verdict(call, Verdict.EQUAL)

    assert control.lost() <= control.allowance + 1
    assert control.awaited >= 5
    assert control.small < 1_500


def test_judging_is_paid_for_by_what_the_small_model_saves():
    run = ControlledRun(lambda number, rng: ("chat", int(rng.random() < 0.5)), 7_000)

    assert run.judged <= 500 + run.small / 2


def test_verdict_of_an_unknown_call_changes_nothing():
    control = new_control(LossPromise())

    assert not control.record_verdict("other", Verdict.WORSE)
    assert control.verdicts == 0


def test_state_survives_being_written_and_read():
    run = ControlledRun(equal, 1_000)
    control = run.control

    copy = msgspec.json.decode(msgspec.json.encode(control), type=LossControl)

    assert copy.lost() == control.lost()
    assert copy.plan == control.plan
    assert copy.decide("x", "chat", TRAITS, (0.5, 0.5)) == control.decide(
        "x", "chat", TRAITS, (0.5, 0.5)
    )


def cascade(calls, loss_share, *, error=0.0, seed=1, max_loss=0.01):
    """A cascade's control after so many calls, of whose small answers a share is worse."""
    judge = JudgeError(error, error)
    control = new_control(LossPromise(max_loss=max_loss, error=judge))
    rng = Random(seed)  # noqa: S311 - seeded
    lost = 0
    for number in range(calls):
        loss = int(rng.random() < loss_share)
        decision = control.decide_checked(str(number), "chat", TRAITS, rng.random())
        lost += loss * decision.is_small
        if decision.is_judged:
            control.record_verdict(str(number), Verdict(loss))
    return control, lost


def test_a_cascade_sends_each_call_small_and_proves_how_few_answers_are_lost():
    control, lost = cascade(20_000, 0.0)

    assert control.small == control.calls == 20_000
    assert lost == 0
    assert control.proved_loss() < 0.01
    assert not control.loses_too_much()


def test_a_cascade_stops_by_itself_where_its_answers_lose_too_much():
    control, _ = cascade(5_000, 0.2)

    assert control.loses_too_much()
    assert control.small < 2_000


def test_a_cascade_that_stopped_stays_with_the_large_model_whatever_calls_follow_or_went_before():
    control, _ = cascade(5_000, 0.2)
    small = control.small
    for number in range(60_000):
        assert not control.decide_checked(f"later {number}", "chat", TRAITS, 0.9).is_small
    assert control.small == small

    control = new_control(LossPromise(error=JudgeError(0.0, 0.0)))
    control.calls = 100_000  # by the router, before the rule became a cascade
    for number in range(60):
        control.decide_checked(str(number), "chat", TRAITS, 0.0)
        control.record_verdict(str(number), Verdict.WORSE)
    assert control.loses_too_much()


def test_a_cascade_whose_answers_lose_as_much_as_is_allowed_goes_on():
    stopped = [cascade(3_000, 0.05, max_loss=0.05, seed=seed)[0] for seed in range(20)]

    assert sum(control.loses_too_much() for control in stopped) <= 1


def test_the_bound_of_a_cascade_holds_for_the_answers_that_it_lost():
    runs = [cascade(3_000, 0.02, max_loss=0.3, seed=seed) for seed in range(20)]

    assert sum(lost > control.lost() for control, lost in runs) <= 1
