"""Decides which calls go to the small model, such that the promised loss is never exceeded.

Each call adds ``max_loss`` to what may be lost; each call sent small takes from it what the bound
grows by. A call goes small if its predicted loss is among the lowest that can be paid for by the
calls of that kind, and if the promise is kept even should its answer be lost. So the losses exceed
what is promised, at whatever moment, in less than one of twenty runs.
"""

from math import sqrt
from typing import Final

import msgspec

from proxy.fast_path.small_first.call_traits import CallTraits
from proxy.fast_path.small_first.judge_channel import JudgeError, Verdict, unbiased_loss
from proxy.fast_path.small_first.loss_bound import CallCosts, LossBound
from proxy.fast_path.small_first.loss_model import LossModel
from proxy.fast_path.small_first.spending_plan import (
    HORIZON_CALLS,
    Prospect,
    SpendingPlan,
    cached_costs,
    plan_spending,
)

#: Predictions from which it is planned how many calls go small.
_PLANNED_CALLS: Final = 400
_PLAN_EVERY: Final = 50
#: Calls whose unused loss is kept at most: a long good time excuses no long bad one.
_MAX_BANKED_CALLS: Final = 20_000
_MAX_PENDING: Final = 10_000
#: Judgements that go to learning alone, before most go to proof.
_LEARNING_JUDGEMENTS: Final = 150
_FIT_EVERY: Final = 10
#: Judged answers from which on a cascade may stop, and standard errors by which it lost too much.
_MIN_MEASURED: Final = 50
_STOP_ERRORS: Final = 3.0
#: Judgements that need not be paid for by what calls sent small saved.
_TRIAL_JUDGEMENTS: Final = 500


class LossPromise(msgspec.Struct, frozen=True):
    """The promise of a policy.

    Attributes:
        max_loss: Answers that may be lost against the large model, as a share of calls.
        judged_share: Calls that are judged at most, as a share.
        judging_price: The cost of a judgement beside what a call sent small saves.
        error: That of the judge.
    """

    max_loss: float = 0.01
    judged_share: float = 0.1
    judging_price: float = 2.0
    confidence: float = 0.95
    error: JudgeError = JudgeError(0.1, 0.1)


class SmallDecision(msgspec.Struct, frozen=True):
    """The decision for one call.

    Attributes:
        is_small: True if the small model answers.
        is_judged: True if both models' answers are to be compared in the background.
        predicted_loss: None while too little was graded.
        why: Reason for the decision, in a few words.
    """

    is_small: bool
    is_judged: bool
    predicted_loss: float | None
    why: str


class MeasuredLosses(msgspec.Struct, frozen=True):
    """The losses of small answers as the judge measured them.

    Attributes:
        total: Their sum; each is right on average.
        squares: The sum of their squares.
    """

    judged: int = 0
    total: float = 0.0
    squares: float = 0.0

    def with_loss(self, loss: float) -> "MeasuredLosses":
        """These and one more."""
        return MeasuredLosses(self.judged + 1, self.total + loss, self.squares + loss * loss)

    def is_above(self, limit: float) -> bool:
        """True if the mean loss is above a limit, beyond what chance explains."""
        if self.judged < _MIN_MEASURED:
            return False
        mean = self.total / self.judged
        error = sqrt(max(self.squares / self.judged - mean * mean, 0.0) / self.judged)
        return mean - _STOP_ERRORS * error > limit


class _Pending(msgspec.Struct):
    """A call whose verdict is awaited; costs are None where the large model answered it."""

    feature: str
    traits: CallTraits
    costs: CallCosts | None


