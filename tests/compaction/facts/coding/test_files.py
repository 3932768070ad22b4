import json
import time

import msgspec

from compaction.facts.coding.files import (
    call_without_texts,
    file_facts,
    mark_changed_files,
    slice_facts,
)
from compaction.facts.fact import Fact, FactKind
from compaction.reading.message import CalledTool
from tests.compaction.facts.regions import (
    call_and_result,
    raw_call_and_result,
    read_contents,
    texts,
    user,
)


def test_each_path_is_one_line_with_what_was_done_to_it():
    part = read_contents(
        user("go"),
        call_and_result("open", "", "a", path="src/app.py"),
        call_and_result("edit", "Done.", "b", path="src/app.py", text="from x import y.z"),
        user("on"),
        call_and_result("bash", "", "c", command="python src/app.py && rm /srv/log.txt"),
    )
    files = list(file_facts(part))

    assert texts(files) == ["src/app.py viewed, edited, run", "/srv/log.txt deleted"]
    assert files[0].turns == (1, 2)


def test_files_of_commands_in_plain_text_are_read():
    assert texts(file_facts(read_contents(raw_call_and_result("shell", "cat a/b.c", "")))) == [
        "a/b.c viewed"
    ]


def test_paths_of_one_call_are_bounded():
    many = " ".join(f"d/{number}.py" for number in range(40))

    assert (
        len(list(file_facts(read_contents(raw_call_and_result("shell", f"cat {many}", ""))))) == 12
    )
    assert texts(file_facts(read_contents(call_and_result("add", "", a=1, b=2)))) == []


def test_modules_globs_and_expressions_of_sed_are_no_paths():
    command = "sed -i 's/a_b/c/' src/x.py && find . -name '*_test.py' && python -c 'import os.path'"

    assert texts(file_facts(read_contents(call_and_result("bash", "", command=command)))) == [
        "src/x.py edited"
    ]


def test_a_change_that_failed_does_not_read_as_one():
    part = read_contents(
        call_and_result("edit", "Error: no such line", "a", path="src/a.py"),
        call_and_result("edit", "", "b", path="src/b.py"),
        call_and_result("edit", "Done.", "c", path="src/c.py"),
        call_and_result("open", "Error: no such file", "d", path="src/d.py"),
    )

    assert texts(file_facts(part)) == [
        "src/a.py not edited (error)",
        "src/b.py edited (unknown)",
        "src/c.py edited",
        "src/d.py not viewed (error)",
    ]


def test_an_instruction_to_sed_names_no_file_and_its_next_argument_does():
    commands = [
        "sed -i 's/rate = slow/rate = fast/' lib/pump.py",
        """sed -n -e 's/a b/c d/p' -e "/old/s/x y/z/" 'docs/b.md'""",
        "sed -i '' 's/on/off/g' conf/site.toml | sed s/a/b/ > out/c.txt",
    ]
    part = read_contents(
        *(
            call_and_result("bash", "", f"c{number}", cmd=command)
            for number, command in enumerate(commands)
        )
    )

    assert [fact.key for fact in file_facts(part)] == [
        "lib/pump.py",
        "docs/b.md",
        "conf/site.toml",
        "out/c.txt",
    ]


def test_a_way_up_alone_is_no_path():
    assert texts(
        file_facts(read_contents(raw_call_and_result("shell", "cd ../.. && ls ./ ../lib/a.c", "")))
    ) == ["../lib/a.c searched"]


def test_many_programs_of_sed_take_no_time():
    texts_of_it = (
        "sed " * 1_000,
        "sed -" * 800,
        "sed '" * 800,
        "sed" + " " * 3_990,
        "sed ''" * 660,
    )
    before = time.process_time()
    for text in texts_of_it:
        list(file_facts(read_contents(raw_call_and_result("shell", text, ""))))

    assert time.process_time() - before < 1


def test_text_of_many_dots_and_slashes_takes_no_time():
    before = time.process_time()
    list(
        file_facts(read_contents(raw_call_and_result("shell", "a.b-" * 50_000 + "a/" * 50_000, "")))
    )

    assert time.process_time() - before < 1


def test_a_file_that_an_editor_only_viewed_is_not_called_edited():
    view = call_and_result("str_replace_editor", "1\tint x;", command="view", path="parser.c")

    assert texts(file_facts(read_contents(view))) == ["parser.c viewed"]


def test_a_trail_ends_with_the_last_state():
    part = read_contents(
        call_and_result("Read", "1→x", "a", file_path="a.py"),
        call_and_result("Edit", "String to replace not found in file.", "b", file_path="a.py"),
        call_and_result("Edit", "The file a.py has been updated.", "c", file_path="a.py"),
        call_and_result("Edit", "The file a.py has been updated.", "d", file_path="a.py"),
        call_and_result("Bash", "== 1 failed in 2s ==", "e", command="pytest a.py"),
        call_and_result("Bash", "", "f", command="git checkout ."),
    )

    assert texts(file_facts(part)) == [
        "a.py viewed, not edited (error), edited ×2, tested (failed), undone"
    ]


