"""Learns how long answers are, by team, feature, model and output limit.

It begins with what the ledger knew at the start. Until either says enough, the model's answers to
other callers bound how far an output limit may be lowered, and are the guess that budgets hold.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

import msgspec

from proxy.calls.eligibility.output_limits import lowered_limit
from proxy.store.errors import StoreError
from proxy.store.sql.ledger.last_answers import PastAnswer
from slo.budgets.output_length_model import OutputLengthModel
from slo.budgets.reservation_sizing import OutputBounds, output_bounds

_log = logging.getLogger("thriftgate.budgets")

#: Ratio of an answer's full length to its length where the ledger says it was cut off; a guess.
_CUT_OFF_LENGTH_FACTOR: Final = 4
_USUAL_QUANTILE: Final = 0.9

LengthKey: TypeAlias = tuple[str | int, ...]


class AnswerLengths:
    """Lengths of answers that one process knows: its own, and those from before its start."""

    def __init__(self) -> None:
        self._lengths = OutputLengthModel()
        self._before = OutputLengthModel()

    async def begin(self, last: Callable[[], Awaitable[Iterable[PastAnswer]]]) -> None:
        """Learn how long the answers were that the ledger holds; without it, nothing.

        Args:
            last: The last answers, the newest last.
        """
        try:
            answers = await last()
        except StoreError as error:
            _log.warning("Lengths of answers could not be read and are learned anew: %s", error)
            return
        self._before = await asyncio.to_thread(_lengths_by_name, answers)

    def add(self, name: LengthKey, length: int) -> None:
        """Learn the length of an answer, all its choices together."""
        self._lengths.add(name, length)
        self._lengths.add(_kind_of_all_calls(name), length)

    def _find_kind(self, name: LengthKey) -> tuple[OutputLengthModel, LengthKey]:
        """The learned lengths for a kind, and their name: of now, or of before the start."""
        before = name[:-1]
        if not self._lengths.is_learned(name) and self._before.is_learned(before):
            return self._before, before
        return self._lengths, name

    def predict(self, name: LengthKey, limit: int) -> OutputBounds:
        """Predicts the output of such a call within a limit.

        Where nothing is learned of the kind it is a guess by all others' calls to its model.
        """
        bounds = self._known_output(name, limit)
        if bounds is not None:
            return bounds
        bounds = self._known_output(_kind_of_all_calls(name), limit)
        if bounds is None:
            return output_bounds(None, limit)
        return msgspec.structs.replace(bounds, is_guessed=bounds.likely < limit)

    def _known_output(self, name: LengthKey, limit: int) -> OutputBounds | None:
        """The learned output of a kind, now or before the start; None where little is learned."""
        bounds = self._lengths.known_output_bounds(name, limit)
        return bounds or self._before.known_output_bounds(name[:-1], limit)

    def usual(self, name: LengthKey, limit: int) -> int | None:
        """The output that nine of ten such calls stay within; None where little is learned.

        What is not learned of the kind is taken of all others' calls to its model.
        """
        lengths, kind = self._find_kind(name)
        if not lengths.is_learned(kind):
            lengths, kind = self._find_kind(_kind_of_all_calls(name))
        length = lengths.quantile(kind, _USUAL_QUANTILE)
        return None if length is None else min(length, limit)


def length_key(team: str, feature: str, model: str, limit: int) -> LengthKey:
    """The kind of calls of one team's feature to one model, with an output limit of this order."""
    return (team, feature, model, limit.bit_length())


def _kind_of_all_calls(name: LengthKey) -> LengthKey:
    """The kind of all calls to the same model, of any team."""
    return name[2:]


def _lengths_by_name(answers: Iterable[PastAnswer]) -> OutputLengthModel:
    """Lengths of answers, by team, feature and model, and by model."""
    lengths = OutputLengthModel()
    for answer in answers:
        model = answer.route.partition("/")[2].partition("#")[0] or answer.model
        limit = lowered_limit(answer.notes)
        is_cut = limit is not None and answer.generated >= limit
        length = answer.generated * _CUT_OFF_LENGTH_FACTOR if is_cut else answer.generated
        for name in ((answer.team, answer.feature, model), (model,)):
            lengths.add(name, length)
    return lengths
