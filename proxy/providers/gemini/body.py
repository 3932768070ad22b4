"""A chat body as Google's wire reads it, and the request that it becomes.

Source: OpenAI API reference, create chat completion; Google, OpenAI compatibility (2026-11).
"""

from typing import Any

import msgspec
from msgspec import Raw

from proxy.providers.chat.chat_body import ChatBody, decode_typed

Json = dict[str, Any]


class GoogleOptions(msgspec.Struct):
    """Google's own options within a chat body."""

    cached_content: str | None = None
    thinking_config: Raw = Raw()


class ExtraBody(msgspec.Struct):
    """Fields that OpenAI's API has not."""

    google: GoogleOptions | None = None


class GeminiChatBody(ChatBody, kw_only=True):
    """The fields that this wire translates or refuses."""

    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    extra_body: ExtraBody | None = None

    @property
    def google(self) -> GoogleOptions:
        """Google's own options; empty where there are none."""
        options = self.extra_body.google if self.extra_body is not None else None
        return options or GoogleOptions()


_body = msgspec.json.Decoder(GeminiChatBody)


def read_chat(body: bytes) -> tuple[GeminiChatBody, frozenset[str]]:
    """The body, and the names of all top-level fields it sets to something other than null."""
    return decode_typed(_body, body)
