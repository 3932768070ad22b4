import json

import msgspec
import pytest

from compaction.facts.actions import action_flags
from compaction.facts.call_records import (
    action_facts,
    current_results,
    error_facts,
    exchange_fact,
    mentioned_words,
    record_facts,
)
from compaction.facts.fact import FactKind
from compaction.facts.segment_fitting import segment_within
from tests.compaction.facts.regions import (
    assistant,
    call_and_result,
    raw_call_and_result,
    read_contents,
    region,
    texts,
    user,
)


def fact(*turns, say=str):
    return exchange_fact(read_contents(*turns).exchanges[0], FactKind.RECORD, say, "key", 2)


def test_a_call_and_its_result_are_one_line():
    record = fact(call_and_result("get", "a\nb", x="Z1"))

    assert record.text == "get(x=Z1) → a ¶ b"
    assert (record.turns, record.messages, record.key, record.replaces) == ((0,), (0, 1), "key", 2)


def test_a_result_that_is_left_out_is_told_from_none():
    assert fact(call_and_result("get", "a", x="Z1"), say=lambda _: "").text == "get(x=Z1) → …"
    assert fact(call_and_result("get", "", x="Z1")).text == "get(x=Z1)"


def test_a_result_of_an_unknown_call_stands_alone():
    assert fact(raw_call_and_result("", "", "a")).text == "result → a"


def test_thoughts_are_cut_sooner():
    assert len(fact(call_and_result("think", "", thought="so " * 200)).text) < 200


def exchange(name, result):
    return read_contents(call_and_result(name, result)).exchanges[0]


@pytest.mark.parametrize(
    ("name", "result"),
    [
        ("cancel_order", "{}"),
        ("do", "Successfully paid"),
        ("do", "The mail has been sent."),
        ("do", "Your seat was already booked"),
    ],
)
def test_a_call_acts_by_its_verb_or_by_what_came_back(name, result):
    assert exchange(name, result).is_action


@pytest.mark.parametrize("result", ["It needed a seat", "", "x" * 400 + " successfully paid"])
def test_other_calls_do_not(result):
    assert not exchange("look", result).is_action


def test_each_action_stands_for_itself_and_says_its_outcome_once():
    state = '{"order_id": "W1", "state": "open"}'
    part = read_contents(
        call_and_result("update", state, order_id="W1"),
        call_and_result("update", state, order_id="W1"),
        call_and_result("get", "{}"),
    )

    actions = list(action_facts(part, str, current_results(part.exchanges), action_flags(part)))

    assert [fact.kind for fact in actions] == [FactKind.ACTION, FactKind.ACTION]
    assert actions[0].text == "update(order_id=W1) → ok"
    assert actions[1].text.endswith("state: open} → ok")


def records_of(part):
    return list(record_facts(part, str, current_results(part.exchanges), action_flags(part)))


def test_the_words_of_an_error_stand_once():
    failure = '{"error": "no funds on the card", "needed": "1180.00"}'
    part = read_contents(call_and_result("pay", failure, to="Mei"))

    (line,) = texts(action_facts(part, str, [True], [True]))

    assert line.count("no funds on the card") == 1
    assert line.endswith("→ error")


def test_calls_that_only_look_are_kept_with_what_came_back():
    part = read_contents(
        call_and_result("get", "1", x=1),
        call_and_result("get", "2", x=1),
        call_and_result("pay", "3"),
    )

    assert texts(records_of(part)) == ["get(x=1) → 2"]


def test_a_record_of_an_earlier_segment_is_said_to_be_replaced():
    turns = [call_and_result("get", "{}", x=1), call_and_result("get", '{"a": 1}', x=1)]
    first = segment_within(region(*turns, end=2), 0, len)
    facts = tuple([msgspec.structs.replace(fact, turns=(3,)) for fact in first.facts])
    first = msgspec.structs.replace(first, facts=facts)

    (again,) = records_of(read_contents(*turns, start=2, earlier=(first,)))

    assert again.replaces == 3


def test_a_thought_is_left_out_unless_something_came_back_of_it():
    part = read_contents(
        call_and_result("think", "", thought="hm"),
        call_and_result("think", "2", "b", thought="1 + 1"),
    )

    assert texts(records_of(part)) == ["think(thought=1 + 1) → 2"]


TRACE = "Traceback (most recent call last):\n  File \"a.py\", line 1\nKeyError: 'x'\n"


def test_an_error_of_a_repeated_call_stays_with_its_fix():
    part = read_contents(
        call_and_result("bash", TRACE, "a", command="x"),
        call_and_result("bash", "ok", "b", command="x"),
    )

    assert texts(error_facts(part)) == ["bash(command=x): KeyError: 'x' (went well later)"]


def test_an_error_that_stays_is_not_said_to_be_mended_and_stands_once():
    part = read_contents(
        call_and_result("bash", "ok", "a", command="x"),
        call_and_result("bash", TRACE, "b", command="x"),
        call_and_result("bash", "so\n" * 60 + TRACE, "c", command="x"),
        call_and_result("bash", "so\n" * 60 + TRACE, "d", command="x"),
        call_and_result("bash", "so\n" * 60 + "OSError: y", "e", command="x"),
    )

    assert texts(error_facts(part)) == ["bash(command=x): KeyError: 'x'"]


