"""What a call needs of a model, and whether one has it; pure."""

from typing import Any, Final

import msgspec

from proxy.call import Call
from proxy.catalog.entries import Model, Route
from slo.ladder import Offers, Wants
from slo.ladder import unfit as lacking

#: Bytes of a body for each token of its prompt, about: what turns out to be longer is refused by
#: its upstream, and goes on from there.
_BYTES: Final = 4
#: Parts of a message that are no text, in chat and in Responses calls: what takes one takes all.
#: Source: OpenAI API reference, create chat completion, create a response (2026-11).
_NO_TEXT: Final = (
    b'"image_url"', b'"input_image"', b'"file"', b'"input_file"', b'"input_audio"',
)  # fmt: skip

#: What every part of a message has that is not just a string; looked for first, for it is quick.
_PART: Final = b'"type"'


class _Fields(msgspec.Struct):
    """What a body says of how it is to be answered."""

    tools: msgspec.Raw = msgspec.Raw(b"")
    functions: msgspec.Raw = msgspec.Raw(b"")
    response_format: Any = None
    text: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None


#: How a body says that there are none.
_NONE: Final = (b"", b"null", b"[]", b"{}", b"false")
_FIELDS: Final = msgspec.json.Decoder(_Fields)


def wants(call: Call, region: str = "") -> Wants:
    """What the call needs; where its texts look like more, more.

    Args:
        call: The call.
        region: Where it is to be processed; "" for anywhere.
    """
    try:
        fields = _FIELDS.decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        fields = _Fields()
    limits = (fields.max_completion_tokens, fields.max_tokens, fields.max_output_tokens)
    return Wants(
        tools=any(bytes(each) not in _NONE for each in (fields.tools, fields.functions)),
        schema=_is_schema(fields.response_format) or _is_schema(fields.text),
        vision=_PART in call.body and any(kind in call.body for kind in _NO_TEXT),
        tokens=len(call.body) // _BYTES,
        output=next((limit for limit in limits if isinstance(limit, int)), 0),
        region=region,
    )


def unfit(call: Call, model: Model, region: str = "") -> str:
    """Why no route of the model can answer the call in another's place; "" if one can."""
    if call.ask is not None and call.ask.needs_kept_state:
        return "It goes on with what another upstream keeps."
    return amiss(wants(call, region), model)


def amiss(wanted: Wants, model: Model) -> str:
    """What every route of the model lacks of what is wanted; "" if one lacks nothing."""
    found = ""
    for route in model.routes:
        lack = lacking(wanted, offers(route))
        if not lack:
            return ""
        found = found or lack
    return found


def offers(route: Route) -> Offers:
    """What a route has."""
    return Offers(
        can=route.can,
        window=route.window,
        max_output=route.max_output,
        region=route.upstream.region,
    )


def _is_schema(said: object) -> bool:
    """Whether a chat call's response_format, or a Responses call's text, is a schema."""
    if not isinstance(said, dict):
        return False
    inner = said.get("format")
    kinds = (said.get("type"), inner.get("type") if isinstance(inner, dict) else None)
    return "json_schema" in kinds
