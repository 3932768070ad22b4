"""One recorded call from one line of JSON: our own form, a batch file's, or a ledger export's.

::

    {"t": 0.0, "conversation": "c1", "key": "k", "feature": "f", "body": {…}, "reply": {…}}
    {"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": {…}}
    {"custom_id": "2", "method": "POST", "url": "/v1/messages", "body": {…}}
    {"started": 1.79e9, "conversation": "…", "key_id": "key_…", "feature": "f", "prompt": "{…}"}

The last is a receipt as JSON; its prompt is there where the team keeps prompts. Of a call's
receipts only the final one counts, and its usage tells how much was generated.
"""

import re
from typing import Any, Final

import msgspec
import orjson

from proxy.errors import OperatorError
from proxy.records.call import MESSAGES
from proxy.records.origin import UncompactedConversation
from slo.usage import Usage

_CHAT: Final = "chat/completions"
_NONE: Final = msgspec.Raw(b"null")
#: Seconds; what is beyond is counted in something smaller.
_LATEST: Final = 1e11
#: Characters of a reason.
_WORDS: Final = 200
#: Pattern of msgspec's messages.
_EXPECTED: Final = re.compile(r"Expected `(\w+)[^`]*`, got `(\w+)`(?: - at `\$\.([\w.]+)[^`]*`)?")
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`")
_BYTE: Final = re.compile(r"\(byte (\d+)\)")
_KINDS: Final = {
    "array": "a list", "bool": "true or false", "float": "a number", "int": "a number",
    "null": "null", "object": "an object", "str": "a text",
}  # fmt: skip


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded call.

    Attributes:
        at: Time at which it was made, in seconds from any moment; None where nobody says.
        conversation: Conversation that it is a part of; "" where nobody says.
        key: Key of the caller.
        feature: Feature that asks.
        body: The chat body, or that of a Messages call.
        reply: The assistant's message as JSON; "null" where it was not recorded.
        generated: Tokens of the answer, where they are known without its text; None if not.
        where: The file and the line it comes from, as ``file:line``; "" for nowhere.
        origin: Whence its body was shortened; None where it is the caller's own.
        is_native: True if it is a Messages call.
    """

    at: float | None
    conversation: str = ""
    key: str = ""
    feature: str = ""
    body: bytes
    reply: bytes = b"null"
    generated: int | None = None
    where: str = ""
    origin: UncompactedConversation | None = None
    is_native: bool = False


class _Row(msgspec.Struct):
    """Every form at once."""

    t: float | None = None
    conversation: str | int | None = None
    key: str | None = None
    feature: str | None = None
    body: msgspec.Raw = _NONE
    reply: msgspec.Raw = _NONE
    method: str = "POST"
    url: str = _CHAT
    started: float | None = None
    key_id: str = ""
    endpoint: str = _CHAT
    final: bool = True
    prompt: str | None = None
    usage: Usage | None = None


class _Body(msgspec.Struct):
    messages: list[msgspec.Raw]


_row = msgspec.json.Decoder(_Row).decode
_body = msgspec.json.Decoder(_Body).decode


def parse_line(raw: bytes) -> RecordedCall:
    """The recorded call.

    Raises:
        Unreadable: If it is none, or one that cannot be replayed.
    """
    what = "it"
    try:
        row = _row(raw)
        what = "its body" if row.prompt is None else "its prompt"
        body = row.prompt.encode() if row.prompt is not None else bytes(row.body)
        if body == b"null":
            raise OperatorError("it has neither a body nor a prompt")
        empty = not _body(body).messages
        body, reply = _normalize_body(body), _normalize_reply(bytes(row.reply))
    except (msgspec.DecodeError, orjson.JSONDecodeError, UnicodeError, RecursionError) as error:
        raise OperatorError(f"{what} {_error_text(error)}"[:_WORDS]) from None
    if empty:
        raise OperatorError("its body has no messages")
    _check(row)
    at = row.t if row.t is not None else row.started
    if at is not None and abs(at) > _LATEST:
        raise OperatorError("its time is not in seconds")
    return RecordedCall(
        at=at,
        conversation="" if row.conversation is None else str(row.conversation),
        key=row.key or row.key_id,
        feature=row.feature or "",
        body=body,
        reply=reply,
        generated=None if row.usage is None else row.usage.generated_tokens,
        is_native=_is_native(row),
    )


def _error_text(error: Exception) -> str:
    """The error as the rest of a sentence, without any text of the line."""
    said = str(error)
    if found := _EXPECTED.fullmatch(said):
        wanted, got, path = found.groups()
        other = f"{_KINDS.get(got, 'something')} where {_KINDS.get(wanted, 'another')} is needed"
        return f"has as `{path}` {other}" if path else f"is {other}"
    if found := _MISSING.match(said):
        return f"has no `{found[1]}`"
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    return f"is not JSON{_from(said)}"


def _from(said: str) -> str:
    """The offset at which JSON ends to be some, as far as that is told."""
    if "truncated" in said:
        return ": it ends too early"
    at = _BYTE.search(said)
    return f", from byte {int(at[1]) + 1} on" if at else ""


def _check(row: _Row) -> None:
    """Pass what is a chat call or a Messages call.

    Raises:
        Unreadable: If it is none.
    """
    is_chat = row.url.endswith(_CHAT) and row.endpoint == _CHAT
    if row.method != "POST" or not (is_chat or _is_native(row)):
        raise OperatorError("it is no chat completion and no Messages call")
    if not row.final:
        raise OperatorError("it is an attempt before the final one")


def _is_native(row: _Row) -> bool:
    """True if a line is a Messages call, by its path or its receipt's endpoint."""
    return row.url.partition("?")[0].endswith("/messages") or row.endpoint == MESSAGES


def _normalize_body(body: bytes) -> bytes:
    """The body; tool calls that an agent's log keeps in short are written out."""
    if b'"args"' not in body:
        return body
    found = orjson.loads(body)
    changed = [_expand_short_calls(message) for message in found["messages"]]
    return orjson.dumps(found) if any(changed) else body


def _normalize_reply(reply: bytes) -> bytes:
    if b'"args"' not in reply:
        return reply
    found = orjson.loads(reply)
    return orjson.dumps(found) if _expand_short_calls(found) else reply


def _expand_short_calls(message: Any) -> bool:  # noqa: ANN401 - JSON
    """True if the message had calls in short, ``{"function": name, "args": {…}}``; now it has none.

    AgentDojo's logs are so written, and no API would take them.
    """
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    if not isinstance(calls, list):
        return False
    short = [at for at, call in enumerate(calls) if _is_short(call)]
    for at in short:
        call = calls[at]
        function = {"name": call["function"], "arguments": orjson.dumps(call["args"]).decode()}
        calls[at] = {"id": call.get("id"), "type": "function", "function": function}
    return bool(short)


def _is_short(call: object) -> bool:
    return isinstance(call, dict) and isinstance(call.get("function"), str) and "args" in call
