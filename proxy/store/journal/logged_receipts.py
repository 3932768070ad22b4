"""Receipts as lines of the log: where the journal writes them as a last resort, and back.

::

    … CRITICAL proxy.store.journal.journal a receipt is in no journal, only here: 1f2e3d4c {…}

Read are such lines, also behind what a log collector puts in front, or as the message in a JSON
object of its own; and receipts as ``thriftgate export`` prints them. A line that begins as another
part of the gateway's log is never taken for a receipt, whatever a caller had it say.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

import msgspec

from proxy.errors import OperatorError
from proxy.records.receipt import Receipt
from proxy.store.journal.lines import decode, frame, strip_frame, unframe

#: Text in the log before a receipt.
MARKER: Final = "a receipt is in no journal, only here: "
#: Logger of the line.
LOGGER_NAME: Final = "proxy.store.journal.journal"
#: Beginning of each line of the gateway's log; the name of what wrote it is the group.
_BEGINNING: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ (\S+) ")
_ID: Final = re.compile(r"call_[0-9a-f]{32}")
_NOT_ASCII: Final = re.compile(r"[^\x00-\x7f]+")
#: Keys under which log collectors keep a line in an object of their own.
_MESSAGES: Final = ("log", "message", "msg", "MESSAGE", "line", "text", "textPayload", "body")
_PROMPT: Final = re.compile(r',"prompt":"(?:[^"\\]|\\.)*"')


def to_log_line(framed: bytes) -> str:
    """A line of the journal for the log, behind ``MARKER``.

    It is without the prompt that it may hold, for logs are read by other people; and it is ASCII,
    whatever encoding the log has.
    """
    line = _PROMPT.sub("", strip_frame(framed).decode())
    line = _NOT_ASCII.sub(lambda match: json.dumps(match[0])[1:-1], line)
    return frame(line.encode())[1:].decode()


def receipt_from_log(line: str) -> Receipt | None:
    """The receipt in a line of a log; None where the line is about something else.

    Raises:
        OperatorError: If the line holds a receipt that is damaged.
    """
    line = line.strip()
    if not line.startswith("{"):
        return _logged_receipt(line)
    try:
        held = msgspec.json.decode(line)
    except msgspec.DecodeError as error:
        if line.startswith('{"call_id":'):
            raise OperatorError(f"it is no whole JSON: {error}") from None
        return _logged_receipt(line)
    if "call_id" in held and "outcome" in held:
        return _decode_receipt(line.encode())
    receipts = (_logged_receipt(text.strip()) for text in _texts(held))
    return next((receipt for receipt in receipts if receipt is not None), None)


def _texts(held: dict[str, object]) -> Iterator[str]:
    """The messages of a log collector's object."""
    values = (held.get(name) for name in _MESSAGES)
    yield from (value for value in values if isinstance(value, str))


def _logged_receipt(text: str) -> Receipt | None:
    """The receipt in a line as the gateway logged it."""
    if (beginning := _BEGINNING.search(text)) is not None:
        if beginning[1] != LOGGER_NAME:
            return None
        text = text[beginning.end() :]
    if not text.startswith(MARKER):
        return None
    piece = text.removeprefix(MARKER).encode("utf8", "replace")
    line = unframe(piece)
    if line is None:
        raise OperatorError("it is damaged or cut: its checksum does not fit")
    return _decode_receipt(line)


def _decode_receipt(line: bytes) -> Receipt:
    try:
        receipt = decode(line)
    except msgspec.DecodeError as error:
        raise OperatorError(f"it is no receipt: {error}") from None
    if not _ID.fullmatch(receipt.call_id):
        raise OperatorError(f"{receipt.call_id[:60]!r} is no id of a call")
    return receipt
