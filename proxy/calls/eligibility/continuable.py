"""Says which calls' answers may be continued by another upstream where theirs breaks off; pure.

A guided decoder begins its grammar anew, so what follows would not fit: an answer in a format that
was asked for is not continued.
"""

from typing import Any, Final

import msgspec

from proxy.providers.continuations.continuation_requests import (
    CONTINUED_ENDPOINTS,
    has_open_message,
)
from proxy.records.call import Call

_PLAIN: Final = frozenset({None, "text"})


class _Format(msgspec.Struct):
    type: Any = None


class _Output(msgspec.Struct):
    format: _Format | None = None


class _AnswerForm(msgspec.Struct):
    """The members of a body that rule out that its answer is continued."""

    n: Any = None
    response_format: _Format | None = None
    text: _Output | None = None
    output_config: _Output | None = None
    audio: Any = None
    guided_json: Any = None
    guided_regex: Any = None
    guided_choice: Any = None
    guided_grammar: Any = None
    structured_outputs: Any = None
    json_schema: Any = None
    grammar: Any = None
    regex: Any = None
    ebnf: Any = None


_form: Final = msgspec.json.Decoder(_AnswerForm)
_FORMATS: Final = ("response_format", "text", "output_config")


def may_be_continued(call: Call) -> bool:
    """True if another upstream can go on with an answer to this call from its text so far."""
    if call.endpoint not in CONTINUED_ENDPOINTS or not call.is_streaming or call.is_background:
        return False
    try:
        form = _form.decode(call.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    formats = (form.response_format, *map(_format, (form.text, form.output_config)))
    if any(one is not None and one.type not in _PLAIN for one in formats):
        return False
    others = (value for name, value in msgspec.structs.asdict(form).items() if name not in _FORMATS)
    is_plain = all(value is None or (type(value) is int and value == 1) for value in others)
    return is_plain and not has_open_message(call.body, call.endpoint)


def _format(output: _Output | None) -> _Format | None:
    return None if output is None else output.format
