"""Cost ceilings: what one call may cost at most, and what is done where it may cost more.

::

    predicted ─┬─ fits
               └─ the steps of the ceiling, in its order: clamp ─ cheaper ─ refuse ─ (it passes)

The worst case is what must fit, not the likely one: the output limit is the only thing that bounds
what an answer costs. A clamp never cuts what answers of the kind mostly need, for half an answer
is worth nothing and was paid for. Where nothing is learned of them it may cut them: a refusal would
teach nothing, and all that follow would be refused, too.
"""

from bisect import bisect_right
from collections.abc import Callable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from slo.budgets.budget import EVERY, UnpricedPolicy
from slo.quantile_sketch import QuantileSketch

#: Output that a call keeps where little is learned of such answers: so many tokens, or a quarter of
#: what it asked for where that is less. Half the answers with a median of 250 tokens are no longer.
_MIN_OUTPUT_DIVISOR: Final = 4
_MIN_UNLEARNED_TOKENS: Final = 256
#: Errors of predictions after which those before count half, so that they are those of late.
_MAX_ERRORS: Final = 4096


class CeilingStep(StrEnum):
    """A way to handle a call that may cost too much."""

    CLAMP = "clamp"  # its output limit is lowered
    CHEAPER = "cheaper"  # it goes to a cheaper model
    REFUSE = "refuse"


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """A limit on the cost of one call; ``slo.policies.ceilings`` describes its fields.

    Attributes:
        limit: In nano-dollars a call, its further attempts included.
    """

    name: str
    team: str = EVERY
    feature: str = EVERY
    limit: int
    on_exceed: tuple[CeilingStep, ...] = tuple(CeilingStep)
    cheaper: tuple[str, ...] = ()
    unpriced: UnpricedPolicy = UnpricedPolicy.OWN

    def applies(self, team: str, feature: str) -> bool:
        """True if it is for the calls of this team and feature."""
        return self.team in {EVERY, team} and self.feature in {EVERY, feature}


