"""The parts of a command's result that stay: its exit, its failures and its names."""

import pytest

from compaction.facts.coding.commands import command_facts
from tests.compaction.facts.regions import (
    call_and_result,
    raw_call_and_result,
    read_contents,
    texts,
    user,
)


def named_facts(part):
    return [named for named, _ in command_facts(part)]


def bare_facts(part):
    return [bare for _, bare in command_facts(part)]


LONG = "<returncode>1</returncode>\n" + "src/app.py:10: def main_loop()\n" * 20
PYTEST = """\
    def test_status():
>       assert call_upstream(31.2)
E       TimeoutError: upstream took 31.2s (limit 30.0s)
E        +  where 31.2 = call_upstream()

FAILED tests/test_x.py::test_status - Timeo...
================ 1 failed, 11 passed in 0.31s ================
exit code: 1"""
LOG = "job done\n" * 20 + "ERROR job 5 failed: DiskFull on vol-7\n" + "so it goes\n" * 60


def test_a_short_answer_stays_as_it_is():
    assert texts(named_facts(read_contents(call_and_result("bash", "344\n", command="run x")))) == [
        "bash(command=run x) → 344"
    ]


def test_of_a_long_result_exit_and_names_stay():
    part = read_contents(call_and_result("bash", LONG + "no luck\n", command="cat"))

    assert texts(named_facts(part)) == [
        "bash(command=cat) → exit 1: no luck → src/app.py main_loop"
    ]
    assert texts(bare_facts(part)) == ["bash(command=cat) → exit 1: no luck → …"]


def test_a_failure_stands_on_the_line_of_its_command():
    wrong = LONG + "ValueError: no\n"

    assert texts(bare_facts(read_contents(call_and_result("bash", wrong, command="x")))) == [
        "bash(command=x) → exit 1: ValueError: no → …"
    ]


def test_a_file_that_only_tells_of_errors_went_well():
    output = LONG.replace(">1<", ">0<") + "raise ValueError: no\n" + "so\n" * 300

    assert texts(bare_facts(read_contents(call_and_result("bash", output, command="x")))) == [
        "bash(command=x) → …"
    ]


def test_failures_of_a_test_run_and_of_a_log_stay():
    part = read_contents(
        call_and_result("sh", PYTEST, "a", cmd="pytest -q"),
        call_and_result("sh", LOG, "b", cmd="cat log0"),
    )

    assert texts(bare_facts(part)) == [
        (
            "sh(cmd=pytest -q) → exit 1: E TimeoutError: upstream took 31.2s (limit 30.0s)"
            " ¶ FAILED tests/test_x.py::test_status - Timeo... ¶ 1 failed, 11 passed in 0.31s → …"
        ),
        "sh(cmd=cat log0) → ERROR job 5 failed: DiskFull on vol-7",
    ]


@pytest.mark.parametrize(("calls", "words", "detailed"), [(20, 0, 6), (40, 20_000, 15)])
def test_errors_have_300_tokens_or_three_percent_of_a_region(calls: int, words: int, detailed: int):
    runs = [call_and_result("sh", PYTEST, f"c{n}", cmd=f"pytest -q {n}") for n in range(calls)]
    facts = texts(bare_facts(read_contents(user("word " * words), *runs)))

    assert sum("TimeoutError: upstream" in fact for fact in facts) == detailed


@pytest.mark.parametrize(("chars", "is_whole"), [(160, True), (161, False)])
def test_an_argument_of_160_characters_stands_whole(chars: int, *, is_whole: bool):
    (fact,) = texts(named_facts(read_contents(call_and_result("bash", "ok", command="y" * chars))))

    assert ("y" * chars in fact) == is_whole


def test_where_room_is_short_the_latest_tell_more_of_what_went_wrong():
    part = read_contents(
        *(
            call_and_result("sh", PYTEST, f"c{number}", cmd=f"pytest -q {number}")
            for number in range(20)
        )
    )
    first, *_, last = texts(bare_facts(part))

    assert "exit 1: FAILED tests/test_x.py::test_status" in first
    assert "TimeoutError: upstream" not in first
    assert last.endswith("1 failed, 11 passed in 0.31s → …")


