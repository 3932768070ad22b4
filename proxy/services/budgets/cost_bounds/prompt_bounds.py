"""Upper bounds of a prompt's tokens, from its bytes alone.

Four bytes are one token on average of English. Digits, base64, punctuation and rare letters are up
to one token a byte, and no token is less than a byte. So bytes bound a prompt that is all text. A
prompt of which a part lies elsewhere (pictures, files, what the provider keeps) may fill the
model's window, whatever its body weighs.
"""

import asyncio
from typing import Final

from proxy.catalog.entries import Route
from proxy.tokens.wholeness import is_plain, is_whole

#: Bodies up to this size are at first not counted.
SMALL_BODY_BYTES: Final = 16 * 1024
#: Bodies up to this size are looked through on the event loop, in half a millisecond.
_MAX_INLINE_BYTES: Final = 64 * 1024
#: Tokens that a model's chat template may add to any prompt (gpt-oss: about 70).
_TEMPLATE_TOKENS: Final = 256
#: Likewise to one with tools or schemas. Source: Anthropic, tool use, pricing (2026-11): 346 for
#: any tools, 245 and 700 for its own shell and editor.
_TOOLS_TEMPLATE_TOKENS: Final = 2_048


def text_bound(body: bytes, route: Route) -> int:
    """The most tokens that a body of texts can be.

    Args:
        body: As it is sent.
        route: Route of the call; its window is the most that is read.
    """
    is_bare = len(body) <= SMALL_BODY_BYTES and is_plain(body)  # looking costs more than it tells
    bound = len(body) + (_TEMPLATE_TOKENS if is_bare else _TOOLS_TEMPLATE_TOKENS)
    return bound if route.window is None else min(bound, route.window)


async def prompt_bound(body: bytes, request_body: bytes, endpoint: str, route: Route) -> int | None:
    """The most tokens that a prompt can have; None where unknown.

    Args:
        body: As it is sent.
        request_body: As the caller sent it.
    """
    if route.window is not None and len(body) >= route.window:
        return route.window
    if len(request_body) <= _MAX_INLINE_BYTES:
        is_all = is_whole(request_body, endpoint)
    else:
        is_all = await asyncio.to_thread(is_whole, request_body, endpoint)
    return text_bound(body, route) if is_all else route.window
