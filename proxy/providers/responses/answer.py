"""The response object: what it repeats of its request, what it was called, what it used.

Source: OpenAI API reference, Responses, the response object (2026-11).
"""

from collections.abc import Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec

from proxy.providers.answers.usage import believable_usage, reported_total
from proxy.providers.responses.fields import Json

#: Reasons for an incomplete answer, by chat's ``finish_reason``; all others are complete.
INCOMPLETE: Final = MappingProxyType(
    {"length": "max_output_tokens", "content_filter": "content_filter"}
)
_REPEATED: Final = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "safety_identifier",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
)


class Echo(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that are alike in every snapshot of one response.

    Attributes:
        created: Time of the answer, in seconds since the epoch.
        tail: Suffix of its ids; from the chat id, so that both can be matched.
    """

    request: Json
    created: float
    tail: str
    model: str

    def snapshot(self, status: str, output: list[Json], **more: object) -> Json:
        """The response as it is now; ``more`` sets fields such as ``usage`` and ``error``."""
        request = self.request
        same = {name: request.get(name) for name in _REPEATED}
        changed = {
            "id": f"resp_{self.tail}",
            "object": "response",
            "created_at": int(self.created),
            "status": status,
            "background": False,
            "error": None,
            "incomplete_details": None,
            "metadata": request.get("metadata") or {},
            "model": self.model,
            "output": output,
            "parallel_tool_calls": request.get("parallel_tool_calls") is not False,
            "previous_response_id": None,
            "prompt_cache_options": _caching(request.get("prompt_cache_options")),
            "service_tier": request.get("service_tier"),
            "store": False,
            "text": {"format": {"type": "text"}} | _without_absent(request.get("text")),
            "tool_choice": request.get("tool_choice") or "auto",
            "tools": [_tool(tool) for tool in request.get("tools") or []],
            "truncation": "disabled",
            "usage": None,
        }
        return same | changed | more


def id_suffix(chat_id: str, body: bytes) -> str:
    """The suffix of a response's ids: the chat id's own ending, or a digest of the request."""
    return chat_id.removeprefix("chatcmpl-") or sha256(body).hexdigest()[:32]


def usage(reported: Mapping[str, Any]) -> Json | None:
    """Chat's counts under their Responses names, read as the ledger reads them; None for none."""
    counts = believable_usage(reported)
    if counts is None:
        return None
    used, made = counts.prompt_tokens, counts.generated_tokens
    return {
        "input_tokens": used,
        "input_tokens_details": {
            "cached_tokens": counts.cache_read,
            "cache_write_tokens": counts.cache_write_tokens,
        },
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": counts.reasoning},
        "total_tokens": reported_total(reported) or used + made,
    }


def _caching(options: Json | None) -> Json | None:
    """The cache options in full, with the defaults that were left out."""
    return (
        None if options is None else {"mode": "implicit", "ttl": "30m"} | _without_absent(options)
    )


def _tool(tool: Json) -> Json:
    """The tool with the fields that its model requires, null where nobody gave them."""
    needed: dict[str, Any] = {"parameters": None, "strict": None}
    return needed | tool if tool.get("type") == "function" else tool


def _without_absent(fields: Json | None) -> Json:
    return {name: value for name, value in (fields or {}).items() if value is not None}
