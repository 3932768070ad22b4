"""Orders tools alike in every call of a conversation; keeps a caller's own order and spelling.

::

    known      a b c            what this conversation has sent, as fingerprints
    asked      e d c a          the caller's list
    sent       a c e d          known ones as before, new ones after them as listed
    order      a b c e d        b keeps its place for when it comes back

``Toolsets`` judges whether a feature's own order means anything. A caller's order is kept where it
holds still: calls that list theirs alike share a prefix in no other. Where tools come shuffled,
they go by name instead. Shuffled is told from neighbours: two tools that stood one behind the
other, and now stand the other way round. A list that leaves tools out or brings new ones changes no
neighbours' order, and lists joined in another order turn none round.

Each process judges by what it saw itself, so until two have both seen enough, one conversation's
first call may go in the caller's order from one and by name from the other; from its second call on
the plan in the store decides.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from proxy.prefix.prompts.fingerprints import bare_json
from proxy.prefix.prompts.marks import may_mark
from proxy.prefix.prompts.objects import Unplannable, members
from proxy.prefix.prompts.prompt import Fingerprint

#: Neighbours remembered of a feature; beyond, it begins anew.
_MAX_NEIGHBOURS: Final = 512
#: Tools of a list that are looked at.
_MAX_COMPARED_TOOLS: Final = 256
#: Lists that turned neighbours round, from which on a feature's tools go by name,
_MIN_TURNED_LISTS: Final = 2
#: if they are at least one in so many.
_LISTS_PER_TURNED_LIST: Final = 10
#: No provider takes this many tools; a longer list is left unmodified.
MAX_TOOLS: Final = 1024
#: Bytes above which a tool's rendering, and the order of all of them, is not remembered.
_MAX_CACHED_TOOL_BYTES: Final = 2**13
_MAX_CACHED_LIST_BYTES: Final = 2**16
_KINDS: Final = ("function", "custom")


class ToolRecord(NamedTuple):
    """A tool, by its fingerprint (hex) and its name."""

    digest: str
    name: str


class Toolsets:
    """The lists of tools that one feature's conversations began with."""

    __slots__ = ("_is_shuffled", "_lists", "_pairs", "_turned")

    def __init__(self) -> None:
        self._pairs: set[int] = set()
        self._lists = self._turned = 0
        self._is_shuffled = False

    def order(
        self, came: Sequence[ToolRecord], previous_order: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """The fingerprints of a conversation's tools as it sends them, when some are new to it.

        Those in ``previous_order`` were sent before and stay in front, in the order sent.
        """
        names = [tool.name for tool in came[:_MAX_COMPARED_TOOLS]]
        if not self._is_shuffled:
            self._record_order(names)
        if self._is_shuffled:
            came = sorted(came, key=lambda tool: tool.name)
        return tuple(dict.fromkeys([*previous_order, *(tool.digest for tool in came)]))[:MAX_TOOLS]

    def _record_order(self, names: Sequence[str]) -> None:
        """Compare a list with those before it; of two neighbours their first order counts."""
        pairs = list(pairwise(names))
        same = [hash(pair) for pair in pairs if hash(pair[::-1]) not in self._pairs]
        self._lists += 1
        self._turned += len(same) < len(pairs)
        self._is_shuffled = self._turned >= max(
            _MIN_TURNED_LISTS, self._lists / _LISTS_PER_TURNED_LIST
        )
        if len(self._pairs) > _MAX_NEIGHBOURS:
            self._pairs.clear()
        self._pairs.update(same)


class OrderedTools(msgspec.Struct, frozen=True):
    """Tools as they are sent.

    Attributes:
        order: Fingerprints (hex) of the functions this conversation has sent, in the order they
            are sent: the next call's ``previous_order``.
        why: Reason to keep the caller's order; "" where it was not kept.
    """

    tools: tuple[bytes, ...]
    order: tuple[str, ...]
    why: str = ""


class _Tool(msgspec.Struct, frozen=True):
    """A tool, read.

    Attributes:
        raw: As its caller writes it.
        name: Name of it to the model; "" where it has to stay in its place.
        digest: The fingerprint (hex) of it without marks.
    """

    raw: bytes
    name: str
    digest: str


_word = msgspec.json.Decoder(str).decode


def order_tools(
    tools: tuple[bytes, ...], previous_order: tuple[str, ...], fingerprint: Fingerprint
) -> OrderedTools:
    """The tools as this conversation sends them; in the caller's order where that may matter.

    Only functions and custom tools change places, with one another. A mark says "everything up to
    here", so where a caller marks tools none does.

    ``previous_order`` is the ``order`` of the conversation's previous call; at its first, what
    ``Toolsets`` say.
    """
    if len(tools) > MAX_TOOLS:
        return OrderedTools(tools, previous_order, f"more than {MAX_TOOLS} tools")
    small = sum(map(len, tools)) <= _MAX_CACHED_LIST_BYTES
    return (_lately if small else _order_tools)(tools, previous_order, fingerprint)


def _order_tools(
    tools: tuple[bytes, ...], previous_order: tuple[str, ...], fingerprint: Fingerprint
) -> OrderedTools:
    read_tools = [_cached_tool(tool, fingerprint) for tool in tools]
    planned, why = _reorder_functions(read_tools, previous_order)
    if planned != read_tools and any(map(may_mark, tools)):
        planned, why = read_tools, "tools keep their order: the caller's marks stand among them"
    ordered = tuple([tool.raw for tool in planned])
    return OrderedTools(ordered, _next_order(previous_order, planned), why)


#: Lists of tools put in order lately: some 32 MiB at most.
_lately = lru_cache(maxsize=256)(_order_tools)


def movable_tools(tools: tuple[bytes, ...], fingerprint: Fingerprint) -> tuple[ToolRecord, ...]:
    """The tools that may change places, in the caller's order; none where there are too many."""
    if len(tools) > MAX_TOOLS:
        return ()
    small = sum(map(len, tools)) <= _MAX_CACHED_LIST_BYTES
    return (_movable if small else _read_movable_tools)(tools, fingerprint)


def _read_movable_tools(
    tools: tuple[bytes, ...], fingerprint: Fingerprint
) -> tuple[ToolRecord, ...]:
    read_tools = [_cached_tool(tool, fingerprint) for tool in tools]
    return tuple([ToolRecord(tool.digest, tool.name) for tool in read_tools if tool.name])


#: Lists of tools read lately: some 16 MiB at most, besides those in pieces and in order.
_movable = lru_cache(maxsize=256)(_read_movable_tools)


def _cached_tool(raw: bytes, fingerprint: Fingerprint) -> _Tool:
    """The tool, remembered where it is not large."""
    return (_known if len(raw) <= _MAX_CACHED_TOOL_BYTES else _read_tool)(raw, fingerprint)


def _read_tool(raw: bytes, fingerprint: Fingerprint) -> _Tool:
    """The tool; one that is not understood stays unmodified."""
    name = _function_name(raw)
    bare = bare_json(raw) if name and may_mark(raw) else raw
    return _Tool(raw, name, fingerprint(bare).hex())


#: Tools seen lately, in any conversation: at most 24 MiB.
_known = lru_cache(maxsize=1024)(_read_tool)


def _function_name(raw: bytes) -> str:
    """The name of a function or a custom tool; "" for any other."""
    try:
        fields = members(raw)
        kind = _word(fields.get("type", b'"function"'))
        definition = fields.get(kind, b"{}") if kind in _KINDS else b"{}"
        return _word(members(definition).get("name", b'""'))
    except (Unplannable, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""


def _reorder_functions(
    tools: Sequence[_Tool], previous_order: Sequence[str]
) -> tuple[Sequence[_Tool], str]:
    """The tools with functions in their order among themselves, and why not where they are not."""
    able = [tool for tool in tools if tool.name]
    if len({tool.name for tool in able}) < len(able):
        return tools, "two tools have one name"
    rank = {one: place for place, one in enumerate(previous_order)}
    able.sort(key=lambda tool: (rank.get(tool.digest, len(rank)), tool.name))
    following = iter(able)
    return [next(following) if tool.name else tool for tool in tools], ""


def _next_order(previous_order: Sequence[str], planned: Sequence[_Tool]) -> tuple[str, ...]:
    """The order for the next call, as far as it is remembered."""
    digests = (tool.digest for tool in planned if tool.name)
    return tuple(dict.fromkeys([*previous_order, *digests]))[:MAX_TOOLS]
