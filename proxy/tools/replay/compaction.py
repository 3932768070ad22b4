"""Recorded calls as the gateway would have compacted, marked and arranged them."""

import logging
from typing import Final

import msgspec

from compaction.compact import compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.message import CannotCompactError
from proxy.calls.eligibility.route_target import route_target
from proxy.prefix.prompts.objects import Unplannable
from proxy.records.compaction_result import CompactionResult
from proxy.services.compaction.chat_body import (
    ChatCompactor,
    CompactionTask,
    compact_call,
)
from proxy.services.compaction.compactor import MAX_BODY_BYTES
from proxy.services.compaction.policies import relative_prices
from proxy.services.compaction.signed_thinking import with_thinking_rules
from proxy.tools.replay.planning import MISTAKES, PlannedVariant, recorded_as_call
from proxy.tools.replay.prompts import PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from slo.usage import Usage

_log = logging.getLogger(__name__)

_SECRET: Final = b"replay"
#: Reasons that are told; calls left alone for others are counted under the last.
_REASONS: Final = 20
_OTHERS: Final = "other reasons"


class ReplayedCompaction(msgspec.Struct, kw_only=True):
    """The totals of compaction.

    Attributes:
        calls: Calls in which facts stood for messages.
        resets: Of these, the first ones after a compaction: their prefix moved.
        trimmed: Calls in which tool results were said shorter, and nothing else.
        uncompacted: Calls without facts, by the reason; bounded.
    """

    calls: int = 0
    resets: int = 0
    trimmed: int = 0
    uncompacted: dict[str, int] = {}

    def leave(self, why: str, calls: int = 1) -> None:
        """Count calls without facts."""
        is_named = why in self.uncompacted or len(self.uncompacted) < _REASONS
        reason = why if is_named else _OTHERS
        self.uncompacted[reason] = self.uncompacted.get(reason, 0) + calls

    def include(self, other: "ReplayedCompaction") -> None:
        """Add the totals of other calls."""
        self.calls += other.calls
        self.resets += other.resets
        self.trimmed += other.trimmed
        for why, calls in other.uncompacted.items():
            self.leave(why, calls)


class CompactedVariant:
    """Compacted by rules alone where that pays at the route's prices, then arranged and marked."""

    name = "compacted"

    def __init__(
        self,
        reading: PromptReader,
        day: float,
        *,
        mode: CompactionMode = CompactionMode.FACTS,
        compact_chat: ChatCompactor = compact,
    ) -> None:
        route = reading.route
        self._compact_chat, self._route = compact_chat, route
        self._planning = PlannedVariant(reading, day, arranges=True)
        self._policy = CompactionPolicy(
            mode=mode,
            prices=relative_prices(route_target(route, reading.public, day)),
            window=route.window or 0,
        )
        self._memory = CompactionMemory()
        self.totals = ReplayedCompaction()
        self._failed = False

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The chat body as it is compacted and planned; the line's own where it cannot be."""
        compaction = self._compact(line, now)
        shortened = compaction.sent
        if shortened is None:
            self.totals.leave(compaction.why)
            return self._planning.body(line, now)
        if _length(shortened.body) < _length(line.body):
            self.totals.calls += 1
            self.totals.resets += compaction.reset
        else:
            self.totals.trimmed += 1
            self.totals.leave(compaction.why)
        compacted = msgspec.structs.replace(line, body=shortened.body, origin=shortened.origin)
        return self._planning.body(compacted, now)

    def record_answer(self, usage: Usage) -> None:
        """Learn from the call just answered."""
        self._planning.record_answer(usage)

    def _compact(self, line: RecordedCall, now: float) -> CompactionResult:
        """The compacted call, or the reason why it is sent unmodified."""
        if len(line.body) > MAX_BODY_BYTES:
            return CompactionResult(why="too_large")
        task = CompactionTask(
            call=recorded_as_call(line, now),
            policy=with_thinking_rules(self._policy, line.body, self._route),
            is_dry=False,
            control_share=0.0,
            secret=_SECRET,
        )
        try:
            return compact_call(task, self._compact_chat, self._memory).result
        except CannotCompactError as why:
            return CompactionResult(why=str(why) or "not_compactable")
        except Unplannable:
            return CompactionResult(why="unreadable")
        except MISTAKES:
            if not self._failed:
                _log.exception("compaction failed with a line, and maybe with others")
            self._failed = True
            return CompactionResult(why="failed")


class _Body(msgspec.Struct):
    messages: list[msgspec.Raw]


_body = msgspec.json.Decoder(_Body).decode


def _length(body: bytes) -> int:
    return len(_body(body).messages)
