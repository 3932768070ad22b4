"""Tool calls of chat answers in every way that upstreams write them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import orjson

from tests.fakes.messages_calls import Call, Json

Deltas = Iterator[list[Json]]
NO_TEXT: Json = {"name": "", "input": ""}


def pieces(arguments: str) -> list[str]:
    """The arguments in parts, as a stream brings them."""
    return [arguments[start : start + 3] for start in range(0, len(arguments), 3)]


def function(arguments: object, name: str | None = None) -> Json:
    return {"arguments": arguments} | ({} if name is None else {"name": name})


def one_by_one(
    calls: Sequence[Call],
    *,
    index: Callable[[int, int], Json],
    repeats_id: bool = False,
    repeats_name: bool = False,
    late_name: bool = False,
    has_fresh_ids: bool = False,
) -> Deltas:
    """Calls one after the other; ``index`` says what their parts have of one.

    Args:
        calls: The calls.
        index: Index member from the numbers of the call and of the part.
        repeats_id: True if every part has the id.
        repeats_name: True if every part has the name.
        late_name: True if the first part has none.
        has_fresh_ids: True if every part has an id that no other has.
    """
    count = 0
    for number, (call_id, name, arguments) in enumerate(calls):
        named = None if late_name else name
        yield [index(number, count) | {"id": call_id, "function": function("", named)}]
        for place, piece in enumerate(pieces(arguments)):
            count += 1
            is_named = repeats_name or (late_name and place == 0)
            part = index(number, count) | {"function": function(piece, name if is_named else None)}
            part |= {"id": call_id} if repeats_id else {}
            yield [part | ({"id": f"{call_id}_{count}"} if has_fresh_ids else {})]
        count += 1


def name_in_pieces(calls: Sequence[Call], mark: Callable[[int, str], Json]) -> Deltas:
    """Calls one after the other, whose names come in two parts; ``mark`` is in every part."""
    for number, (call_id, name, arguments) in enumerate(calls):
        marked = mark(number, call_id)
        yield [marked | {"id": call_id, "function": function("", name[:2])}]
        first, *rest = pieces(arguments)
        yield [marked | {"function": function(first, name[2:])}]
        yield from ([marked | {"function": function(piece)}] for piece in rest)


def in_turns(calls: Sequence[Call], mark: Callable[[int, str], Json]) -> Deltas:
    """All calls at once, each chunk with a part of each; ``mark`` tells the parts apart."""
    yield [
        {"id": call_id, "function": function("", name)} | mark(number, call_id)
        for number, (call_id, name, _) in enumerate(calls)
    ]
    split = [pieces(arguments) for _, _, arguments in calls]
    for turn in range(max(map(len, split))):
        yield [
            mark(number, calls[number][0]) | {"function": function(parts[turn])}
            for number, parts in enumerate(split)
            if turn < len(parts)
        ]


def whole_calls(
    calls: Sequence[Call], *, together: bool = False, as_object: bool = False, **more: Any
) -> Deltas:
    """Each call in one part: in a chunk of its own, or all together."""
    parts = [
        {"id": call_id, "function": function(orjson.loads(text) if as_object else text, name)}
        | more
        for call_id, name, text in calls
    ]
    yield from ([parts] if together else ([part] for part in parts))


def no_index(_number: int, _count: int) -> Json:
    return {}


FORMS: dict[str, Callable[[Sequence[Call]], Deltas]] = {
    "OpenAI": lambda c: one_by_one(c, index=lambda n, _: {"index": n}),
    "without index": lambda c: one_by_one(c, index=no_index),
    "without index, id repeated": lambda c: one_by_one(c, index=no_index, repeats_id=True),
    "null as index": lambda c: one_by_one(c, index=lambda *_: {"index": None}),
    "text as index": lambda c: one_by_one(c, index=lambda n, _: {"index": str(n)}),
    "float as index": lambda c: one_by_one(c, index=lambda n, _: {"index": float(n)}),
    "negative index": lambda c: one_by_one(c, index=lambda *_: {"index": -1}),
    "index 0": lambda c: one_by_one(c, index=lambda *_: {"index": 0}),
    "index 0, id and name repeated": lambda c: one_by_one(
        c, index=lambda *_: {"index": 0}, repeats_id=True, repeats_name=True
    ),
    "index counts parts": lambda c: one_by_one(c, index=lambda _, count: {"index": count}),
    "index on first parts only": lambda c: one_by_one(
        c, index=lambda n, count: {"index": n} if count == 0 else {}
    ),
    "name after id": lambda c: one_by_one(c, index=lambda *_: {"index": 0}, late_name=True),
    "name after id, without index": lambda c: one_by_one(c, index=no_index, late_name=True),
    "index 0, fresh ids": lambda c: one_by_one(
        c, index=lambda *_: {"index": 0}, has_fresh_ids=True
    ),
    "fresh ids": lambda c: one_by_one(c, index=lambda n, _: {"index": n}, has_fresh_ids=True),
    "fresh ids without index": lambda c: one_by_one(c, index=no_index, has_fresh_ids=True),
    "in turns by index": lambda c: in_turns(c, lambda n, _: {"index": n}),
    "in turns by text as index": lambda c: in_turns(c, lambda n, _: {"index": str(n)}),
    "in turns by float as index": lambda c: in_turns(c, lambda n, _: {"index": float(n)}),
    "in turns by id": lambda c: in_turns(c, lambda _, call_id: {"id": call_id}),
    "name in pieces": lambda c: name_in_pieces(c, lambda n, _: {"index": n}),
    "name in pieces at index 0": lambda c: name_in_pieces(c, lambda *_: {"index": 0}),
    "name in pieces without index": lambda c: name_in_pieces(c, lambda *_: {}),
    "name in pieces, id repeated": lambda c: name_in_pieces(c, lambda _, call_id: {"id": call_id}),
    "whole without index": whole_calls,
    "whole at index 0": lambda c: whole_calls(c, index=0),
    "whole together": lambda c: whole_calls(c, together=True),
    "whole together at index 0": lambda c: whole_calls(c, together=True, index=0),
    "arguments as objects": lambda c: whole_calls(c, as_object=True),
    "custom member filled": lambda c: whole_calls(c, custom=NO_TEXT),
    "both members and a type": lambda c: whole_calls(
        c, type="function", custom={"name": "x", "input": "y"}
    ),
}
#: Ways to write calls that have no ids.
NAMELESS_FORMS = ("OpenAI", "whole without index", "whole at index 0", "whole together")
