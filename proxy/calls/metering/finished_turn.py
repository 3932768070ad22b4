"""A turn that was answered to its end: its prompt as sent, and its answer, for the next turn."""

from collections.abc import Callable
from typing import Final

import msgspec

from proxy.calls.eligibility.eligibility import CHAT, RESPONSES, speaks_endpoint
from proxy.calls.metering.metering import Meter
from proxy.calls.metering.settlement import AttemptInfo
from proxy.prefix.arrangement import remove_body_tags
from proxy.prefix.planned import Planned
from proxy.providers.answers.output_items import items_of_message
from proxy.records.call import Call

#: Longer answers are not put together again.
_MAX_ANSWER_BYTES: Final = 2 * 1024 * 1024
_CONVERSATIONS: Final = frozenset({CHAT, RESPONSES})


class FinishedTurn(msgspec.Struct, frozen=True):
    """A turn that has ended well.

    Attributes:
        call: The call with the body that the model got, of chat or Responses.
        answer: Puts the answer together as the next turn will hold it: a message in chat, a list of
            items in Responses; None where that is not known. It takes milliseconds for a long one,
            and may run on a thread.
    """

    call: Call
    answer: Callable[[], bytes | None]


def finished_turn(info: AttemptInfo, meter: Meter | None) -> FinishedTurn | None:
    """The turn of an attempt that is over; None where it has none that could be gone on from."""
    call = info.sent_call
    is_turn = call.endpoint in _CONVERSATIONS and call.fields is not None
    is_over = meter is not None and not meter.is_broken and meter.is_complete
    if not is_turn or meter is None or not is_over or call.is_unattended:
        return None
    if info.continued is not None:
        return None  # its answer is a part
    planned = info.planned
    body = planned.body if isinstance(planned, Planned) else remove_body_tags(call.body)
    sent_call = call if body is call.body else msgspec.structs.replace(call, body=body)
    return FinishedTurn(sent_call, _answer(info, call.endpoint, meter))


def _answer(info: AttemptInfo, endpoint: str, meter: Meter) -> Callable[[], bytes | None]:
    """Puts the answer together from what the upstream wrote, in its own API."""
    if endpoint == CHAT:
        return lambda: meter.assistant_message(_MAX_ANSWER_BYTES)
    if info.route is None or speaks_endpoint(info.route, endpoint):
        return lambda: meter.output_items(_MAX_ANSWER_BYTES)
    return lambda: items_of_message(meter.assistant_message(_MAX_ANSWER_BYTES))
