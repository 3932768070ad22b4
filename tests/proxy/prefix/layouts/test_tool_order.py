"""One order of tools."""

from itertools import islice, permutations
from random import Random
from string import ascii_lowercase
from time import thread_time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.tool_order import (
    OrderedTools,
    ToolRecord,
    Toolsets,
    _cached_tool,
    order_tools,
)
from tests.examples import examples
from tests.fakes.handbook import dice
from tests.proxy.prefix.sent_calls import fingerprint

MAX_TOOLS = 1024

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
_NAMES = st.text("abcdef", min_size=1, max_size=4)


def tool_records(names):
    return [ToolRecord(f"#{name}", name) for name in names]


def sent_names(toolsets, names):
    return "".join(name[1:] for name in toolsets.order(tool_records(names)))


def shuffle(names: str, roll: Random, most: int) -> str:
    return "".join(roll.sample(names, most))


def test_a_callers_stable_tool_order_is_kept():
    toolsets = Toolsets()

    assert [sent_names(toolsets, "zyx") for _ in range(50)] == ["zyx"] * 50


def test_tool_lists_that_begin_alike_still_do():
    toolsets = Toolsets()

    assert sent_names(toolsets, "dcb") == "dcb"
    assert sent_names(toolsets, "dca") == "dca"
    assert sent_names(toolsets, "dc") == "dc"


def test_tool_lists_joined_in_another_order_do_not_count_as_shuffled():
    toolsets = Toolsets()
    parts = ("cab", "zxy", "321")
    for _ in range(10):
        for order in permutations(parts):
            assert sent_names(toolsets, "".join(order)) == "".join(order)


@pytest.mark.parametrize(("names", "lists"), [("abcdefghij", 6), (ascii_lowercase, 20)])
def test_shuffled_tools_soon_go_by_name_even_where_some_are_left_out(names, lists):
    toolsets, roll = Toolsets(), dice("shuffled")
    for _ in range(lists):
        sent_names(toolsets, shuffle(names, roll, min(20, len(names))))

    assert sent_names(toolsets, names[::-1]) == names


def test_a_tool_is_the_same_when_its_description_changes():
    toolsets = Toolsets()
    for number, names in enumerate(islice(permutations("dcba"), 20)):
        toolsets.order([ToolRecord(f"{number}/{name}", name) for name in names])

    assert sent_names(toolsets, "dcba") == "abcd"


def test_one_reversed_tool_list_in_many_changes_nothing():
    toolsets = Toolsets()
    for number in range(200):
        sent_names(toolsets, "bca" if number % 50 == 49 else "cba")

    assert sent_names(toolsets, "cba") == "cba"


def test_processes_that_met_shuffled_tools_agree():
    orders = list(islice(permutations("fedcba"), 40))
    one, other = Toolsets(), Toolsets()
    for order in orders[:20]:
        one.order(tool_records(order))
    for order in orders[20:]:
        other.order(tool_records(order))

    assert sent_names(one, orders[0]) == sent_names(other, orders[1]) == "abcdef"


def test_neighbours_are_forgotten_beyond_512_and_the_first_256_tools_are_compared():
    toolsets, sizes = Toolsets(), list[int]()
    for number in range(600):
        sent_names(toolsets, [f"{number}", f"{number} more"])
        sizes.append(len(toolsets._pairs))
    toolsets.order(tool_records(map(str, range(5_000))))

    assert sizes[511:514] == [512, 513, 1]
    assert len(toolsets._pairs) - sizes[-1] == 255


@pytest.mark.parametrize(
    ("steady", "turned", "order"), [(1, 1, "ba"), (18, 2, "ab"), (19, 2, "ba")]
)
def test_tools_go_by_name_once_two_lists_and_one_in_ten_turned_neighbours_round(
    steady: int, turned: int, order: str
):
    toolsets = Toolsets()
    for names in ["ba"] * steady + ["ab"] * turned:
        sent_names(toolsets, names)

    assert sent_names(toolsets, "ba") == order


@given(st.lists(st.permutations("abcde"), max_size=8))
def test_every_tool_is_sent_once(orders):
    toolsets = Toolsets()
    for order in orders:
        assert sorted(sent_names(toolsets, order)) == list("abcde")


def tool(name: str, mark: object = None, **fields: Any) -> bytes:
    function = {"name": name, "parameters": {"type": "object", "b": 1, "a": 2}, **fields}
    return orjson.dumps(
        {"type": "function", "function": function} | ({"cache_control": mark} if mark else {})
    )


def order(tools: list[bytes], earlier: tuple[str, ...] = ()) -> OrderedTools:
    return order_tools(tuple(tools), tuple(earlier), fingerprint)


def names(ordered: OrderedTools) -> list[str]:
    return [(one.get("function") or one.get("custom") or one)["name"] for one in decode(ordered)]


def decode(ordered: OrderedTools) -> list[dict[str, Any]]:
    return [orjson.loads(one) for one in ordered.tools]


def marks(ordered: OrderedTools) -> list[object]:
    return [one.get("cache_control") for one in decode(ordered)]


def test_at_first_tools_stand_by_name():
    assert names(order([tool("c"), tool("a"), tool("b")])) == ["a", "b", "c"]


def test_tools_stay_as_their_caller_writes_them():
    came = [b'{"function": {"parameters": {}, "name": "b"}, "type": "function"}', tool("a")]

    assert order(came).tools == (came[1], came[0])


def test_a_tool_that_is_new_is_appended():
    first = order([tool("d"), tool("c")])
    second = order([tool("a"), tool("d"), tool("b"), tool("c")], first.order)

    assert names(second) == ["c", "d", "a", "b"]
    assert second.tools[:2] == first.tools
    assert second.order[:2] == first.order


