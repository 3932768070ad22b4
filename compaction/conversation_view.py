"""A conversation as units that stay together, and the points at which it may be split.

A *point* is a length of the conversation at which the client must have called the model: the last
message is a user's, or completes a set of tool results. A decision at a point depends only on the
messages before it, so it can be repeated later from any longer conversation.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from typing import Final

import msgspec

from compaction.reading.message import CalledTool, ParsedMessage, Voice
from compaction.reading.turns import MessageUnit, call_points, split_units

#: Tokens after a turn's beginning above which the conversation may be split inside the turn.
_LONG_TURN_TOKENS: Final = 16_000
#: Minimum units per turn when an agent works by itself.
_MIN_AGENT_STEPS: Final = 6
#: Tokens that then stay verbatim at the end; at most this share of the prompt.
_SUFFIX_TOKENS: Final = 8_000
_MAX_SUFFIX_SHARE: Final = 0.25
#: Maximum characters of a call's arguments by which calls are compared.
_MAX_ARGUMENTS_CHARS: Final = 200

_start = attrgetter("start")
_end = attrgetter("end")
_turn = attrgetter("turn")


class ConversationView(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A conversation.

    Attributes:
        units: Messages that are kept or compacted together.
        lead: Number of messages of authority before it begins.
        points: Its length at each call of its client, the present one included.
        cumulative_tokens: Tokens of the messages before each place; one more than messages.
    """

    messages: tuple[ParsedMessage, ...]
    units: tuple[MessageUnit, ...]
    lead: int
    points: tuple[int, ...]
    cumulative_tokens: tuple[int, ...]

    @cached_property
    def calls_by_result(self) -> Mapping[int, CalledTool]:
        """The call that each result answers, by the result's place."""
        waiting: dict[str, CalledTool] = {}
        calls = {}
        for index, message in enumerate(self.messages):
            for call in message.calls:
                waiting[call.id] = call
            if message.voice is Voice.RESULT and message.answers in waiting:
                calls[index] = waiting.pop(message.answers)
        return calls

    @cached_property
    def signed_indexes(self) -> Sequence[int]:
        """The places of the messages that hold signed content."""
        return [index for index, message in enumerate(self.messages) if message.signed]

    def has_signed_between(self, start: int, end: int) -> bool:
        """True if a message of a run holds signed content."""
        place = bisect_left(self.signed_indexes, start)
        return place < len(self.signed_indexes) and self.signed_indexes[place] < end

    @cached_property
    def _words(self) -> Sequence[str]:
        """The text of each message."""
        return [_words(message) if message.calls else message.text for message in self.messages]

    def tokens_between(self, start: int, end: int) -> int:
        """Tokens of a run of unmodified messages."""
        return self.cumulative_tokens[end] - self.cumulative_tokens[start]

    def words_between(self, start: int, end: int) -> str:
        """All that some messages say: their texts, and what they call tools with."""
        return "\n".join(self._words[start:end])

    def units_between(self, start: int, end: int) -> Sequence[MessageUnit]:
        """The units that lie between two places."""
        first = bisect_left(self.units, start, key=_start)
        return self.units[first : bisect_right(self.units, end, key=_end)]

    def short_call(self, index: int) -> str:
        """The call that a result answers, in short; "a tool" where it answers none."""
        call = self.calls_by_result.get(index)
        if call is None:
            return "a tool"
        words = " ".join(call.arguments[: 2 * _MAX_ARGUMENTS_CHARS].split())
        return f"{call.name}({words[:_MAX_ARGUMENTS_CHARS]})"

    def points_after(self, after: int) -> Iterator[int]:
        """The points beyond the first ``after`` messages; the whole conversation is the last."""
        for point in self.points:
            begun = self.lead < point
            if begun and point > after and (point < len(self.messages) or self._awaits_answer):
                yield point

    @property
    def _awaits_answer(self) -> bool:
        """True if an answer to the whole of it is due: no call is open, another has spoken."""
        last = self.units[-1]
        return not last.is_open and self.messages[-1].voice is not Voice.ASSISTANT

    def last_user_message(self, point: int) -> int | None:
        """The last message of a user before a point; None where there is none."""
        spoken = range(point - 1, self.lead - 1, -1)
        return next((i for i in spoken if self.messages[i].voice is Voice.USER), None)

    def standing_messages(self, start: int, end: int, point: int) -> tuple[int, ...]:
        """Messages of a part that stay messages of their own when it is compacted at a point."""
        live = self.last_user_message(point)
        return tuple(
            index
            for index in range(start, end)
            if (message := self.messages[index]).voice is Voice.AUTHORITY
            or index == live
            or (message.voice is Voice.USER and not message.whole)
        )


def view_conversation(messages: Sequence[ParsedMessage]) -> ConversationView:
    """The conversation these messages make up.

    Raises:
        CannotCompactError: If calls and results do not fit together.
    """
    lead = 0
    while lead < len(messages) and messages[lead].voice is Voice.AUTHORITY:
        lead += 1
    weights = (message.tokens for message in messages)
    return ConversationView(
        messages=tuple(messages),
        units=split_units(messages),
        lead=lead,
        points=call_points(messages),
        cumulative_tokens=tuple(accumulate(weights, initial=0)),
    )


def turn_cut(conversation: ConversationView, point: int, last: int, keep_turns: int) -> int:
    """The end of the part to compact at a point; ``last`` where there is nothing to compact.

    The last turns stay. Where they are long, as an agent's are that works by itself, the last
    steps of them stay.

    Args:
        last: Position of the last cut, or of the conversation's beginning.
        keep_turns: Turns that stay.
    """
    units = conversation.units_between(last, point)
    if not units:
        return last
    turns = _turns_start(units, keep_turns)
    if turns > last and conversation.tokens_between(turns, point) <= _LONG_TURN_TOKENS:
        return turns
    steps = max(_steps_start(conversation, units, point, keep_turns), turns)
    return (
        steps
        if turns > last or conversation.tokens_between(last, point) > _LONG_TURN_TOKENS
        else last
    )


def step_cut(conversation: ConversationView, point: int, last: int, keep_turns: int) -> int:
    """The same where few turns of many steps are all there is: their last steps stay."""
    units = conversation.units_between(last, point)
    turns = units[-1].turn - units[0].turn + 1 if units else 1
    return (
        units[-keep_turns - 1].end
        if len(units) > max(keep_turns, turns * _MIN_AGENT_STEPS)
        else last
    )


def _words(message: ParsedMessage) -> str:
    """The text of a message and of its tool calls."""
    called = [f"{call.name} {call.arguments}" for call in message.calls]
    return "\n".join([message.text, *called])


def _turns_start(units: Sequence[MessageUnit], keep: int) -> int:
    """The index where the last turns begin; the start of all where there are no more."""
    first = units[-1].turn - keep + 1
    begins = units[bisect_left(units, first, key=_turn) % len(units)]
    return begins.start if begins.turn == first > 0 else units[0].start


def _steps_start(
    conversation: ConversationView, units: Sequence[MessageUnit], point: int, keep: int
) -> int:
    """The index where the last steps that weigh enough begin."""
    enough = min(_SUFFIX_TOKENS, int(conversation.cumulative_tokens[point] * _MAX_SUFFIX_SHARE))
    for unit in reversed(units[: -keep or None]):
        if conversation.tokens_between(unit.end, point) >= enough:
            return unit.end
    return units[0].start