class LossControl(msgspec.Struct):
    """The state of one promise: its calls, their graded answers, the bound on what was lost.

    Attributes:
        allowance: Answers that may be lost so far.
        awaited: Calls sent small whose verdict is awaited; each counts as lost.
        measured: Losses of small answers that were judged.
    """

    promise: LossPromise
    bound: LossBound
    calls: int = 0
    allowance: float = 0.0
    small: int = 0
    judged: int = 0
    verdicts: int = 0
    awaited: int = 0
    model: LossModel = msgspec.field(default_factory=LossModel)
    pending: dict[str, _Pending] = {}
    recent: list[float] = []
    plan: SpendingPlan = SpendingPlan()
    measured: MeasuredLosses = MeasuredLosses()

    def lost(self) -> float:
        """The answers that were lost at most, at the promised confidence."""
        return min(self.bound.upper() + self.awaited, float(self.small)) if self.small else 0.0

    def proved_loss(self) -> float:
        """The same as a share of all calls."""
        return self.lost() / self.calls if self.calls else 0.0

    def decide(
        self, call_id: str, feature: str, traits: CallTraits, draws: tuple[float, float]
    ) -> SmallDecision:
        """The decision for a call.

        Args:
            draws: Two random numbers in [0, 1), of which no caller knows.
        """
        self.calls += 1
        self._add_allowance()
        predicted = self.model.predict(feature, traits) if self.model.is_ready else None
        if predicted is not None:
            self.recent.append(predicted)
            if self.calls % _PLAN_EVERY == 0:
                del self.recent[:-_PLANNED_CALLS]
                self._plan()
        is_wanted = predicted is not None and predicted <= self.plan.threshold
        if is_wanted and (decided := self._send_small(call_id, feature, traits, predicted, draws)):
            return decided
        is_judged = self._has_budget() and draws[1] < self._exploration(feature, predicted)
        if is_judged:
            self._await(call_id, _Pending(feature, traits, None))
        why = "too little is graded yet" if predicted is None else "the loss is not proved small"
        return SmallDecision(is_small=False, is_judged=is_judged, predicted_loss=predicted, why=why)

    def decide_checked(
        self, call_id: str, feature: str, traits: CallTraits, draw: float
    ) -> SmallDecision:
        """The decision for a call of a cascade: small, until it is measured to lose too much.

        Args:
            draw: A random number in [0, 1), of which no caller knows.
        """
        self.calls += 1
        self._add_allowance()
        if self.loses_too_much():
            why = "more answers were lost than is allowed"
            return SmallDecision(is_small=False, is_judged=False, predicted_loss=None, why=why)
        share = self.promise.judged_share
        is_judged = draw < share
        costs = cached_costs(self.promise.error, share, 0.0)
        self._count_small(call_id, _Pending(feature, traits, costs), is_judged=is_judged)
        why = "its answer is checked"
        return SmallDecision(is_small=True, is_judged=is_judged, predicted_loss=None, why=why)

    def loses_too_much(self) -> bool:
        """True if small answers are measured to lose more than is promised; then for good."""
        return self.measured.is_above(self.promise.max_loss)

    def record_verdict(self, call_id: str, verdict: Verdict) -> bool:
        """Count a verdict; False where none was awaited."""
        waiting = self.pending.pop(call_id, None)
        if waiting is None:
            return False
        if waiting.costs is not None:
            self.awaited -= 1
            self.bound.add(waiting.costs.of(verdict))
        loss = unbiased_loss(self.promise.error, verdict)
        if waiting.costs is not None:
            self.measured = self.measured.with_loss(loss)
        self.learn(waiting.feature, waiting.traits, loss)
        return True

    def learn(self, feature: str, traits: CallTraits, loss: float) -> None:
        """Learn a loss; what proves nothing, such as a caller's feedback, comes here, too."""
        self.verdicts += 1
        self.model.learn(feature, traits, loss)
        if self.verdicts % _FIT_EVERY == 0:
            self.model.fit()

    def withdraw(self, call_id: str) -> None:
        """Await no verdict of a call: the small model did not answer it, or nobody compares it.

        For a call that it did answer this would hide a loss; such a one counts as lost for ever.
        """
        waiting = self.pending.pop(call_id, None)
        if waiting is not None and waiting.costs is not None:
            self.awaited -= 1
            self.small -= 1

    def is_small(self, call_id: str) -> bool:
        """True if a verdict is awaited of a call that was sent small."""
        waiting = self.pending.get(call_id)
        return waiting is not None and waiting.costs is not None

    def update_error(self, error: JudgeError) -> None:
        """Use another error of the judge from now on; calls under way keep theirs."""
        self.promise = msgspec.structs.replace(self.promise, error=error)

    def _send_small(
        self,
        call_id: str,
        feature: str,
        traits: CallTraits,
        predicted: float | None,
        draws: tuple[float, float],
    ) -> SmallDecision | None:
        """The decision to send a call small; None where it might break the promise."""
        probability = self.plan.probability
        if not self._has_budget():
            return None
        guess = min(max(predicted or 0.0, 0.0), 0.5)
        costs = cached_costs(self.promise.error, probability, round(guess * 50) / 50)
        if self.lost() + 1 > self.allowance:
            return None
        is_judged = draws[0] < probability
        self._count_small(call_id, _Pending(feature, traits, costs), is_judged=is_judged)
        return SmallDecision(
            is_small=True,
            is_judged=is_judged,
            predicted_loss=predicted,
            why="the loss is proved small",
        )

    def _count_small(self, call_id: str, sent: _Pending, *, is_judged: bool) -> None:
        """Count a call that goes small."""
        self.small += 1
        if is_judged:
            self._await(call_id, sent)
            self.awaited += 1
        elif sent.costs is not None:
            self.bound.add(sent.costs.unjudged)

    def _await(self, call_id: str, waiting: _Pending) -> None:
        """Await a verdict; one that never comes counts as worse for ever."""
        self.judged += 1
        self.pending[call_id] = waiting
        if len(self.pending) > _MAX_PENDING:
            del self.pending[next(iter(self.pending))]

    def _has_budget(self) -> bool:
        """True if one more judgement is within the share, and paid for by calls sent small."""
        paid = _TRIAL_JUDGEMENTS + self.small / self.promise.judging_price
        return self.judged + 1 <= min(self.promise.judged_share * self.calls, paid)

    def _add_allowance(self) -> None:
        limit = self.promise.max_loss * _MAX_BANKED_CALLS
        self.allowance += self.promise.max_loss
        if self.allowance > limit and self.calls % _PLAN_EVERY == 0:
            self.allowance = min(self.allowance, max(self.lost(), 0.0) + limit)

    def _plan(self) -> None:
        """Plan the next calls anew."""
        ahead = self.promise.max_loss * HORIZON_CALLS
        prospect = Prospect(
            bound=self.bound,
            error=self.promise.error,
            allowance=self.allowance + ahead,
            judged_share=self.promise.judged_share,
            better=self.model.better_share(self.promise.error),
        )
        self.plan = plan_spending(prospect, self.recent)

    def _exploration(self, feature: str, predicted: float | None) -> float:
        """The probability of judging a call that the large model answers, where it informs most."""
        share = self.promise.judged_share
        if predicted is None or self.judged < _LEARNING_JUDGEMENTS:
            return 1.5 * share
        spare = max(share - self.plan.share * self.plan.probability, share / 10)
        is_near = predicted <= self.plan.threshold + 0.05 or self.model.graded_calls(feature) < 8
        return spare * (3.0 if is_near else 0.5)


def new_control(promise: LossPromise) -> LossControl:
    """The state of a promise of which nothing is known yet."""
    return LossControl(promise=promise, bound=LossBound(confidence=promise.confidence))
