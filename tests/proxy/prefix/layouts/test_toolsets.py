"""In which order tools are sent."""

from itertools import islice, permutations
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.layouts.toolsets import ToolRecord, Toolsets
from tests.fakes.handbook import dice


def brought(names):
    return [ToolRecord(f"#{name}", name) for name in names]


def sent(toolsets, names):
    return "".join(known[1:] for known in toolsets.order(brought(names)))


def shuffled(names: str, roll: Random, most: int) -> str:
    return "".join(roll.sample(names, most))


def test_an_order_that_holds_still_is_kept():
    toolsets = Toolsets()

    assert [sent(toolsets, "zyx") for _ in range(50)] == ["zyx"] * 50


def test_lists_that_begin_alike_still_do():
    toolsets = Toolsets()

    assert sent(toolsets, "dcb") == "dcb"
    assert sent(toolsets, "dca") == "dca"
    assert sent(toolsets, "dc") == "dc"


def test_lists_that_are_joined_in_another_order_mean_nothing():
    toolsets = Toolsets()
    parts = ("cab", "zxy", "321")
    for _ in range(10):
        for order in permutations(parts):
            assert sent(toolsets, "".join(order)) == "".join(order)


def test_shuffled_tools_soon_go_by_name():
    toolsets = Toolsets()
    roll = dice("shuffled")
    for _ in range(6):
        sent(toolsets, shuffled("abcdefghij", roll, 10))

    assert sent(toolsets, "jihgfedcba") == "abcdefghij"


def test_so_do_shuffled_tools_of_which_some_are_left_out():
    toolsets = Toolsets()
    roll = dice("flickering")
    for _ in range(20):
        sent(toolsets, shuffled("abcdefghijklmnopqrstuvwxyz", roll, 20))

    assert sent(toolsets, "zyx") == "xyz"


def test_a_tool_is_the_same_when_its_description_changes():
    toolsets = Toolsets()
    for number, names in enumerate(islice(permutations("dcba"), 20)):
        toolsets.order([ToolRecord(f"{number}/{name}", name) for name in names])

    assert sent(toolsets, "dcba") == "abcd"


def test_one_list_in_many_that_is_turned_round_changes_nothing():
    toolsets = Toolsets()
    for number in range(200):
        sent(toolsets, "bca" if number % 50 == 49 else "cba")

    assert sent(toolsets, "cba") == "cba"


def test_processes_that_met_shuffled_tools_agree():
    orders = list(islice(permutations("fedcba"), 40))
    one, other = Toolsets(), Toolsets()
    for order in orders[:20]:
        one.order(brought(order))
    for order in orders[20:]:
        other.order(brought(order))

    assert sent(one, orders[0]) == sent(other, orders[1]) == "abcdef"


def test_many_lists_take_bounded_memory():
    toolsets = Toolsets()
    for number in range(2_000):
        sent(toolsets, [f"{number}", f"{number} more"])
    toolsets.order(brought(map(str, range(5_000))))

    assert len(toolsets._pairs) <= 512 + 256


@given(st.lists(st.permutations("abcde"), max_size=8))
def test_every_tool_is_sent_once(orders):
    toolsets = Toolsets()
    for order in orders:
        assert sorted(sent(toolsets, order)) == list("abcde")


def test_where_all_lists_begin_with_the_same_tools_all_stay():
    toolsets, roll = Toolsets(), Random(3)  # noqa: S311
    for _ in range(40):
        sent(toolsets, "zyxwv" + shuffled("abcdef", roll, 2))

    assert sent(toolsets, "zyxwvfa") == "zyxwvfa"
    assert sent(toolsets, "zyxwvbe") == "zyxwvbe"


def test_tools_that_are_always_spelt_alike_are_not_respelled():
    toolsets = Toolsets()
    for spelling in (1, 1, 1):
        toolsets.order([ToolRecord("#a", "a", spelling), ToolRecord("#b", "b", 7)])

    assert not toolsets.is_respelled


def test_a_tool_that_comes_with_its_keys_in_another_order_is_respelled_for_good():
    toolsets = Toolsets()
    for spelling in (1, 2, 2, 2):
        toolsets.order([ToolRecord("#a", "a", spelling)])

    assert toolsets.is_respelled
