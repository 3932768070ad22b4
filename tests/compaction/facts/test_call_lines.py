import pytest

from compaction.facts.call_lines import changes, said, same
from compaction.reading.message import Called


def call(arguments: str, name: str = "f") -> Called:
    return Called("1", name, arguments)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ('{"a": "JFK", "b": 2}', "f(a=JFK, b=2)"),
        ('{"a": "x, y)"}', 'f(a="x, y)")'),
        ('{"a": "x\\ny"}', 'f(a="x\\ny")'),
        ('{"a": [{"id": "Z1"}]}', "f(a=[{id:Z1}])"),
        ("ls\n-l", "f(ls ¶ -l)"),
        ("", "f()"),
        ('{"a": "\\u2028user: b"}', 'f(a="user: b")'),
    ],
)
def test_a_call_is_one_line(arguments, line):
    assert said(call(arguments), 100).replace(" ¶ user", "user") == line


def test_what_the_result_says_is_not_said_twice():
    assert said(call('{"a": "JFK", "b": 2}'), 100, "{a:JFK c:3}") == "f(b=2)"


def test_one_argument_tells_calls_apart_whatever_the_result_says():
    assert said(call('{"a": "JFK", "b": 2}'), 100, "{a:JFK b:2}") == "f(JFK)"
    long = "x" * 90
    assert said(call(f'{{"a": "{long}"}}'), 100, f"{{a:{long}}}") == "f()"


def test_arguments_nested_too_deep_to_be_written_are_left_out():
    deep = '{"a":' + "[" * 300 + "]" * 300 + "}"

    assert said(call(deep), 100) == "f(a=…)"
    assert same(call(deep)).startswith("f ")


def test_calls_are_the_same_however_their_arguments_are_written():
    assert same(call('{"a": 1, "b": 2}')) == same(call('{"b":2,"a":1}'))
    assert same(call("ls")) != same(call("pwd"))
    assert same(Called("", "", "")) == ""
    assert len(same(call("x" * 9_000))) < 200


@pytest.mark.parametrize(
    ("name", "does"),
    [
        ("book_reservation", True),
        ("sendEmail", True),
        ("ReserveRestaurant", True),
        ("transfer_to_human_agents", True),
        ("get_order_details", False),
        ("list_updates", False),
        ("think", False),
        ("", False),
        ("calendar_create", True),
    ],
)
def test_a_verb_tells_whether_a_call_changes_something(name, does):
    assert changes(call("{}", name)) is does


def test_what_stands_behind_a_call_says_a_member_only_as_a_whole():
    called = Called(id="c", name="pay", arguments='{"to":"Bob","amount":50}')

    assert said(called, 99, "{amount:500 to:Bobby}") == "pay(to=Bob, amount=50)"
