"""Rules for calls to a provider's account that several teams share, and for the cache they see."""

from difflib import get_close_matches
from typing import Final

from proxy.errors import CallerError
from proxy.providers.messages.request import THREAD, UNSUPPORTED_THREAD
from proxy.records.call import Call

#: Paths that a provider answers from the call alone, without what it keeps under its account. No
#: other spelling of these paths may avoid how they are read and held to limits.
#: Source: OpenAI API reference; Anthropic API reference (2026-11).
SELF_CONTAINED: Final = frozenset(
    {
        "audio/speech",
        "audio/transcriptions",
        "audio/translations",
        "chat/completions",
        "completions",
        "embeddings",
        "images/edits",
        "images/generations",
        "images/variations",
        "messages",
        "messages/count_tokens",
        "moderations",
        "rerank",
        "responses",
        "responses/compact",
        "responses/input_tokens",
    }
)
#: Those of them whose body may go on from what the provider keeps.
#: Source: openai 3.52, parameters of responses, its compact and its input_tokens; anthropic 2.11,
#: parameters of beta messages and count_tokens (2026-11).
_CONTINUING_PATHS: Final = frozenset(
    {
        "messages",
        "messages/count_tokens",
        "responses",
        "responses/compact",
        "responses/input_tokens",
    }
)
#: Beginnings of paths that list, fetch or change what a provider keeps.
#: Source: OpenAI API reference (2026-11).
_STATE_PREFIXES: Final = (
    "assistants", "batches", "chat/completions", "containers", "conversations", "evals", "files",
    "fine_tuning", "messages", "models", "responses", "skills", "threads", "uploads",
    "vector_stores", "videos",
)  # fmt: skip
#: Call that lists the answers a provider keeps, instead of asking for one.
#: Source: OpenAI API reference, list chat completions (2026-11).
_LIST_COMPLETIONS: Final = ("GET", "chat/completions")
_HOW_TO_ALLOW: Final = (
    "The gateway's operator can allow that: THRIFTGATE_SHARED_PROVIDER_STATE=true."
)
_KEPT_STATE: Final = "what the provider keeps for all teams of this gateway"
_REALTIME: Final = "realtime"
#: Paths at which a provider gives out tokens of its own, with which calls go past the gateway.
#: Source: OpenAI API reference, Realtime client secrets, ChatKit sessions (2026-11).
_TOKEN_ISSUERS: Final = frozenset({"chatkit", _REALTIME})
#: README says the same.
NO_REALTIME: Final = "WebSockets and Realtime sessions are refused: they cannot be metered."
#: Least similarity between a path and the one that was meant: chat/completion passes,
#: images/variations does not.
_MIN_PATH_SIMILARITY: Final = 0.9


def websocket_refusal() -> CallerError:
    """The error for a handshake for a WebSocket, which must be sent over HTTP instead.

    Source: RFC 9110, section 15.5.22 (2022-06). Codex turns to HTTP at once on this status and
    tries again for some seconds on any other (openai/codex#43353, 2026-09).
    """
    error = CallerError(
        f"{NO_REALTIME} Ask /v1/responses or /v1/chat/completions over HTTP.",
        code="websocket_unsupported",
        status=426,
    )
    error.headers = {"connection": "upgrade", "upgrade": "HTTP/1.1"}
    return error


def check_isolated(call: Call, teams: int) -> None:
    """Keep teams from each other's state with a provider, and from tokens that evade the gateway.

    Raises:
        CallerError: If the call may not go there, its path is but a slip of one that is open to
            all, or its path takes POST alone.
    """
    if (first := call.endpoint.partition("/")[0]) in _TOKEN_ISSUERS:
        if first == _REALTIME:
            raise _forbid_realtime(call)
        raise _forbid(call, "gives out the provider's own tokens, which go past this gateway")
    if call.method != "POST" and call.endpoint in SELF_CONTAINED:
        _check_method(call, teams)
    elif teams > 1 and not _is_self_contained(call):
        if likely := _likely_path(call.endpoint):
            raise CallerError(
                f"There is no path /v1/{call.endpoint}; did you mean /v1/{likely}?",
                code="unknown_path",
                status=404,
            )
        raise _forbid(call, _reason(call), _continuing_field(call))


def _check_method(call: Call, teams: int) -> None:
    """Refuse what can only have meant POST; a team alone may list what the provider keeps of it."""
    is_listing = (call.method, call.endpoint) == _LIST_COMPLETIONS
    if is_listing and teams <= 1:
        return
    message = f"/v1/{call.endpoint} is not asked by {call.method[:20]}; did you mean POST?"
    if is_listing:
        message += f" It would list {_KEPT_STATE}. {_HOW_TO_ALLOW}"
    error = CallerError(message, code="method_not_allowed", status=405)
    error.headers = {"allow": "POST"}
    raise error


def _is_self_contained(call: Call) -> bool:
    """True if it is answered from itself alone, as far as its body could be read."""
    if call.endpoint not in SELF_CONTAINED:
        return False
    if call.endpoint not in _CONTINUING_PATHS:
        return True
    return call.fields is not None and not call.fields.needs_kept_state


def _likely_path(endpoint: str) -> str:
    """The path that was meant; "" where it is one we know, one below it, or like none."""
    if any(f"{endpoint}/".startswith(f"{path}/") for path in SELF_CONTAINED):
        return ""
    return next(
        iter(get_close_matches(endpoint[:100], sorted(SELF_CONTAINED), 1, _MIN_PATH_SIMILARITY)), ""
    )


def _continuing_field(call: Call) -> str | None:
    """The field by which it goes on from what the provider keeps; None for none."""
    if call.endpoint not in _CONTINUING_PATHS or call.fields is None:
        return None
    return call.fields.kept_state_field or None


def _reason(call: Call) -> str:
    """Reason that a call of one of several teams may not go to a provider's account."""
    if field := _continuing_field(call):
        if field == "background":
            return f"leaves its answer with {_KEPT_STATE} (`background`)"
        return f"goes on from {_KEPT_STATE} (`{field}`)"
    if call.endpoint in _CONTINUING_PATHS:
        return f"has a body that is no JSON object, so it may go on from {_KEPT_STATE}"
    if any(f"{call.endpoint}/".startswith(f"{prefix}/") for prefix in _STATE_PREFIXES):
        return f"reaches {_KEPT_STATE}"
    return f"goes to a path that the gateway does not know, so it may reach {_KEPT_STATE}"


def _forbid_realtime(call: Call) -> CallerError:
    return CallerError(
        f"{NO_REALTIME} This call to /v1/{call.endpoint[:100]} would open one with the provider,"
        f" past the gateway and its budgets. {_HOW_TO_ALLOW}",
        code="realtime_unsupported",
        status=403,
    )


def _forbid(call: Call, why: str, param: str | None = None) -> CallerError:
    error = CallerError(
        f"This call to /v1/{call.endpoint[:100]} {why}. {_HOW_TO_ALLOW}",
        code="provider_state_is_shared",
        param=param,
        status=403,
    )
    if param == THREAD:
        error.details = UNSUPPORTED_THREAD
    return error