def test_a_tool_that_is_away_for_a_call_comes_back_to_its_place():
    first = order([tool("a"), tool("b"), tool("c")])
    second = order([tool("c"), tool("a")], first.order)
    third = order([tool("c"), tool("b"), tool("a")], second.order)

    assert names(second) == ["a", "c"]
    assert third == first


def test_a_tool_that_changed_is_a_new_one():
    first = order([tool("a"), tool("b")])
    second = order([tool("a", description="other"), tool("b")], first.order)

    assert names(second) == ["b", "a"]
    assert len(second.order) == 3


def test_the_order_of_a_schemas_keys_and_the_spelling_of_its_numbers_stay():
    raw = b'{"type":"function","function":{"name":"f","parameters":{"b":1.0e5,"a":"\\u00e9"}}}'

    assert order([raw]).tools == (raw,)


def test_a_mark_does_not_make_another_tool_of_one():
    first = order([tool("b"), tool("a")])
    second = order([tool("a"), tool("b", MARK)], first.order)

    assert (second.order, second.why) == (first.order, "")
    assert marks(second) == [None, MARK]


MARKED_SERVER = b'{"type":"mcp","cache_control":{"type":"ephemeral"}}'


@pytest.mark.parametrize("marked", [tool("z", HOUR), MARKED_SERVER], ids=["function", "server"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_tools_that_the_caller_marks_keep_their_order(marked: bytes, place: int):
    tools = [tool("b"), tool("a")]
    tools.insert(place, marked)
    order_seen = order(tools)

    assert order_seen.tools == tuple(tools)
    assert "marks" in order_seen.why


@pytest.mark.parametrize(
    "strange",
    [
        b'{"type": "mcp","server_label":"x"}',
        b'{"type": "computer_use", "name":"zz"}',
        b'{"type": "function", "name":"flat"}',
        b'{"type": "function", "function":{"name":""}}',
        b'{"type": "function", "function":{"nom":"x"}}',
        b'{"type": "function", "function":{"name":7}}',
        b'{"type": 1, "function":{"name":"x"}}',
        b'{"type": "function", "function":null}',
        b'"a tool"',
        b"7",
        b'{"type": "function", "function":{"name":"\xff"}}',
        b'{"type": "function", "function":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"",
    ],
)
def test_a_tool_that_is_no_plain_function_stays_unmodified_in_its_place(strange: bytes):
    order_seen = order([tool("b"), strange, tool("a")])

    assert order_seen.tools == (tool("a"), strange, tool("b"))
    assert len(order_seen.order) == 2


def test_tools_of_one_name_stay_as_they_came():
    tools = [tool("b"), tool("a", x="1"), tool("a")]
    order_seen = order(tools)

    assert order_seen.tools == tuple(tools)
    assert "name" in order_seen.why


def test_ten_thousand_tools_pass_through_at_once():
    tools = [tool(f"t{n}") for n in range(10_000)]
    began = thread_time()
    order_seen = order(tools, ("ab",))

    assert thread_time() - began < 1
    assert order_seen.tools == tuple(tools)
    assert order_seen.order == ("ab",)
    assert order_seen.why


def test_the_remembered_tool_order_is_bounded():
    earlier = tuple(f"{n:032x}" for n in range(MAX_TOOLS))

    assert order([tool("a")], earlier).order == earlier


@examples(30, deadline=None)
@given(st.lists(st.lists(_NAMES, unique=True, max_size=6), min_size=1, max_size=6))
def test_the_same_tools_are_sent_in_one_order_however_they_are_listed(calls: list[list[str]]):
    earlier: tuple[str, ...] = ()
    before: dict[str, bytes] = {}
    for call in calls:
        records = [tool(name) for name in call]
        order_seen = order(records, earlier)
        again = order([*reversed(records)], earlier)
        assert order_seen == again
        assert sorted(order_seen.tools) == sorted(records)
        tools = [one for one in order_seen.tools if one in before.values()]
        assert list(order_seen.tools[: len(tools)]) == tools
        earlier = order_seen.order
        before |= dict(zip(names(order_seen), order_seen.tools, strict=True))


@examples(30, deadline=None)
@given(st.lists(st.tuples(_NAMES, st.sampled_from([None, MARK, HOUR])), max_size=6))
def test_no_tool_and_no_mark_is_lost(pairs: list[tuple[str, object]]):
    tools = [tool(name, mark) for name, mark in pairs]
    order_seen = order(tools)

    assert sorted(names(order_seen)) == sorted(name for name, _ in pairs)
    assert [mark for mark in marks(order_seen) if mark] == [mark for _, mark in pairs if mark]
    assert order(list(order_seen.tools), order_seen.order).tools == order_seen.tools


@given(st.lists(st.binary(max_size=40), max_size=4))
def test_tools_of_any_bytes_are_kept(tools: list[bytes]):
    assert sorted(order(tools).tools) == sorted(tools)


@pytest.mark.parametrize(("size", "is_cached"), [(8_192, True), (8_193, False)])
def test_a_tool_of_up_to_8_kibibytes_is_remembered(size: int, *, is_cached: bool):
    raw = tool("a", x="x" * (size - len(tool("a", x=""))))

    assert (_cached_tool(raw, fingerprint) is _cached_tool(raw, fingerprint)) == is_cached


@pytest.mark.parametrize(("size", "is_cached"), [(65_536, True), (65_537, False)])
def test_the_order_of_up_to_64_kibibytes_of_tools_is_remembered(size: int, *, is_cached: bool):
    tools = [tool("a"), tool("b", x="x" * (size - len(tool("a")) - len(tool("b", x=""))))]

    assert (order(tools) is order(tools)) == is_cached
