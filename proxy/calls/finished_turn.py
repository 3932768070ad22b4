"""A turn of a conversation that was answered to its end: its prompt as sent, and its answer."""

from collections.abc import Callable
from typing import Final

import msgspec

from proxy.calls.eligibility import CHAT
from proxy.calls.metering import Meter
from proxy.calls.settlement import AttemptInfo
from proxy.prefix.arrangement import remove_body_tags
from proxy.prefix.planned import Planned
from proxy.records.call import Call

#: Longer answers are not put together again.
_MAX_ANSWER_BYTES: Final = 2 * 1024 * 1024


class FinishedTurn(msgspec.Struct, frozen=True):
    """A turn that has ended well.

    Attributes:
        call: The call with the body that the model got.
        answer: Puts the assistant's message together, as the next turn will hold it; None where
            that is not known. It takes milliseconds for a long one, and may run on a thread.
    """

    call: Call
    answer: Callable[[], bytes | None]


def finished_turn(info: AttemptInfo, meter: Meter | None) -> FinishedTurn | None:
    """The turn of an attempt that is over; None where it has none that could be gone on from."""
    call = info.sent_call
    is_turn = call.endpoint == CHAT and call.fields is not None and not call.is_unattended
    if not is_turn or meter is None or meter.is_broken or not meter.is_complete:
        return None
    planned = info.planned
    body = planned.body if isinstance(planned, Planned) else remove_body_tags(call.body)
    sent = call if body is call.body else msgspec.structs.replace(call, body=body)
    return FinishedTurn(sent, lambda: meter.assistant_message(_MAX_ANSWER_BYTES))
