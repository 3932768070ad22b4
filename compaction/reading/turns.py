"""Groups messages into units that are kept or compacted whole, and units into turns."""

from collections.abc import Sequence

import msgspec

from compaction.reading.message import CannotCompactError, ParsedMessage, Voice


class MessageUnit(msgspec.Struct, frozen=True, gc=False):
    """Messages that stand or fall together: one alone, or calls with all their results.

    Attributes:
        start: Its first message, in the caller's list.
        end: The first after it.
        turn: The turn it is part of, from 1; 0 before the first user message.
        is_open: True if a call of it has no result yet.
    """

    start: int
    end: int
    turn: int
    is_open: bool = False


def split_units(messages: Sequence[ParsedMessage]) -> tuple[MessageUnit, ...]:
    """The conversation in its units, in order; a turn begins with each message of a user.

    Calls that were made before others were answered make one unit with them.

    Raises:
        CannotCompactError: If a result answers no call, or a call is answered twice.
    """
    ends, waiting = _unit_ends(messages)
    units: list[MessageUnit] = []
    start = turn = 0
    while start < len(messages):
        turn += messages[start].voice is Voice.USER
        begun, is_open, index, end = turn, start in waiting, start + 1, ends[start]
        while index < end:
            end = max(end, ends[index])
            is_open = is_open or index in waiting
            turn += messages[index].voice is Voice.USER
            index += 1
        units.append(MessageUnit(start, end, begun, is_open))
        start = end
    return tuple(units)


def call_points(messages: Sequence[ParsedMessage]) -> tuple[int, ...]:
    """The length of the conversation at each call of the client; at the present one it is whole.

    A client calls when a user has spoken or all results are there, and an answer follows.

    Raises:
        CannotCompactError: If a result answers no call, or a call is answered twice.
    """
    points: list[int] = []
    waiting: dict[str, int] = {}
    speaks = False
    for index, message in enumerate(messages):
        if message.voice is Voice.ASSISTANT:
            if speaks and not waiting:
                points.append(index)
            speaks = False
        elif message.voice is not Voice.AUTHORITY:
            speaks = True
        if message.calls or message.voice is Voice.RESULT:
            _answered_call_index(waiting, index, message)
    return (*points, len(messages))


def _unit_ends(messages: Sequence[ParsedMessage]) -> tuple[list[int], frozenset[int]]:
    """The end of each message's unit, and the units that still wait for a result."""
    ends = list(range(1, len(messages) + 1))
    waiting: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.calls or message.voice is Voice.RESULT:
            call_index = _answered_call_index(waiting, index, message)
            if call_index is not None:
                ends[call_index] = index + 1
    return ends, frozenset(waiting.values())


def _answered_call_index(waiting: dict[str, int], index: int, message: ParsedMessage) -> int | None:
    """The message whose call this one answers; what then waits for a result is kept up.

    An id may come again once it was answered: some clients count anew in each turn.
    """
    for call in message.calls:
        if call.id in waiting:
            raise CannotCompactError(
                f"messages[{index}] makes a call whose id waits for a result already"
            )
        waiting[call.id] = index
    if message.voice is not Voice.RESULT:
        return None
    if message.answers not in waiting:
        raise CannotCompactError(f"messages[{index}] answers no call that waits for a result")
    return waiting.pop(message.answers)
