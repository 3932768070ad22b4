"""The form in which a Messages call is sent to an upstream that speaks chat completions."""

from typing import Final, Literal

import msgspec

from proxy.catalog.entries import Route
from proxy.providers.fitting.chat_forms import serves_by_responses
from proxy.providers.fitting.provider_fields import READS_REASONING, is_openai, serves_claude
from proxy.providers.fitting.substitution import accepted_traits
from proxy.providers.fitting.unseen_parts import can_see
from proxy.providers.gemini.request import MAX_STOPS

#: Form in which the thinking of earlier answers is sent: not at all, as text, block by block, or
#: only blocks that hold encrypted reasoning items of the Responses API.
ThinkingForm = Literal["none", "text", "blocks", "sealed"]
#: Ids of tool calls that an upstream takes: any, 40 characters, or nine letters and digits.
IdForm = Literal["any", "short", "nine"]

#: Providers that accept text only as a string, not as a list of parts.
#: Source: litellm 1.109, transformation for DeepSeek (2026-11).
_PLAIN_TEXT: Final = frozenset({"deepseek"})
#: Source: OpenAI API reference, ``stop`` (2026-11).
_MAX_STOPS: Final = 4
_GOOGLE: Final = "google"


class ChatTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in which upstreams that speak chat completions differ.

    Attributes:
        takes_extras: True if it takes the gateway's own chat fields: ``thinking``, ``is_error``,
            and images in tool messages; so do upstreams that serve Claude by chat completions.
        takes_marks: True if its cache reads cache marks, or planning needs them.
        plain_text: True if several texts of one message are sent as one.
        max_stops: The most stop sequences; None for no limit, 0 if it takes none.
        takes_call_extras: True if it needs the extra fields of its own tool calls sent back, and
            refuses calls without them, as Google does.
        sees: True if its model reads images and files, or the catalog does not say otherwise.
        drops_server_tools: True if tools and edits that only Anthropic runs are left out with a
            note; False refuses them by name.
    """

    thinking: ThinkingForm = "none"
    takes_extras: bool = False
    takes_marks: bool = True
    plain_text: bool = False
    max_output: int | None = None
    max_stops: int | None = None
    ids: IdForm = "any"
    takes_call_extras: bool = False
    user_field: Literal["safety_identifier", "user"] = "user"
    sees: bool = True
    drops_server_tools: bool = False


def chat_target(route: Route, *, drops_server_tools: bool = False) -> ChatTarget:
    """The chat form for a route."""
    provider, traits = route.upstream.provider, accepted_traits(route)
    sees = can_see(route)
    if route.upstream.kind == "gemini":
        return ChatTarget(
            takes_call_extras=True,
            takes_marks=route.regime != "",
            max_output=route.max_output,
            max_stops=MAX_STOPS,
            sees=sees,
            drops_server_tools=drops_server_tools,
        )
    is_claude = serves_claude(route)
    has_extra_sampling = "extra_sampling" in traits
    thinking: ThinkingForm = "text" if has_extra_sampling or provider in READS_REASONING else "none"
    if serves_by_responses(route):
        thinking = "sealed"
    stops = None if has_extra_sampling else _MAX_STOPS
    is_plain = provider in _PLAIN_TEXT  # a mark would split its texts, and its cache reads no marks
    ids: IdForm = "short" if is_openai(route) else "any"
    return ChatTarget(
        thinking="blocks" if is_claude else thinking,
        takes_extras=is_claude,
        takes_marks=route.regime != "" and not is_plain,
        plain_text=is_plain,
        max_output=route.max_output,
        max_stops=stops if "stop" in traits else 0,
        ids="nine" if provider == "mistral" else ids,
        takes_call_extras=provider == _GOOGLE,
        user_field="safety_identifier" if is_openai(route) else "user",
        sees=sees,
        drops_server_tools=drops_server_tools,
    )
