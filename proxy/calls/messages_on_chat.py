"""Calls of Anthropic's API on routes whose upstream speaks OpenAI's: said in chat, and back.

What follows in the attempt (compaction, planning, limits, the wire) sees a chat call. Its receipt,
its errors and its stream stay those of the caller's own API.
"""

from typing import Final

import msgspec

from proxy.catalog.entries import Route
from proxy.errors import CallerError
from proxy.prefix.layouts.agent_shapes import without_attribution
from proxy.providers.messages.reader import messages_reader
from proxy.providers.messages.request import chat_request
from proxy.providers.messages.settings import AnswerSettings
from proxy.providers.messages.target import chat_target
from proxy.providers.port import PreparedRequest
from proxy.providers.readers import PassthroughReader
from proxy.records.call import MESSAGES, Call
from proxy.records.request_fields import parse_request_fields

_CHAT: Final = "chat/completions"
_NOTE: Final = "translated to chat completions"
#: Headers of Anthropic's API, which say nothing to others.
_OWN_HEADERS: Final = frozenset({"anthropic-beta", "anthropic-version"})


class TranslatedCall(msgspec.Struct, frozen=True):
    """A call of Anthropic's API as a chat call.

    Attributes:
        call: The chat call.
        notes: Changes and omissions.
        settings: Facts that the way back needs.
        adapts: True: the chat call is adapted to what the route's model takes.
    """

    call: Call
    notes: tuple[str, ...]
    settings: AnswerSettings
    adapts: bool = True

    def with_reader(self, prepared: PreparedRequest) -> PreparedRequest:
        """The request whose answer is read as one of Anthropic's API."""
        reader = messages_reader(
            prepared.reader or PassthroughReader(), self.settings, streamed=self.call.is_streaming
        )
        notes = (_NOTE, *self.notes, *prepared.notes)
        return msgspec.structs.replace(prepared, reader=reader, notes=notes)

    def translate_error(self, error: CallerError) -> CallerError:
        """An error about the chat call, as it is: most fields have the same names."""
        return error


def chat_translation(call: Call, route: Route) -> TranslatedCall | None:
    """The call in chat; None where its route's upstream takes it as it is.

    Raises:
        CallerError: If it is malformed, or cannot be said without changing its meaning.
    """
    is_asked = call.endpoint == MESSAGES and call.method == "POST"
    if not is_asked or route.upstream.speaks_messages:
        return None
    drops = route.upstream.drops_server_tools
    asked = chat_request(
        without_attribution(call.body), chat_target(route, drops_server_tools=drops)
    )
    headers = {name: value for name, value in call.headers.items() if name not in _OWN_HEADERS}
    said = msgspec.structs.replace(
        call,
        endpoint=_CHAT,
        query="",
        headers=headers,
        body=asked.body,
        fields=parse_request_fields(asked.body),
    )
    return TranslatedCall(said, asked.notes, asked.settings)
