"""Parts of tool calls in chat answers, and the call that each of them belongs to.

OpenAI numbers the calls of a stream by an index and names each one once. Others repeat index 0,
leave the index out, repeat ids or names, or give none; some index by text or by 1.0. So, in this
order::

    a part with                            belongs to
    the index or id of a call              that call
    an id that no call has, and a name     a new call, also at an index that was used before
    an id that no call has, and no name    that of its index, else the one begun last, while the
                                           arguments there go on; else a new call
    an index that no call has, and a name  a new call
    no id and no such index                the call begun last
    a name, and no id                      that call before its arguments, whose name goes on if it
                                           differs; then a new call where that call has another
                                           name, or has all its arguments; else that call

The calls of a whole answer are numbered by their position alone. The forerunner of calls,
``function_call``, is a part with neither index nor id.

Source: OpenAI API reference, Chat Completions, streaming; Google, OpenAI compatibility; Ollama,
OpenAI compatibility (2026-11).
"""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
import orjson
from msgspec import Raw
from msgspec.structs import replace

from proxy.providers.stream_endings import malformed_answer

#: Arguments of a call as upstreams write them: mostly text.
Arguments = str | dict[str, Raw] | list[Raw] | None
_CUSTOM: Final = "custom"
_FUNCTION: Final = "function"
_BRACE: Final = "}"
#: Longest index written as text that is read.
_MAX_INDEX_DIGITS: Final = 9


class FunctionPart(msgspec.Struct, frozen=True):
    """A function call, or a part of one; some upstreams write arguments as an object."""

    name: str | None = None
    arguments: Arguments = None

    @property
    def text(self) -> str:
        """The arguments as text."""
        return arguments_text(self.arguments)


class CustomPart(msgspec.Struct, frozen=True):
    """A call with free text, or a part of one."""

    name: str | None = None
    input: str | None = None


class CallPart(msgspec.Struct, frozen=True):
    """A call or a part of one.

    ``extra_content`` is what Google attaches to a call and wants to see again.
    """

    index: Any = None
    id: str | None = None
    type: Any = None
    function: FunctionPart | None = None
    custom: CustomPart | None = None
    extra_content: dict[str, Any] | None = None

    @property
    def number(self) -> int | None:
        """The index, also as text or a float; None where it is missing or cannot be one."""
        index = self.index
        if isinstance(index, str) and index.isdecimal() and len(index) <= _MAX_INDEX_DIGITS:
            return int(index)
        if isinstance(index, float) and index.is_integer():
            index = int(index)
        return index if type(index) is int and index >= 0 else None

    @property
    def is_custom(self) -> bool:
        """True for a call with free text; some upstreams write both members of each call."""
        if self.custom is None or self.type == _FUNCTION:
            return False
        if self.type == _CUSTOM:
            return True
        is_function = self.function is not None and bool(self.function.name)
        return not is_function and bool(self.custom.name or self.custom.input)

    @property
    def name(self) -> str:
        """The name of the tool; "" where the part has none."""
        member = self.custom if self.is_custom else self.function
        return (member.name if member is not None else None) or ""

    @property
    def text(self) -> str:
        """The part's arguments or free text."""
        if self.is_custom:
            return (self.custom.input if self.custom is not None else None) or ""
        return self.function.text if self.function is not None else ""


