import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.call_lines import (
    CallFormatter,
    call_key,
    call_line,
    is_change,
    short_call_line,
)
from compaction.reading.message import CalledTool


def call(arguments: str, name: str = "f") -> CalledTool:
    return CalledTool("1", name, arguments)


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
    assert call_line(call(arguments), 100).replace(" ¶ user", "user") == line


def test_a_call_line_does_not_repeat_its_result():
    assert call_line(call('{"a": "JFK", "b": 2}'), 100, "{a:JFK c:3}") == "f(b=2)"


def test_ids_of_a_change_stand_although_its_result_says_them():
    arguments = '{"reservation_id":"QX7","payment_id":"card_2","cabin":"economy"}'
    called = CalledTool(id="", name="update_reservation", arguments=arguments)
    result = "{reservation_id:QX7 cabin:economy paid:[{payment_id:card_1} {payment_id:card_2}]}"

    assert call_line(called, 99, result) == (
        "update_reservation(reservation_id=QX7, payment_id=card_2)"
    )


def test_a_short_call_has_its_ids_amounts_and_short_names():
    arguments = (
        '{"order":"W-1041","note":"call before he comes","user_id":"mei","items":[{"id":"a"}],'
        '"sum":7.5,"gift":true,"why":"call before he comes!"}'
    )
    called = CalledTool(id="", name="return_order", arguments=arguments)

    assert short_call_line(called) == (
        "return_order(order=W-1041, note=call before he comes, user_id=mei, sum=7.5, …)"
    )
    assert short_call_line(CalledTool(id="", name="go", arguments="{")) == "go(…)"


def test_one_argument_tells_calls_apart_whatever_the_result_says():
    assert call_line(call('{"a": "JFK", "b": 2}'), 100, "{a:JFK b:2}") == "f(JFK)"
    long = "x" * 90
    assert call_line(call(f'{{"a": "{long}"}}'), 100, f"{{a:{long}}}") == "f()"


def test_arguments_nested_too_deep_to_be_written_are_left_out():
    deep = '{"a":' + "[" * 300 + "]" * 300 + "}"

    assert call_line(call(deep), 100) == "f(a=…)"
    assert call_key(call(deep)).startswith("f ")


def test_calls_are_the_same_however_their_arguments_are_written():
    assert call_key(call('{"a": 1, "b": 2}')) == call_key(call('{"b":2,"a":1}'))
    assert call_key(call("ls")) != call_key(call("pwd"))
    assert call_key(CalledTool("", "", "")) == ""
    assert len(call_key(call("x" * 9_000))) < 200


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
    assert is_change(call("{}", name)) is does


def test_text_behind_a_call_covers_a_member_only_as_a_whole():
    called = CalledTool(id="c", name="pay", arguments='{"to":"Bob","amount":50}')

    assert call_line(called, 99, "{amount:500 to:Bobby}") == "pay(to=Bob, amount=50)"


SCRIPT = (
    'python -c \'import os; os.environ.setdefault("A_LONG_NAME", "x"); run(mode={}); print(1)\''
)


def shell(command: str, **more: object) -> CalledTool:
    return CalledTool(id="", name="bash", arguments=json.dumps({"command": command, **more}))


def test_a_short_call_is_said_whole():
    assert CallFormatter(40)(shell("ls")) == "bash(command=ls)"


def test_a_call_like_an_earlier_one_is_said_by_its_difference():
    say = CallFormatter(60)

    first = say(shell(SCRIPT.format("one"), timeout=3))
    second = say(shell(SCRIPT.format("two"), timeout=3))

    assert "as above" not in first
    assert second == (
        'bash(command="python -c \'import os; os… as above, but …run(mode=two);…", timeout=3)'
    )


def test_a_call_that_only_begins_like_an_earlier_one_is_said_whole():
    say = CallFormatter(60)
    say(shell(SCRIPT.format("one")))

    assert "as above" not in say(shell(SCRIPT[:40] + " and so on" * 20))


def test_plain_text_arguments_say_where_they_repeat_the_call_before():
    say = CallFormatter(60)
    say(CalledTool(id="", name="shell", arguments=SCRIPT.format("one")))

    assert say(CalledTool(id="", name="shell", arguments=SCRIPT.format("two"))) == (
        "shell(python -c 'import os; os… as above, but …run(mode=two);…)"
    )


def test_text_that_was_only_cut_short_shows_its_end():
    say = CallFormatter(60)
    say(CalledTool(id="", name="shell", arguments="a" * 300))

    assert say(CalledTool(id="", name="shell", arguments="a" * 299)) == (
        f"shell({'a' * 24}… as above, but …{'a' * 40}…)"
    )


def test_arguments_without_texts_are_said_as_they_are():
    assert CallFormatter(5)(CalledTool(id="", name="add", arguments='{"a":1}')) == "add(a=1)"


@given(st.lists(st.text(), max_size=4), st.integers(1, 40))
def test_every_call_is_one_line(texts, max_chars):
    say = CallFormatter(max_chars)

    assert all(len(say(shell(text)).splitlines()) == 1 for text in texts)


def test_long_calls_take_no_time():
    say = CallFormatter(160)
    before = time.process_time()
    for number in range(30):
        say(shell("x" * 30_000 + str(number) + " y" * 9_000))

    assert time.process_time() - before < 1


def test_a_tools_name_has_at_most_128_characters_on_a_line():
    assert call_line(call("", "n" * 128), 9) == f"{'n' * 128}()"
    assert call_line(call("", "n" * 129), 9) == f"{'n' * 128}()"


def test_an_id_of_64_characters_stands_in_a_short_call_and_a_longer_one_does_not():
    assert short_call_line(call(json.dumps({"id": "a" * 64}))) == f"f(id={'a' * 64}, …)"
    assert short_call_line(call(json.dumps({"id": "a" * 65}))) == "f(…)"


def test_a_key_of_200_characters_is_readable_and_a_longer_one_is_a_digest():
    assert call_key(call(json.dumps("x" * 196))) == f'f "{"x" * 196}"'
    assert len(call_key(call(json.dumps("x" * 197)))) == len("f ") + 32


def test_a_call_of_which_60_of_100_characters_are_equal_is_said_by_its_difference():
    def second_line(shared: int) -> str:
        formatter = CallFormatter(50)
        formatter(call("a" * shared + "b" * (100 - shared)))
        return formatter(call("a" * shared + "c" * (100 - shared)))

    assert "as above" in second_line(60)
    assert "as above" not in second_line(59)