def test_an_error_does_not_repeat_the_line_of_its_command():
    assert (
        texts(error_facts(read_contents(call_and_result("bash", "Error: no", command="x")))) == []
    )
    assert (
        texts(
            error_facts(
                read_contents(
                    raw_call_and_result("", "", "Error: no"),
                    raw_call_and_result("", "", "Error: no"),
                )
            )
        )
        == []
    )


def test_equal_calls_do_not_share_the_result_of_the_latest():
    part = read_contents(
        call_and_result("bash", TRACE, "a", command="x"),
        call_and_result("bash", TRACE, "b", command="x"),
    )

    assert texts(error_facts(part)) == []


def test_a_search_that_found_nothing_is_no_error():
    none = "<returncode>1</returncode>\n<output>\n</output>"
    part = read_contents(
        call_and_result("bash", none, "a", command="x"),
        call_and_result("bash", none, "b", command="x"),
    )

    assert texts(error_facts(part)) == []


OLD = json.dumps({"reservation_id": "Z1", "cabin": "economy"})
NEW = json.dumps({"reservation_id": "Z1", "cabin": "business"})


def are_current(*turns):
    return current_results(read_contents(*turns).exchanges)


def test_of_equal_calls_the_latest_result_is_current():
    assert are_current(
        call_and_result("get", "1", id="Z1"), call_and_result("get", "2", id="Z1")
    ) == (
        False,
        True,
    )
    assert are_current(
        call_and_result("get", "1", id="Z1"), call_and_result("get", "2", id="Z2")
    ) == (
        True,
        True,
    )


def test_a_failure_stands_and_replaces_nothing():
    assert (
        are_current(
            call_and_result("get", "1"),
            call_and_result("get", "Error: no"),
            call_and_result("get", ""),
        )
        == (True,) * 3
    )


def test_a_later_result_that_tells_as_much_of_the_same_thing_replaces_one():
    get = call_and_result("get", OLD, reservation_id="Z1")

    assert are_current(get, call_and_result("update", NEW, reservation_id="Z1", cabin="b")) == (
        False,
        True,
    )
    assert are_current(get, call_and_result("update", NEW, cabin="b")) == (True, True)
    assert are_current(
        get, call_and_result("update", '{"reservation_id": "Z1"}', reservation_id="Z1")
    ) == (
        True,
        True,
    )


def test_a_result_without_ids_stays_current():
    for result in ('{"a": 1}', "{", "[]", "text"):
        assert are_current(
            call_and_result("get", result, a=1), call_and_result("put", result, a=1, b=2)
        ) == (True, True)
    assert are_current(
        raw_call_and_result("get", "x", OLD), raw_call_and_result("put", "y", OLD)
    ) == (
        True,
        True,
    )


def test_a_result_is_compared_with_few_later_ones():
    many = [call_and_result("get", OLD, a=number) for number in range(12)]

    assert all(are_current(*many))


def test_mentioned_words_are_of_users_the_assistant_and_calls_not_of_results():
    part = read_contents(
        user("Find Mei."), assistant("Sure!"), call_and_result("find", "found", who="Brown")
    )

    assert {"Mei", "Sure", "Brown"} <= mentioned_words(part)
    assert "found" not in mentioned_words(part)


def test_the_call_of_an_error_is_cut_to_80_characters():
    command = "x" * 200
    part = read_contents(
        call_and_result("bash", TRACE, "a", command=command),
        call_and_result("bash", "ok", "b", command=command),
    )
    (line,) = texts(error_facts(part))

    value = line.partition("): ")[0].removeprefix("bash(command=")
    assert value == f'"{"x" * 60} [……] {"x" * 20}"'


def test_arguments_of_400_characters_stand_and_of_100_where_nothing_came_back():
    assert fact(call_and_result("get", "a", x="y" * 400)).text == f"get(x={'y' * 400}) → a"
    assert "y" * 400 not in fact(call_and_result("get", "a", x="y" * 401)).text
    assert fact(call_and_result("get", "", x="y" * 100)).text == f"get(x={'y' * 100})"
    assert "y" * 100 not in fact(call_and_result("get", "", x="y" * 101)).text


def test_twelve_characters_before_an_errors_message_say_no_more_than_it():
    assert fact(call_and_result("get", "Failure:    boom")).text == "get() → error: boom"
    assert fact(call_and_result("get", "Failure:     boom")).text == "get() → Failure:     boom"


def test_an_open_error_has_two_lines_and_a_fixed_one_has_one():
    failed = call_and_result("run", "fatal: 1\nfatal: 2\nfatal: 3", "a")
    again, fixed = call_and_result("run", "fatal: 9", "b"), call_and_result("run", "fine", "b")

    assert texts(error_facts(read_contents(failed, again))) == ["run(): fatal: 2 ¶ fatal: 3"]
    assert texts(error_facts(read_contents(failed, fixed))) == ["run(): fatal: 3 (went well later)"]


def test_a_result_is_compared_with_the_last_eight_of_its_subject():
    def is_first_current(later: int) -> bool:
        calls = [
            call_and_result("get", json.dumps({"id": 1, f"key{n}": 0}), f"c{n}", q=n)
            for n in range(later)
        ]
        first = call_and_result("get", '{"id":1,"key0":0}', "first")
        return current_results(read_contents(first, *calls).exchanges)[0]

    assert not is_first_current(8)
    assert is_first_current(9)
