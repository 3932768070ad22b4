"""A self-hosted engine's report of one call beside its usage: seconds per phase, draft tokens.

llama.cpp writes ``timings`` and vLLM ``metrics``, into a JSON answer and into the last chunk of a
stream. vLLM's ``time_to_first_token_ms`` begins when the call is scheduled: it is the prefill.
Sources: llama.cpp, tools/server/README.md, timings; vLLM documentation, per-request metrics
(2026-11).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from proxy.providers.answers.usage import token_count
from proxy.providers.lenient import UNREADABLE

#: Longer than any call; what reports more is mistaken.
_MAX_PHASE_S: Final = 86_400.0
#: Bytes of a report; vLLM's detailed acceptance lists every step.
_MAX_REPORT_BYTES: Final = 256 * 1024
_SPECULATION: Final = "speculative_decoding"


class EngineTimings(msgspec.Struct, frozen=True, kw_only=True):
    """An engine's own report of one call; each value is None where it gave none.

    Attributes:
        queue: Seconds until the engine began to work on it.
        prefill: Seconds in which it read the prompt, up to the first token.
        decode: Seconds from the first token to the last.
        draft_tokens: Tokens that a draft proposed.
        accepted_tokens: Those of them that the model took.
    """

    queue: float | None = None
    prefill: float | None = None
    decode: float | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None


_EMPTY: Final = EngineTimings()


def read_timings(timings: bytes, metrics: bytes) -> EngineTimings | None:
    """The report of an answer or of a stream's last chunk; None where there is none.

    Args:
        timings: JSON of llama.cpp's field; b"" where it is missing.
        metrics: The same of vLLM's field.
    """
    if report := _object(timings):
        engine_timings = _llamacpp(report)
    elif report := _object(metrics):
        engine_timings = _vllm(report)
    else:
        return None
    return None if engine_timings == _EMPTY else engine_timings


def _llamacpp(report: Mapping[str, Any]) -> EngineTimings:
    drafted, accepted = _speculation(report, "draft_n", "draft_n_accepted")
    return EngineTimings(
        prefill=_seconds(report, "prompt_ms"),
        decode=_seconds(report, "predicted_ms"),
        draft_tokens=drafted,
        accepted_tokens=accepted,
    )


def _vllm(report: Mapping[str, Any]) -> EngineTimings:
    inner = report.get(_SPECULATION)
    speculation = inner if isinstance(inner, dict) else {}
    drafted, accepted = _speculation(speculation, "num_draft_tokens", "num_accepted_draft_tokens")
    return EngineTimings(
        queue=_seconds(report, "queue_time_ms"),
        prefill=_seconds(report, "time_to_first_token_ms"),
        decode=_seconds(report, "generation_time_ms"),
        draft_tokens=drafted,
        accepted_tokens=accepted,
    )


def _speculation(
    report: Mapping[str, Any], drafted: str, accepted: str
) -> tuple[int | None, int | None]:
    """Draft tokens, and those accepted; both are None unless both are known."""
    proposed, accepted_tokens = token_count(report, drafted), token_count(report, accepted)
    if proposed is None or accepted_tokens is None:
        return None, None
    return proposed, min(accepted_tokens, proposed)


def _seconds(report: Mapping[str, Any], name: str) -> float | None:
    """A time in milliseconds as seconds; None where it is none."""
    value = report.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value / 1000 if 0 <= value <= _MAX_PHASE_S * 1000 else None


def _object(value: bytes) -> dict[str, Any] | None:
    """A short JSON object; None where it is none."""
    if value[:1] != b"{" or len(value) > _MAX_REPORT_BYTES:
        return None
    try:
        report: dict[str, Any] = msgspec.json.decode(value)
    except UNREADABLE:
        return None
    return report
