"""Responses calls on routes to Claude and Gemini: said in chat, and back.

What follows in the attempt (compaction, planning, limits, the wire) sees a chat call, as it does
for Messages calls: so cache marks stand where they pay. Its receipt, its errors and its stream stay
those of the caller's own API. Upstreams of OpenAI's kind get such calls from their own wire.
"""

from typing import Final

import msgspec

from proxy.calls.messages_on_chat import TranslatedCall, chat_translation
from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import PassthroughReader
from proxy.providers.responses.names import ParameterNames
from proxy.providers.responses.reader import responses_reader
from proxy.providers.responses.request import chat_body
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import parse_request_fields

_CHAT: Final = "chat/completions"
_RESPONSES: Final = "responses"
#: Endpoints of calls that may have to be said in chat.
CONVERTED_ENDPOINTS: Final = frozenset({MESSAGES, _RESPONSES})


class ResponsesOnChat(msgspec.Struct, frozen=True):
    """A Responses call as a chat call.

    Attributes:
        call: The chat call.
        notes: Changes and omissions.
        names: The caller's names for what the chat body holds.
        body: The caller's own body.
        adapts: False: the wire says all of a chat call in its upstream's words.
    """

    call: Call
    notes: tuple[str, ...]
    names: ParameterNames
    body: bytes
    adapts: bool = False

    def with_reader(self, prepared: PreparedRequest) -> PreparedRequest:
        """The request whose answer is read as one of the Responses API."""
        reader = responses_reader(
            prepared.reader or PassthroughReader(),
            self.body,
            self.call.is_streaming,
            self.call.arrived,
        )
        notes = (*self.notes, *map(self.names.translate_note, prepared.notes))
        return msgspec.structs.replace(prepared, reader=reader, notes=notes)

    def translate_error(self, error: CallerError) -> CallerError:
        """An error about the chat call with the caller's names of fields."""
        return self.names.translate_error(error)


def call_on_chat(call: Call, route: Route) -> TranslatedCall | ResponsesOnChat | None:
    """A call of Anthropic's API or of Responses in chat; None where its route takes it as it is.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    return responses_on_chat(call, route) or chat_translation(call, route)


def responses_on_chat(call: Call, route: Route) -> ResponsesOnChat | None:
    """The call in chat; None where its route's wire takes it in another way.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    is_asked = call.endpoint == _RESPONSES and call.method == "POST"
    if not is_asked or route.upstream.kind == "openai":
        return None
    asked = chat_body(
        call.body,
        compacts=route.upstream.speaks_messages,
        drops_hosted=route.upstream.drops_server_tools,
        takes_custom=False,
    )
    said = msgspec.structs.replace(
        call,
        endpoint=_CHAT,
        query="",
        body=asked.body,
        fields=parse_request_fields(asked.body),
    )
    return ResponsesOnChat(said, asked.notes, asked.names, call.body)