class CostPrediction(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted cost of a call, in nano-dollars.

    Attributes:
        sure: Its prompt, and what its earlier attempts cost.
        likely: Value that 19 calls of 20 stay at or below.
        worst: With all that its output limit allows.
    """

    sure: int
    likely: int
    worst: int


class ClampRange(msgspec.Struct, frozen=True, kw_only=True):
    """The range to which a call's output limit can be lowered.

    Attributes:
        most: The tokens each of its choices may generate, as it is asked.
        least: The fewest it is to be left with, each.
        price: Returns the call's cost in nano-dollars if each choice has so many tokens; it never
            falls.
    """

    most: int
    least: int
    price: Callable[[int], int]

    def within(self, limit: int) -> int | None:
        """The most tokens a choice with which the call costs at most this; None for too few."""
        if self.least > self.most or self.price(self.least) > limit:
            return None
        lengths = range(self.least, self.most + 1)
        return self.least + bisect_right(lengths, limit, key=self.price) - 1


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """The predicted cost of a call on a model, and the range of its output limit, if it has one."""

    predicted: CostPrediction
    clamp: ClampRange | None = None


class CallFits(msgspec.Struct, frozen=True):
    """The call costs no more than it may."""


class OutputClamped(msgspec.Struct, frozen=True):
    """It does so with this output limit, in tokens of each choice."""

    tokens: int


class CheaperModel(msgspec.Struct, frozen=True):
    """It does so on this model."""

    model: str


class CeilingRefused(msgspec.Struct, frozen=True):
    """It may cost too much, and is refused."""


class CeilingExceeded(msgspec.Struct, frozen=True):
    """It may cost too much, and passes: no step that is to be taken helps."""


CeilingDecision: TypeAlias = (
    CallFits | OutputClamped | CheaperModel | CeilingRefused | CeilingExceeded
)


def least_output_tokens(requested_tokens: int, usual: int | None, choices: int, needs: int) -> int:
    """The fewest tokens of each choice that a call may be clamped to; 1 or more.

    Args:
        requested_tokens: The output limit it names, of each choice; 0 where it names none.
        usual: Most that nine of ten such calls generate, all choices together; None where little is
            learned, and then it may be clamped down to 256 tokens, or to a quarter of what it
            names.
        needs: The fewest its model takes, such as one more than it is told to think.
    """
    if usual is not None:
        tokens = -(-usual // choices)
    else:
        tokens = (
            min(-(-requested_tokens // _MIN_OUTPUT_DIVISOR), _MIN_UNLEARNED_TOKENS)
            if requested_tokens
            else _MIN_UNLEARNED_TOKENS
        )
    return max(tokens, needs, 1)


def decide_ceiling(
    ceiling: Ceiling,
    offer: ModelCost | None,
    elsewhere: Callable[[str], ModelCost | None],
    model: str = "",
) -> CeilingDecision:
    """The decision on a call under a ceiling.

    Args:
        offer: The call as it is asked; None where its price is unknown, so that it fits nowhere.
        elsewhere: The call on the model of this name, with nothing of it cached; None where that
            model cannot take it, or has no known price.
        model: The model it is asked of now; of the ceiling's models only later ones are tried.
    """
    if offer is not None and offer.predicted.worst <= ceiling.limit:
        return CallFits()
    for step in ceiling.on_exceed:
        if step is CeilingStep.REFUSE:
            return CeilingRefused()
        if step is CeilingStep.CLAMP:
            decision: OutputClamped | CheaperModel | None = _fitting_clamp(ceiling, offer)
        else:
            decision = _cheaper_model(ceiling, elsewhere, model)
        if decision is not None:
            return decision
    return CeilingExceeded()


def _fitting_clamp(ceiling: Ceiling, offer: ModelCost | None) -> OutputClamped | None:
    """The output limit with which the call fits; None where there is none."""
    if offer is None or offer.clamp is None:
        return None
    tokens = offer.clamp.within(ceiling.limit)
    return None if tokens is None else OutputClamped(tokens)


def _cheaper_model(
    ceiling: Ceiling, elsewhere: Callable[[str], ModelCost | None], model: str
) -> CheaperModel | None:
    """The first model that the call would fit on; no call goes round in circles."""
    names = ceiling.cheaper
    after = names[names.index(model) + 1 :] if model in names else names
    return next(
        (CheaperModel(name) for name in after if _would_fit(ceiling, elsewhere(name))), None
    )


def _would_fit(ceiling: Ceiling, offer: ModelCost | None) -> bool:
    if offer is None:
        return False
    if offer.predicted.worst <= ceiling.limit:
        return True
    return CeilingStep.CLAMP in ceiling.on_exceed and _fitting_clamp(ceiling, offer) is not None


class PredictionAccuracy:
    """The outcomes of the calls under one ceiling.

    Attributes:
        unpriced: Number of calls without a known cost; they are none of the calls.
    """

    __slots__ = ("_errors", "_noted", "calls", "unpriced", "within")

    def __init__(self) -> None:
        self.calls = 0
        self.within = 0
        self.unpriced = 0
        self._errors = QuantileSketch()
        self._noted = 0

    def record(self, settled: int | None, predicted: int | None, limit: int) -> None:
        """Note what a call cost.

        Args:
            settled: In nano-dollars; None where unknown.
            predicted: Likely cost in nano-dollars; None where unknown.
        """
        if settled is None:
            self.unpriced += 1
            return
        self.calls += 1
        self.within += settled <= limit
        if predicted:
            self._add(settled / predicted)

    def error_quantile(self, part: float) -> float | None:
        """Settled cost over predicted, as this part of late calls stays at or below.

        At 0.95 it is about 1 where predictions are honest; None where there are none.
        """
        return self._errors.quantile(part) if self._noted else None

    def _add(self, error: float) -> None:
        self._errors.add(error)
        self._noted += 1
        if self._noted >= _MAX_ERRORS:
            halves = {key: times // 2 for key, times in self._errors.counts.items() if times > 1}
            self._errors = QuantileSketch(halves)
            self._noted = self._errors.total_count
