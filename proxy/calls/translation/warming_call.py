"""The call that has an engine's replica read a prompt: the same prompt, for one token."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from proxy.calls.eligibility.eligibility import CHAT, RESPONSES
from proxy.records.call import MESSAGES, WARMING_PREFIX, Call
from proxy.records.request_fields import parse_request_fields

#: Fields that are about an answer, of which there is none.
_ABOUT_ANSWERS: Final = (
    "background", "max_completion_tokens", "n", "prediction", "stream_options",
)  # fmt: skip
_NO_STREAM: Final = {"stream": msgspec.Raw(b"false")}
_ONE: Final = msgspec.Raw(b"1")
#: Fields by which each API answers with one token, and keeps nothing.
_ONE_TOKEN: Final[Mapping[str, Mapping[str, msgspec.Raw]]] = MappingProxyType(
    {
        CHAT: {"max_tokens": _ONE, **_NO_STREAM},
        RESPONSES: {"max_output_tokens": _ONE, "store": msgspec.Raw(b"false"), **_NO_STREAM},
        MESSAGES: {"max_tokens": _ONE, **_NO_STREAM},
    }
)

_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def warming_call(call: Call) -> Call:
    """The call for one token that warms the prompt of a chat, Responses or Messages call."""
    fields = _fields(call.body)
    for name in _ABOUT_ANSWERS:
        fields.pop(name, None)
    body = msgspec.json.encode({**fields, **_ONE_TOKEN[call.endpoint]})
    return msgspec.structs.replace(
        call,
        body=body,
        fields=parse_request_fields(body),
        feature=f"{WARMING_PREFIX}{call.feature}",
        compaction="off",
    )
