"""Reasons for which a candidate of Google's ends, and those that mean that it failed.

Source: Google, Gemini API, Candidate, FinishReason (2026-11).
"""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.failures import redact
from proxy.providers.lenient import UNREADABLE
from proxy.providers.sse import parse_events

#: Chat's reasons by Google's; any other ends the answer.
_REASONS: Final[Mapping[str, str]] = {
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(
        (
            "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII",
            "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "ESCALATION",
            "PUP_LIMITED_DISABLED", "MODEL_ARMOR",
        ),
        "content_filter",
    ),
}  # fmt: skip
#: The model wrote what is no answer; the same call may succeed the next time.
FAILED_REASONS: Final = frozenset(
    {
        "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE", "MISSING_THOUGHT_SIGNATURE", "OTHER",
    }
)  # fmt: skip
_MAX_MESSAGE_CHARS: Final = 500


class GoogleFinish(msgspec.Struct, rename="camel"):
    """The end of a candidate, as far as it has one."""

    index: int = 0
    finish_reason: str | None = None
    finish_message: str | None = None


class _Answer(msgspec.Struct):
    candidates: list[GoogleFinish] = []


_answer: Final = msgspec.json.Decoder(_Answer).decode


def finish_reason(reason: str | None, *, calls: bool) -> str:
    """Chat's reason for Google's."""
    return _REASONS.get(reason or "", "tool_calls" if calls else "stop")


def failed_finish(candidates: Sequence[GoogleFinish]) -> UpstreamError | None:
    """The error of candidates that all failed; None where there are none, or one has not."""
    if not candidates or any(
        candidate.finish_reason not in FAILED_REASONS for candidate in candidates
    ):
        return None
    first = candidates[0]
    return _generation_failure(first.finish_reason or "", first.finish_message or "")


def failed_chat_finish(reason: str | None) -> UpstreamError | None:
    """The error of a reason that Google's OpenAI endpoint gives for a failed candidate.

    It writes ``function_call_filter: MALFORMED_FUNCTION_CALL``.
    """
    name = (reason or "").rpartition(":")[2].strip()
    return _generation_failure(name, "") if name in FAILED_REASONS else None


def _generation_failure(reason: str, words: str) -> UpstreamError:
    message = redact(words)[:_MAX_MESSAGE_CHARS].rstrip(". \n")
    return UpstreamError(
        f"The model failed with {reason}{f': {message}' if message else ''}. Try again.",
        status=502,
        code="upstream_generation_failed",
        retryable=True,
    )


def failed_finish_in(run: bytes) -> UpstreamError | None:
    """The error of the first event in a run of a stream whose candidates all failed."""
    for event in parse_events(run):
        try:
            error = failed_finish(_answer(event.data).candidates)
        except UNREADABLE:
            continue
        if error is not None:
            return error
    return None
