from compaction.facts.commands import commands
from tests.compaction.facts.regions import asked, called, parted, texts, user

LONG = "<returncode>1</returncode>\n" + "src/app.py:10: def main_loop()\n" * 20


def test_a_short_answer_stays_as_it_is():
    assert texts(commands(parted(called("bash", "344\n", command="run x")))) == [
        "bash(command=run x) → 344"
    ]


def test_of_a_long_one_its_exit_and_its_names_stay():
    part = parted(called("bash", LONG, command="cat"))

    assert texts(commands(part)) == ["bash(command=cat) → exit 1 → src/app.py main_loop"]
    assert texts(commands(part, names=0)) == ["bash(command=cat) → exit 1"]


def test_what_went_wrong_stands_on_its_line():
    wrong = LONG + "ValueError: no\n"

    assert texts(commands(parted(called("bash", wrong, command="x")), names=0)) == [
        "bash(command=x) → exit 1: ValueError: no"
    ]


def test_a_file_that_only_tells_of_errors_went_well():
    told = LONG.replace(">1<", ">0<") + "raise ValueError: no\n" + "so\n" * 300

    assert texts(commands(parted(called("bash", told, command="x")), names=0)) == [
        "bash(command=x)"
    ]


def test_a_search_without_hits_found_nothing():
    none = "<returncode>1</returncode>\n<output>\n</output>"

    assert texts(commands(parted(called("bash", none, command="grep -r x .")))) == [
        "bash(command=grep -r x .) → exit 1, nothing found"
    ]
    assert texts(commands(parted(called("bash", none, command="false")))) == [
        "bash(command=false) → exit 1"
    ]


def test_an_exit_that_is_told_already_is_not_told_twice():
    assert texts(commands(parted(called("bash", "no: exit code 3", command="x")))) == [
        "bash(command=x) → exit 3: no: exit code 3"
    ]
    assert texts(commands(parted(called("bash", "no: exit 3", command="x")))) == [
        "bash(command=x) → no: exit 3"
    ]


def test_of_equal_commands_the_latest_stays():
    part = parted(called("bash", "1", "a", command="x"), called("bash", "2", "b", command="x"))

    assert texts(commands(part)) == ["bash(command=x) → 2"]


def test_the_latest_part_of_them_stays_where_that_is_asked_for():
    part = parted(*(called("bash", "", command=f"x{at}") for at in range(4)))

    assert texts(commands(part, share=0.5)) == ["bash(command=x2)", "bash(command=x3)"]


def test_results_of_unknown_calls_all_stay():
    call, result = asked("", "", "one")

    part = parted(user("go"), call, result, call, {**result, "content": "two"})

    assert texts(commands(part)) == ["one", "two"]


def test_what_a_harness_puts_around_an_answer_is_left_out():
    framed = "<returncode>2</returncode>\n<output>\nno\n</output>"

    assert texts(commands(parted(called("bash", framed, command="x")))) == [
        "bash(command=x) → exit 2: no"
    ]