def test_a_change_within_a_command_that_failed_is_unknown():
    command = "sed -i s/a/b/ a.py && python a.py"
    part = read_contents(
        call_and_result("bash", "Traceback (most recent call last):\nKeyError", command=command)
    )

    assert texts(file_facts(part)) == ["a.py edited (unknown), run"]


def test_a_long_trail_keeps_its_beginning_and_its_end():
    calls = [
        call_and_result("bash", "ok", f"c{number}", command=("cat a.c", "rm a.c")[number % 2])
        for number in range(30)
    ]

    assert texts(file_facts(read_contents(*calls))) == [
        "a.c viewed, …, viewed, deleted, viewed, deleted, viewed, deleted"
    ]


def test_known_lines_of_a_file_are_a_fact_with_their_place():
    view = call_and_result("Read", "  40→x = 1\n  41→\ty = 2", "a", file_path="a.py")
    sed = call_and_result("bash", "", "b", command="sed -i s/x/y/ a.py")

    assert lines_of(view) == [["a.py from line 40: x = 1 ¶ \ty = 2"]]
    assert lines_of(view, sed) == [["a.py from line 40, before later edits: x = 1 ¶ \ty = 2"]]


def test_lines_around_an_edit_are_a_shorter_form_of_known_lines():
    page = "\n".join(f"line number {n}" for n in range(99))
    done = {"file_path": "a.py", "old_string": "line number 50", "new_string": "changed"}
    edit = call_and_result("Edit", "The file a.py has been updated.", "b", **done)

    ((whole, short),) = lines_of(call_and_result("Read", page, "a", file_path="a.py"), edit)

    assert whole.count("¶") == 98
    assert short.startswith("a.py: […] ¶ line number 38 ¶ ")
    assert "line number 49 ¶ changed ¶ line number 51" in short


def lines_of(*calls):
    return [texts(forms) for forms in slice_facts(read_contents(*calls))]


def test_an_argument_of_80_characters_stays_in_a_made_edit_and_a_longer_one_goes():
    def arguments(text: str) -> str:
        return call_without_texts(CalledTool("", "edit", json.dumps({"a": text}))).arguments

    assert json.loads(arguments("x" * 80)) == {"a": "x" * 80}
    assert arguments("x" * 81) == "{}"


VIEW = call_and_result("editor", "x = 1\ny = 2", "a", command="view", path="a.py")
EDIT = call_and_result(
    "editor", "The file a.py has been edited.", "b", command="str_replace", path="a.py", old_str="x"
)
VIEWED = Fact(kind=FactKind.RECORD, text="editor(a.py) → x = 1", turns=(1,), messages=(0, 1))
MADE = Fact(kind=FactKind.ACTION, text="editor(a.py) → ok", turns=(1,), messages=(2, 3))


def marked_texts(*facts, calls=(VIEW, EDIT)):
    return texts(mark_changed_files(read_contents(*calls), facts))


def test_lines_of_a_file_are_marked_where_a_later_edit_of_it_is_not_shown():
    assert marked_texts(VIEWED) == ["editor(a.py) (may be outdated) → x = 1"]
    assert marked_texts(VIEWED, MADE) == [VIEWED.text, MADE.text]


def test_lines_of_a_file_are_not_marked_for_edits_of_others_or_before_or_that_failed():
    other = call_and_result(
        "editor", "The file b.py has been edited.", "b", command="insert", path="b.py"
    )
    failed = call_and_result(
        "editor", "No replacement was made.", "b", command="insert", path="a.py"
    )
    later_view = msgspec.structs.replace(VIEWED, messages=(2, 3))

    assert marked_texts(VIEWED, calls=(VIEW, other)) == [VIEWED.text]
    assert marked_texts(VIEWED, calls=(VIEW, failed)) == [VIEWED.text]
    assert marked_texts(later_view, calls=(EDIT, VIEW)) == [VIEWED.text]


def test_an_edit_that_was_undone_unseen_and_a_view_before_a_checkout_are_marked():
    undone = call_and_result("editor", "Last edit undone.", "c", command="undo_edit", path="a.py")
    checkout = call_and_result("bash", "Updated 3 paths", "c", command="git checkout -- .")

    assert marked_texts(MADE, calls=(VIEW, EDIT, undone)) == ["editor(a.py) (may be outdated) → ok"]
    assert "(may be outdated)" in marked_texts(VIEWED, calls=(VIEW, checkout))[0]


def test_a_search_whose_hits_are_not_shown_is_not_marked():
    search = call_and_result("bash", "a.py:1: x = 1", "a", command="grep -n x a.py")
    shown = Fact(
        kind=FactKind.COMMAND, text="bash(grep) → a.py:1: x = 1", turns=(1,), messages=(0, 1)
    )
    bare = msgspec.structs.replace(shown, text="bash(grep) → …")

    assert marked_texts(shown, bare, calls=(search, EDIT)) == [
        "bash(grep) (may be outdated) → a.py:1: x = 1",
        bare.text,
    ]
