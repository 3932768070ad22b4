import json
from typing import Any

from compaction.facts.candidates import (
    CandidatePin,
    Records,
    command_candidates,
    in_message_order,
    omission_fact,
)
from compaction.facts.coding.commands import command_facts
from compaction.facts.coding.files import file_facts, slice_facts
from compaction.facts.fact import FactKind
from compaction.results.result_lines import result_line
from tests.compaction.facts.regions import Said, call_and_result, read_contents, texts, user

OFFERED_ORDERS = [
    {"id": f"W10{number}", "fee": 10 * number + 7, "state": "open"} for number in range(9)
]
DESK: list[Said] = [
    user("What of W104?"),
    call_and_result("list_orders", json.dumps(OFFERED_ORDERS), "a"),
    call_and_result("transfer", "Error: no money", "d", to="W104", note="for the lamp"),
]


def records(*turns, is_bounded):
    return list(Records(read_contents(*turns), result_line).candidates(is_bounded=is_bounded))


def test_the_whole_record_is_made_once_for_the_bounded_and_the_unbounded_form():
    rendered_results = []

    def whole(result):
        rendered_results.append(result)
        return result_line(result)

    desk_records = Records(read_contents(*DESK), whole)

    assert [list(desk_records.candidates(is_bounded=is_bounded)) for is_bounded in (False, True)]
    assert len(rendered_results) == 2


def test_a_record_is_offered_with_fewer_and_fewer_of_its_rows_and_last_without():
    orders = next(one for one in records(*DESK, is_bounded=True) if "list" in one.fact.text)

    assert [variant[0].text.count("W10") for variant in orders.variants] == [9, 4, 2, 0]
    assert texts(orders.variants[-1]) == ["list_orders() → …"]


def test_the_shortest_form_of_a_failed_action_is_its_tool_and_its_outcome():
    (action,) = [one for one in records(*DESK, is_bounded=True) if one.fact.kind is FactKind.ACTION]

    called = "transfer(to=W104, note=for the lamp, …)"
    assert texts(action.variants[-2]) == [f"{called} → error: no money"]
    assert texts(action.variants[-1]) == ["transfer(…) → error: no money"]
    assert not action.fact.has_succeeded


def test_a_payment_keeps_its_payee_and_its_amount_in_its_shortest_form():
    paid: dict[str, Any] = {"to": "Bo & Son", "iban": "DE44 1002 0000 0092 6535", "amount": 74.2}
    (action,) = records(call_and_result("pay", '{"id": "T-1"}', **paid), is_bounded=True)

    assert texts(action.variants[-1]) == ["pay(to=Bo & Son, amount=74.2, …) → ok"]


def test_payments_that_are_gone_are_named_by_their_arguments_and_failures_by_their_outcome():
    pays = [
        call_and_result("pay", "Error: no" if n == 1 else '{"id": "T"}', f"c{n}", to=f"B{n}", sum=n)
        for n in range(4)
    ]
    gone = [*records(*pays, call_and_result("get_rate", "5", "d"), is_bounded=True)]

    (line,) = omission_fact(gone, 9)
    assert line.text == (
        "pay (failed), pay (3 times) [to=B3, sum=3; to=B2, sum=2; to=B0, sum=0], get_rate"
    )
    assert list(omission_fact([], 9)) == []


def test_arguments_of_calls_that_are_gone_take_100_characters_a_tool():
    pays = [call_and_result("pay", '{"id": "T"}', f"c{n}", to="B" * 20) for n in range(5)]
    (line,) = omission_fact([*records(*pays, is_bounded=True)], 9)

    assert line.text == "pay (5 times) [" + f"to={'B' * 20}; " * 4 + "…]"


def test_failed_tests_of_a_run_that_was_made_again_stay_named():
    runs = [
        call_and_result("run_tests", f".F.\nFAILED t.py::test_{n} - x\n1 failed", f"c{n}", path="t")
        for n in range(2)
    ]
    passed = call_and_result("run_tests", "8 passed in 0.4s", "d", path="t")

    lines = [
        text for one in records(*runs, passed, is_bounded=False) for text in texts(one.variants[0])
    ]

    assert lines == [
        "run_tests(path=t) → 8 passed in 0.4s",
        "run_tests(path=t): FAILED t.py::test_0 - x (went well later)",
        "run_tests(path=t): FAILED t.py::test_1 - x (went well later)",
    ]


