"""The text of an answer's events, and the events by which a stream shows the text of a draft; pure.

The official SDKs pass over them, and put the same answer together as without. In chat they are
chunks without choices whose ``object`` is not a chunk's; in Messages, events before
``message_start``. A stream of Responses must open with ``response.created``, so there they are
comments.

Source: openai 3.52, anthropic 2.11 (2026-11).
"""

from typing import Any, Final

import orjson

from proxy.providers.answers.generated_text import Place, stream_pieces
from proxy.records.call import MESSAGES, Call

#: The name of the events.
DRAFT_EVENT: Final = "thriftgate.draft"
_RESPONSES: Final = "responses"
#: In a Responses stream, the event with a piece of the answer's text.
_TEXT_DELTA: Final = "response.output_text.delta"


def draft_text(endpoint: str, run: bytes) -> str:
    """The text for its reader in a run of whole events: no reasoning, refusals or tool calls.

    Args:
        endpoint: The API of the events: chat, Messages or Responses.
    """
    pieces = stream_pieces(run)
    return "".join(text for place, text in pieces if _is_shown(endpoint, place))


def draft_event(call: Call, model: str, text: str, *, is_last: bool = False) -> bytes:
    """The event of a call's stream with a piece of its draft.

    Args:
        call: The call whose stream shows the draft, in its caller's API.
        model: The public name of the model that drafts.
        text: The piece; "" where only the end is to be said.
        is_last: True if the draft has its end.
    """
    fields: dict[str, Any] = {"model": model, "draft": text}
    if is_last:
        fields["done"] = True
    if call.endpoint in {MESSAGES, _RESPONSES}:
        data = orjson.dumps({"type": DRAFT_EVENT} | fields)
        is_comment = call.endpoint == _RESPONSES
        start = b": thriftgate.draft " if is_comment else b"event: thriftgate.draft\ndata: "
        return start + data + b"\n\n"
    chunk = {"id": call.id, "object": DRAFT_EVENT, "created": int(call.arrived), "choices": []}
    return b"event: thriftgate.draft\ndata: " + orjson.dumps(chunk | fields) + b"\n\n"


def _is_shown(endpoint: str, place: Place) -> bool:
    """True if a piece of text at this place of an event is the answer's own text."""
    if endpoint == _RESPONSES:
        return place[0] == _TEXT_DELTA
    return place[-1] == ("text" if endpoint == MESSAGES else "content")