class CallIdentity:
    """A call as far as its parts have told it.

    Attributes:
        number: Its place among the calls of the answer, from 0.
        id: The upstream's id, made different where an earlier call has the same; "" for none yet.
        name: The name of its tool; "" for none yet.
        has_arguments: True once its arguments or free text have begun, so that its name is whole.
    """

    __slots__ = ("_given_id", "_texts", "has_arguments", "id", "is_custom", "name", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.id = ""
        self.name = ""
        self.is_custom = False
        self.has_arguments = False
        self._given_id = ""
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """Its arguments or free text up to now."""
        return "".join(self._texts)

    @property
    def is_open(self) -> bool:
        """True if it has a name, and its arguments are no whole object yet."""
        last = next((text for text in reversed(self._texts) if text.strip()), "")
        is_whole = last.rstrip().endswith(_BRACE) and is_json_object(self.text)
        return bool(self.name) and not is_whole

    def takes(self, part: CallPart, *, is_known_id: bool) -> bool:
        """True if the part continues this call; False if it begins or continues another one.

        Some upstreams write a new id with every part: a call begins with one that has a name.
        """
        name = part.name
        if part.id and self._given_id and part.id != self._given_id:
            return not is_known_id and not name and self.is_open
        if part.id and self._given_id:
            return True
        if not name or not self.has_arguments:
            return True
        return name == self.name and not (part.text.strip() and is_json_object(self.text))

    def add(self, part: CallPart, own_id: str) -> None:
        """Take note of a part that belongs to the call; the first id counts."""
        if part.id and not self._given_id:
            self._given_id, self.id = part.id, own_id
        name = part.name
        if not self.name or (name != self.name and not self.has_arguments):
            self.name += name
        self.is_custom = self.is_custom or part.is_custom
        if text := part.text:
            self._texts.append(text)
            self.has_arguments = self.has_arguments or bool(text.strip())


class CallAssignment:
    """Finds the call of each part of one answer, in the order in which the parts come."""

    __slots__ = ("_by_id", "_by_index", "_ids", "calls")

    def __init__(self) -> None:
        self.calls: list[CallIdentity] = []
        self._by_index: dict[int, CallIdentity] = {}
        self._by_id: dict[str, CallIdentity] = {}
        self._ids: set[str] = set()

    def find(self, part: CallPart, place: int = 0) -> CallIdentity:
        """The call that a part belongs to or begins.

        Args:
            part: A part of a stream, or a call that ``number_calls`` has numbered.
            place: Its position in its chunk.
        """
        call = self._likely_call(part, place)
        owner = self._by_id.get(part.id) if part.id else None
        if call is not None and not call.takes(part, is_known_id=owner is not None):
            call = owner
        if call is None:
            call = self._begin(part)
        own_id = "" if call.id or not part.id else self._own_id(part.id, call)
        call.add(part, own_id)
        if part.id:
            self._by_id.setdefault(part.id, call)
        return call

    def has_whole_name(self, call: CallIdentity) -> bool:
        """True if a call's name does not go on: its arguments, or a later call's, have begun."""
        later = self.calls[call.number :]
        return bool(call.name) and any(call_behind.has_arguments for call_behind in later)

    def check_names(self) -> None:
        """Check that each call of a finished answer has a name.

        Callers would run "" and send it back, which ends the conversation: OpenAI refuses it.
        """
        if any((call.id or call.has_arguments) and not call.name for call in self.calls):
            raise malformed_answer()

    def _likely_call(self, part: CallPart, place: int) -> CallIdentity | None:
        """The call that the part names, else the one begun last; None if it begins one anyhow."""
        index, name = part.number, part.name
        if index is not None and (call := self._by_index.get(index)) is not None:
            return call
        call_of_id = self._by_id.get(part.id) if part.id else None
        if index is not None and (name or (part.id and call_of_id is None)):
            return None
        if call_of_id is None and index is None and place and name:
            return None
        return call_of_id or (self.calls[-1] if self.calls else None)

    def _begin(self, part: CallPart) -> CallIdentity:
        call = CallIdentity(len(self.calls))
        self.calls.append(call)
        if (index := part.number) is None:
            self._by_index.setdefault(call.number, call)
        else:
            self._by_index[index] = call
        return call

    def _own_id(self, id_: str, call: CallIdentity) -> str:
        """The id that a call goes by; of calls with one id, the later ones get a number."""
        self._by_id[id_] = call
        own, number = id_, call.number
        while own in self._ids:
            own, number = f"{id_}_{number}", number + 1
        self._ids.add(own)
        return own


def parts_of(calls: Sequence[CallPart] | None, legacy: FunctionPart | None) -> list[CallPart]:
    """The parts in ``tool_calls``, or that in ``function_call``, which OpenAI had before them."""
    if not calls and legacy is not None and (legacy.name or legacy.text):
        return [CallPart(function=legacy)]
    return list(calls or ())


def arguments_text(arguments: Arguments) -> str:
    """The arguments as text; PHP's empty list stands for an empty object."""
    if isinstance(arguments, str):
        return arguments
    if arguments is None:
        return ""
    return msgspec.json.encode(arguments or {}).decode()


def number_calls(parts: Sequence[CallPart]) -> list[CallPart]:
    """The calls of a whole answer, each with its position as its index."""
    return [replace(part, index=number) for number, part in enumerate(parts)]


def arguments_object(text: str) -> Raw | dict[str, str]:
    """A call's arguments as the model wrote them; what is no JSON object is wrapped, not lost."""
    if not text.strip():
        return {}
    return Raw(text.encode()) if is_json_object(text) else {"arguments": text}


def is_json_object(text: str) -> bool:
    """True if a text is a whole JSON object."""
    if not text.rstrip().endswith(_BRACE):
        return False
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False