def test_without_a_target_records_stand_whole():
    every = records(*DESK, is_bounded=False)

    assert all(len(one.variants) == 1 and one.pin is CandidatePin.ALWAYS for one in every)


SHELL: list[Said] = [
    user("go"),
    call_and_result("bash", "src/app.py\nsrc/lib.py\n" * 9, "a", command="ls -R src/"),
    call_and_result("bash", "    x = 1\n    y = 2\n" * 40, "b", command="cat src/app.py"),
]


def commands(part, max_chars):
    files = ((fact,) for fact in file_facts(part))
    facts = [*command_facts(part), *files, *slice_facts(part)]
    return [*command_candidates(part, facts, max_chars)]


def test_results_of_a_shell_may_stand_whole_as_far_as_there_is_room():
    part = read_contents(*SHELL)
    whole = {
        max_chars: [
            one.variants[0][0].text
            for one in commands(part, max_chars)
            if one.fact.kind is FactKind.COMMAND and "¶" in one.variants[0][0].text
        ]
        for max_chars in (0, 9_000)
    }

    assert [len(lines) for lines in whole.values()] == [0, 1]
    assert whole[9_000][0].startswith("bash(command=ls -R src/) → src/app.py ¶ src/lib.py")


def test_a_viewed_file_is_offered_as_its_lines_and_not_once_more_with_its_command():
    lines = [
        texts(one.variants[0])[0]
        for one in commands(read_contents(*SHELL), 9_000)
        if "    y = 2" in texts(one.variants[0])[0]
    ]

    assert len(lines) == 1
    assert lines[0].startswith("src/app.py:     x = 1 ¶     y = 2")


def test_a_command_is_offered_with_the_names_that_it_showed_and_bare():
    named = [one for one in commands(read_contents(*SHELL), 0) if len(one.variants) == 2]

    assert any("src/lib.py" in texts(one.variants[0])[0] for one in named)
    assert {one.fact.kind for one in commands(read_contents(*SHELL), 0)} == {
        FactKind.COMMAND,
        FactKind.FILE,
        FactKind.SLICE,
    }


def test_facts_are_ordered_by_their_last_message():
    facts = [one.fact for one in records(*DESK, is_bounded=False)]

    assert in_message_order(reversed(facts)) == tuple(
        sorted(facts, key=lambda fact: fact.messages[-1])
    )


def test_lines_of_files_count_three_times_against_their_age():
    contents = "\n".join(f"    total_{number} = pay(order, {number})" for number in range(30))
    part = read_contents(call_and_result("read_file", contents, "a", path="pay.py"))
    forms = list(slice_facts(part))
    (candidate, *_) = command_candidates(part, forms, 1_000)

    assert (candidate.fact.kind, candidate.factor) == (FactKind.SLICE, 3.0)


def test_a_result_of_40000_characters_with_its_call_may_stand_whole():
    def richest_text(result_chars: int, argument_chars: int = 0) -> str:
        arguments = {"a": "y" * argument_chars}
        part = read_contents(call_and_result("ls", "x" * result_chars, **arguments))
        (candidate,) = command_candidates(part, list(command_facts(part)), 1_000_000)
        return candidate.variants[0][0].text

    call_chars = len('{"a": ""}')
    assert "x" * (40_000 - call_chars) in richest_text(40_000 - call_chars)
    assert "x" * (40_001 - call_chars) not in richest_text(40_001 - call_chars)
    assert "y" * 39_000 in richest_text(900, 39_000)


def test_a_tools_name_has_at_most_64_characters():
    (call,) = records(call_and_result("n" * 65, "a"), is_bounded=False)

    (line,) = omission_fact([call], 9)
    assert line.text == "n" * 64
