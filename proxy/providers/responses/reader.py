"""Writes chat answers, whole or streamed, as Responses answers.

::

    first chunk      created ─ in_progress
    what it gains    output_item.added ─ (see items.py) ─ output_item.done
    the end          completed | incomplete
    a failure        error ─ failed, at any moment; nothing follows

Source: OpenAI API reference, Responses, the response object, streaming events (2026-11).
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final

import msgspec

from proxy.errors import UpstreamError
from proxy.providers.answers.google_finish import failed_chat_finish
from proxy.providers.answers.usage import believable_usage, reported_total
from proxy.providers.chat.answer_reader import Event, answer_reader
from proxy.providers.chat.chat_chunk import Chunk
from proxy.providers.chat.message_order import in_order
from proxy.providers.port import Reader
from proxy.providers.responses.fields import Json, fields
from proxy.providers.responses.namespaces import own_names
from proxy.providers.responses.output import ResponseOutput

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


#: A response's error code by the type of chat's error; all others are the server's.
_CODES: Final = MappingProxyType(
    {"rate_limit_error": "rate_limit_exceeded", "invalid_request_error": "invalid_prompt"}
)
_ERROR: Final = MappingProxyType(
    {"message": "The upstream failed midway.", "type": "api_error", "code": None, "param": None}
)


class ResponseWriter:
    """One answer while it unfolds; a whole completion unfolds in one chunk.

    Attributes:
        response: The response once the answer has ended; None before.
    """

    def __init__(self, body: bytes, created: float) -> None:
        self.response: Json | None = None
        self.answered = False
        self._number = 0
        self._body = body
        self._echo = Echo(request=fields(body), created=created, tail="", model="")
        self._output = ResponseOutput("")
        self._finish: str | None = None
        self._usage: Json | None = None
        self._tier: str | None = None

    @property
    def has_ended(self) -> bool:
        """True once its last event is written."""
        return self.response is not None

    @property
    def is_finished(self) -> bool:
        """True if the model has said why it stopped."""
        return self._finish is not None

    def take(self, chunk: Chunk) -> Iterator[Event]:
        """The events for one chunk; none after the end."""
        if self.response is not None:
            return
        yield from self._begin(chunk.id or "", chunk.model or "")
        if isinstance(chunk.usage, dict) and chunk.usage:
            self._usage = chunk.usage
        self._tier = chunk.service_tier or self._tier
        if chunk.error is not None:
            yield from self._fail(chunk.error)
            return
        for choice in chunk.choices or ():
            if choice.index == 0:
                self.answered = True
                if (failure := failed_chat_finish(choice.finish_reason)) is not None:
                    raise failure
                self._finish = choice.finish_reason or self._finish
                tokens = choice.logprobs.content if choice.logprobs is not None else None
                whole = () if choice.message is None else in_order(choice.message)
                for delta in whole if choice.delta is None else (choice.delta,):
                    yield from self._output.gain(delta, tokens or [])

    def end(self) -> Iterator[Event]:
        """The events at a good end; none if it has ended already."""
        if self.response is not None:
            return
        yield from self._begin("", "")
        reason = INCOMPLETE.get(self._finish or "")
        yield from self._output.end(cut=reason is not None)
        details = None if reason is None else {"reason": reason}
        status = "completed" if reason is None else "incomplete"
        yield self._end_events(status, incomplete_details=details)

    def fail(self, error: UpstreamError) -> Iterator[Event]:
        """The events at a failure; none if it has ended already."""
        return self._fail({"message": error.message, "code": error.code})

    def whole(self) -> Json:
        """The response in one piece, once it has ended."""
        return self.response or {}

    def frame(self, event: Event) -> bytes:
        """An event as bytes, with its number from 0."""
        numbered = msgspec.json.encode(event | {"sequence_number": self._number})
        self._number += 1
        return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), numbered)

    def ping(self) -> bytes:
        """A comment, which has no number."""
        return b": ping\n\n"

    def _fail(self, error: object) -> Iterator[Event]:
        """The events at a failure, from chat's error object."""
        if self.response is not None:
            return
        yield from self._begin("", "")
        fields = _ERROR | _texts(error)
        plain = {name: fields[name] for name in ("code", "message", "param")}
        # Callers of the reference read the fields, OpenAI's SDK raises on `error`.
        yield {"type": "error", **plain, "error": fields}
        code = _CODES.get(fields["type"] or "", "server_error")
        yield self._end_events("failed", error={"code": code, "message": fields["message"]})

    def _begin(self, chat_id: str, model: str) -> Iterator[Event]:
        echo = self._echo
        if echo.tail:
            return
        named = model or str(echo.request.get("model") or "")
        self._echo = Echo(
            request=echo.request,
            created=echo.created,
            tail=id_suffix(chat_id, self._body),
            model=named,
        )
        self._output = ResponseOutput(self._echo.tail, own_names(echo.request))
        for kind in ("created", "in_progress"):
            yield {"type": f"response.{kind}", "response": self._echo.snapshot("in_progress", [])}

    def _end_events(self, status: str, **more: object) -> Event:
        tier: Json = {} if self._tier is None else {"service_tier": self._tier}
        used = None if self._usage is None else usage(self._usage)
        self.response = self._echo.snapshot(
            status, self._output.items(), usage=used, **tier, **more
        )
        return {"type": f"response.{status}", "response": self.response}


def responses_reader(inner: Reader, body: bytes, streamed: bool, created: float) -> Reader:  # noqa: FBT001  # the port's callers name it
    """A reader that gives Responses bytes where ``inner`` gives chat bytes.

    Args:
        body: The caller's own Responses body, which ``chat_body`` has accepted.
        created: Arrival of the call, in seconds since the epoch.
    """
    return answer_reader(inner, ResponseWriter(body, created), streamed=streamed)


def _texts(error: object) -> dict[str, str]:
    """The fields of chat's error object that are what they should be."""
    if not isinstance(error, Mapping):
        return {}
    names = ("message", "type", "code", "param")
    return {name: error[name] for name in names if isinstance(error.get(name), str)}
