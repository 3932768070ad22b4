"""Bounds what compacting may cost each feature; pure.

A compaction writes what follows it anew, and pays only if its conversation goes on. So the first
one of a conversation is a stake, and is made where the feature can lose it::

    balance = what compaction saved in a day, less its resets and those under way
    allowed = balance after the reset is no loss above the learning stake,
              or above this reset, where that is more

Else the conversation keeps to the strict rule, at which no recorded one was dearer. Losses count
for a day: then the feature is tried again. A conversation keeps its rule, so its prefix stays.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from compaction.cost_model import STRICT_SAFETY_FACTOR, CompactionReason
from proxy.records.lru_cache import LruCache
from proxy.records.receipt import Receipt
from proxy.services.compaction.chat_body import CompactedCall, CompactionTask
from proxy.services.compaction.live_quality import Place
from slo.price import TokenRates

#: Reason not to compact a conversation: its feature has lost as much as it may.
STAKE_LOST: Final = "stake_lost"
#: Conversations whose rule is remembered, and features with a balance.
_MAX_CONVERSATIONS: Final = 50_000
_MAX_FEATURES: Final = 8_192
#: Resets under way at once; further ones are refused.
_MAX_RESETS: Final = 1_000
#: Seconds after which a call ended, whatever became of its receipt.
_MAX_CALL_S: Final = 3_600.0
_TOKENS_PER_RATE: Final = 1_000_000


class _Reset(NamedTuple):
    """The possible loss of a call under way that moves its prefix, in nano-dollars."""

    place: Place
    loss: int
    at: float


class CompactionStakes:
    """The balance of each feature, and the rule of each conversation that was compacted.

    Args:
        stake: Nano-dollars that a feature may lose; 0 for the strict rule alone.
    """

    def __init__(self, stake: int) -> None:
        self._stake = stake
        self._stored: Mapping[Place, int] = {}
        self._recent: LruCache[Place, int] = LruCache(_MAX_FEATURES)
        self._earlier: LruCache[Place, int] = LruCache(_MAX_FEATURES)
        self._resets: dict[str, _Reset] = {}
        self._is_strict: LruCache[bytes, bool] = LruCache(_MAX_CONVERSATIONS)

    @property
    def safety(self) -> float:
        """The safety factor to try first; 0 for the usual."""
        return 0.0 if self._stake else STRICT_SAFETY_FACTOR

    @property
    def is_used(self) -> bool:
        """True if anything was saved or lost here of late, or stored by then."""
        return bool(self._stored or len(self._recent) or len(self._earlier))

    def refuses(
        self, task: CompactionTask, compacted: CompactedCall, rates: TokenRates | None, now: float
    ) -> bool:
        """True if the conversation keeps to the strict rule; else its reset is at stake from here.

        A conversation that another process compacted keeps to what its feature may lose now.
        """
        result, conversation = compacted.result, compacted.conversation
        is_bet = bool(self._stake and not task.policy.force and result.messages)
        if conversation is None or not is_bet or not result.is_compacted:
            return False
        is_strict = self._is_strict.get(conversation.name)
        if is_strict is None:
            place = (task.call.key.team, task.call.feature)
            loss, is_new = _reset_cost(task, compacted, rates), result.why == CompactionReason.PAYS
            is_strict = not self._allows(place, loss, is_new=is_new, now=now)
            self._is_strict.put(conversation.name, is_strict)
            if is_new and not is_strict:
                self._resets[task.call.id] = _Reset(place, loss, now)
        return is_strict

    def record(self, receipt: Receipt) -> None:
        """Count what an attempt saved or lost by compaction."""
        self._resets.pop(receipt.call_id, None)
        if receipt.compaction_nanos:
            place = (receipt.team, receipt.feature)
            recent = self._recent.peek(place) or 0
            self._recent.put(place, recent + receipt.compaction_nanos)

    def adopt_stored(self, stored: Mapping[Place, int]) -> None:
        """Take over what all processes stored of the last day.

        What was lost here since the reading before may not be stored yet, so it counts once more.
        """
        self._stored = stored
        self._earlier, self._recent = self._recent, LruCache(_MAX_FEATURES)

    def balance(self, place: Place, now: float) -> int:
        """Nano-dollars that compaction saved a feature of late; below 0 for a loss."""
        for call_id in [key for key, one in self._resets.items() if now - one.at > _MAX_CALL_S]:
            del self._resets[call_id]
        at_stake = sum(reset.loss for reset in self._resets.values() if reset.place == place)
        recent = (self._recent.peek(place) or 0) + min(self._earlier.peek(place) or 0, 0)
        return self._stored.get(place, 0) + recent - at_stake

    def _allows(self, place: Place, loss: int, *, is_new: bool, now: float) -> bool:
        spent = loss if is_new else 0
        has_room = len(self._resets) < _MAX_RESETS
        return has_room and self.balance(place, now) - spent >= -max(self._stake, loss)


def strict_task(task: CompactionTask) -> CompactionTask:
    """The task by the strict rule."""
    policy = msgspec.structs.replace(task.policy, safety=STRICT_SAFETY_FACTOR)
    return msgspec.structs.replace(task, policy=policy)


def with_reason(compacted: CompactedCall) -> CompactedCall:
    """The outcome by the strict rule; where it waits, the feature's stake is why."""
    if compacted.result.why != CompactionReason.DOES_NOT_PAY:
        return compacted
    result = msgspec.structs.replace(compacted.result, why=STAKE_LOST)
    return msgspec.structs.replace(compacted, result=result)


def _reset_cost(task: CompactionTask, compacted: CompactedCall, rates: TokenRates | None) -> int:
    """Nano-dollars that a reset costs at most; 0 if its price is unknown."""
    prices, result = task.policy.prices, compacted.result
    price = 0 if rates is None or rates.input is None else rates.input
    tokens = prices.write * (result.after or 0) - prices.read * (result.before or 0)
    return max(0, round(tokens * price / _TOKENS_PER_RATE))
