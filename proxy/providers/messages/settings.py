"""Facts of a Messages request that the translation of its answer needs."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Literal

import msgspec

from proxy.providers.messages.body import MessagesBody
from proxy.providers.messages.target import ChatTarget
from proxy.tokens.text_size import text_tokens

#: Fate of an answer's reasoning: shown as thinking, kept in its signature alone, or left out.
ThinkingDisplay = Literal["shown", "sealed", "hidden"]


class AnswerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a request that the way back needs.

    Attributes:
        tool_names: The caller's names of tools by those that were sent, where they differ.
        digest: Stands for ids that the upstream does not give.
        prompt_tokens: Estimated tokens of the prompt, for as long as the upstream reports none.
    """

    model: str
    tool_names: Mapping[str, str] = {}
    thinking: ThinkingDisplay = "hidden"
    stops: frozenset[str] = frozenset()
    digest: str = ""
    prompt_tokens: int = 0


def answer_settings(
    request: MessagesBody, tool_names: Mapping[str, str], body: bytes, target: ChatTarget
) -> AnswerSettings:
    """The settings for one request."""
    return AnswerSettings(
        model=request.model,
        tool_names=tool_names,
        thinking=_display(request, target),
        stops=frozenset(request.stop_sequences or ()),
        digest=sha256(body).hexdigest()[:24],
        prompt_tokens=text_tokens(body),
    )


def _display(request: MessagesBody, target: ChatTarget) -> ThinkingDisplay:
    """Shown where thinking was asked for; what the upstream wants to see again is never lost."""
    thinking = request.thinking
    if thinking is None or thinking.type == "disabled":
        return "hidden"
    if thinking.display != "omitted":
        return "shown"
    keeps = target.thinking in {"text", "sealed"} or target.takes_call_extras
    return "sealed" if keeps else "hidden"
