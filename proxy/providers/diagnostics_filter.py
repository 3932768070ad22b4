"""Removes the cache diagnostics that only the gateway asked for from a Responses answer.

::

    response    prompt_cache_diagnostics        taken out
                prompt_cache_options            without comparison_response_id

Everything else stays as it was written, and an event without either goes on byte for byte.

Source: OpenAI, prompt cache diagnostics (2026-09) and openai 3.52.
"""

import re
from typing import Final

from proxy.prefix.prompts.objects import Unplannable, members, write_object

_ANSWER: Final = "prompt_cache_diagnostics"
_OPTIONS: Final = "prompt_cache_options"
_ASKED: Final = "comparison_response_id"
_RESPONSE: Final = "response"
_TELLS: Final = re.compile(rb'"(?:prompt_cache_diagnostics|comparison_response_id)"\s*:')
#: The data of an event, which is one line in every stream of OpenAI's.
_DATA: Final = re.compile(rb"^(data: ?)(\{.*\})", re.MULTILINE)


class DiagnosticsFilter:
    """Passes an answer on without the diagnostics of its cache."""

    def __init__(self, *, streamed: bool) -> None:
        self._streamed = streamed

    def feed(self, piece: bytes) -> bytes:
        """The piece; a run of whole events, or all of a JSON answer."""
        if _TELLS.search(piece) is None:
            return piece
        if not self._streamed:
            return _strip_response(piece)
        return _DATA.sub(lambda found: found[1] + _strip_response(found[2]), piece)

    def end(self) -> bytes:
        """Nothing is held back."""
        return b""


def _strip_response(raw: bytes) -> bytes:
    """A response, or an event that holds one, without it; as it is where it cannot be read."""
    if _TELLS.search(raw) is None:
        return raw
    try:
        found = members(raw)
        inner = found.get(_RESPONSE)
        if inner is None:
            return _without_diagnostics(raw)
        return write_object({**found, _RESPONSE: _without_diagnostics(inner)})
    except Unplannable:
        return raw


def _without_diagnostics(response: bytes) -> bytes:
    found = members(response)
    kept = {name: value for name, value in found.items() if name != _ANSWER}
    options = kept.get(_OPTIONS, b"null")
    if options[:1] == b"{" and _ASKED in (said := members(options)):
        del said[_ASKED]
        kept[_OPTIONS] = write_object(said)
    return response if kept == found else write_object(kept)
