"""In which order tools are sent."""

from itertools import islice, permutations

from hypothesis import given
from hypothesis import strategies as st

from proxy.prefix.toolsets import Tool, Toolsets


def brought(names):
    return [Tool(f"#{name}", name) for name in names]


def sent(toolsets, names):
    return "".join(known[1:] for known in toolsets.order(brought(names)))


def test_an_order_that_holds_still_is_kept():
    toolsets = Toolsets()

    assert sent(toolsets, "zyx") == "zyx"
    assert sent(toolsets, "zyx") == "zyx"


def test_sets_that_begin_alike_still_do():
    toolsets = Toolsets()

    assert sent(toolsets, "dcb") == "dcb"
    assert sent(toolsets, "dca") == "dca"
    assert sent(toolsets, "dc") == "dc"


def test_a_set_in_another_order_is_sent_in_its_first():
    toolsets = Toolsets()
    sent(toolsets, "cab")

    assert sent(toolsets, "abc") == "cab"
    assert sent(toolsets, "abc") == "cab"


def test_from_a_third_order_on_all_sets_go_by_name():
    toolsets = Toolsets()
    sent(toolsets, "cab")
    sent(toolsets, "abc")

    assert sent(toolsets, "bca") == "abc"
    assert sent(toolsets, "zay") == "ayz"


def test_processes_that_met_shuffled_tools_agree():
    orders = list(islice(permutations("fedcba"), 40))
    one, other = Toolsets(), Toolsets()
    for order in orders[:20]:
        one.order(brought(order))
    for order in orders[20:]:
        other.order(brought(order))

    assert sent(one, orders[0]) == sent(other, orders[1]) == "abcdef"


def test_many_sets_take_bounded_memory():
    toolsets = Toolsets()
    for number in range(2_000):
        sent(toolsets, [f"{number}", "a"])
    toolsets.order(brought(map(str, range(5_000))))

    assert len(toolsets._sets) <= 256


@given(st.lists(st.permutations("abcde"), max_size=8))
def test_every_tool_is_sent_once(orders):
    toolsets = Toolsets()
    for order in orders:
        assert sorted(sent(toolsets, order)) == list("abcde")
