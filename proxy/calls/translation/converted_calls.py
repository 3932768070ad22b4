"""Calls of Anthropic's API and of Responses that their route is asked in chat, and back.

Messages calls are said in chat where the upstream does not speak Anthropic's API. Responses calls
are where it is not of OpenAI's kind, whose wire takes such calls itself.

What follows in the attempt (compaction, planning, limits, the wire) sees a chat call: so cache
marks stand where they pay. Its receipt, its errors and its stream stay those of the caller's API.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.prefix.layouts.agent_shapes import without_attribution
from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.request import chat_request
from proxy.providers.messages.target import chat_target
from proxy.providers.port import PreparedRequest, Reader
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
_NOTE: Final = "translated to chat completions"
#: Headers of Anthropic's API, which say nothing to others.
_OWN_HEADERS: Final = frozenset({"anthropic-beta", "anthropic-version"})


class ConvertedCall(msgspec.Struct, frozen=True):
    """A call of another API as a chat call.

    Attributes:
        answer_reader: Makes the reader of the caller's API around one that gives chat.
        names: The caller's names for what the chat body holds; None where most are the same.
        adapts: True: the chat call is adapted to what the route's model takes. False: the wire
            says all of a chat call in its upstream's words.
    """

    call: Call
    notes: tuple[str, ...]
    answer_reader: Callable[[Reader], Reader]
    names: ParameterNames | None = None
    adapts: bool = True

    def with_reader(self, prepared: PreparedRequest, *, recalls: bool = False) -> PreparedRequest:
        """The request whose answer is read as one of the caller's API.

        Args:
            recalls: True if chat is read first, for recalls of the model.
        """
        notes = prepared.notes
        if self.names is not None:
            notes = tuple(map(self.names.translate_note, notes))
        notes = (*self.notes, *notes)
        if recalls:
            reader = self.answer_reader(PassthroughReader())
            return msgspec.structs.replace(prepared, caller_reader=reader, notes=notes)
        reader = self.answer_reader(prepared.reader or PassthroughReader())
        return msgspec.structs.replace(prepared, reader=reader, notes=notes)

    def translate_error(self, error: CallerError) -> CallerError:
        """An error about the chat call with the caller's names of fields."""
        return error if self.names is None else self.names.translate_error(error)


def convert_call(call: Call, route: Route) -> ConvertedCall | None:
    """A call in chat; None where its route takes it as it is.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    return convert_responses(call, route) or convert_messages(call, route)


def convert_messages(call: Call, route: Route) -> ConvertedCall | None:
    """A call of Anthropic's API in chat; None for others, and where its upstream takes it as it is.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    if call.endpoint != MESSAGES or call.method != "POST" or route.upstream.speaks_messages:
        return None
    target = chat_target(route, drops_server_tools=route.upstream.drops_server_tools)
    request = chat_request(without_attribution(call.body), target)
    headers = {name: value for name, value in call.headers.items() if name not in _OWN_HEADERS}
    chat = _chat_call(msgspec.structs.replace(call, headers=headers), request.body)
    reader = partial(messages_reader, settings=request.settings, streamed=chat.is_streaming)
    return ConvertedCall(chat, (_NOTE, *request.notes), reader)


def convert_responses(call: Call, route: Route) -> ConvertedCall | None:
    """A Responses call in chat; None for others, and where its route's wire takes it itself.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    upstream = route.upstream
    if call.endpoint != _RESPONSES or call.method != "POST" or upstream.kind == "openai":
        return None
    request = chat_body(
        call.body,
        compacts=upstream.speaks_messages,
        drops_hosted=upstream.drops_server_tools,
        takes_custom=False,
    )
    chat = _chat_call(call, request.body)
    reader = partial(
        responses_reader, body=call.body, streamed=chat.is_streaming, created=call.arrived
    )
    return ConvertedCall(chat, request.notes, reader, request.names, adapts=False)


def _chat_call(call: Call, body: bytes) -> Call:
    """The same caller's call of chat completions."""
    fields = parse_request_fields(body)
    return msgspec.structs.replace(call, endpoint=_CHAT, query="", body=body, fields=fields)