def test_a_list_that_is_not_whole_ends_with_a_sign():
    hits = "".join(f"src/mod_{number}.py:1: handler_{number}\n" for number in range(9))
    part = read_contents(
        call_and_result("sh", hits, "a", cmd="grep -rn handler src"),
        call_and_result("sh", "handler_3 " * 20, "b", cmd="cat x"),
        call_and_result("sh", "plain words of some length " * 9, "c", cmd="cat y"),
        call_and_result("sh", "plain words", "d", cmd="cat z"),
    )
    first, *rest = texts(named_facts(part))

    assert "handler_4" in first
    assert "handler_3" not in first
    assert first.endswith(" …")
    assert rest == [
        "sh(cmd=cat x) → handler_3",
        "sh(cmd=cat y) → …",
        "sh(cmd=cat z) → plain words",
    ]


def test_a_search_without_hits_found_nothing():
    none = "<returncode>1</returncode>\n<output>\n</output>"

    assert texts(
        named_facts(read_contents(call_and_result("bash", none, command="grep -r x .")))
    ) == ["bash(command=grep -r x .) → exit 1, nothing found"]
    assert texts(named_facts(read_contents(call_and_result("bash", none, command="false")))) == [
        "bash(command=false) → exit 1"
    ]


def test_an_exit_that_is_told_already_is_not_told_twice():
    assert texts(
        named_facts(read_contents(call_and_result("bash", "no: exit code 3", command="x")))
    ) == ["bash(command=x) → exit 3: no: exit code 3"]
    assert texts(
        named_facts(read_contents(call_and_result("bash", "no: exit 3", command="x")))
    ) == ["bash(command=x) → no: exit 3"]


def test_the_purpose_of_a_call_follows_it_where_there_is_room():
    call, result = call_and_result(
        "bash", "<returncode>0</returncode>", command="python try.py --fast"
    )
    part = read_contents(
        user("Go on. " * 300), [call | {"content": "I see whether it is quick."}, result]
    )

    assert texts(named_facts(part)) == [
        "bash(command=python try.py --fast) # I see whether it is quick → exit 0"
    ]
    assert texts(bare_facts(part)) == ["bash(command=python try.py --fast) → exit 0"]


def test_of_equal_commands_the_latest_stays():
    part = read_contents(
        call_and_result("bash", "1", "a", command="x"),
        call_and_result("bash", "2", "b", command="x"),
    )

    assert texts(named_facts(part)) == ["bash(command=x) → 2"]


def test_an_action_among_commands_says_how_it_ended():
    page = "\n".join(f"{number}: a line of a page" for number in range(40))
    part = read_contents(
        call_and_result("send_mail", page, "a", to="mei"),
        call_and_result("send_mail", f"Error: mailbox full\n{page}", "b", to="li"),
        call_and_result("bash", page, "c", command="cat src/a.py"),
    )

    lines = texts(named_facts(part))

    assert lines[0].startswith("send_mail(to=mei) → unknown")
    assert "mailbox full" in lines[1]
    assert "unknown" not in lines[2]


def test_results_of_unknown_calls_all_stay():
    call, result = raw_call_and_result("", "", "one")

    part = read_contents(user("go"), call, result, call, {**result, "content": "two"})

    assert texts(named_facts(part)) == ["one", "two"]


def test_frames_of_a_harness_around_an_answer_are_left_out():
    framed = "<returncode>2</returncode>\n<output>\nno\n</output>"

    assert texts(named_facts(read_contents(call_and_result("bash", framed, command="x")))) == [
        "bash(command=x) → exit 2: no"
    ]


def test_an_edit_that_was_made_is_said_without_its_long_texts():
    old = "def f():\n\treturn 1"
    done = {"file_path": "a.py", "old_string": old, "new_string": "return 2"}
    part = read_contents(
        call_and_result("Edit", "The file a.py has been updated. 9 lines.", "a", **done),
        call_and_result("Edit", "String to replace not found in file.", "b", **done, n=1),
    )

    made, failed = texts([forms[0] for forms in command_facts(part)])

    assert made == "Edit(file_path=a.py, new_string=return 2) → ok"
    assert "def f()" in failed
