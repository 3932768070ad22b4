import json
from typing import Any

import pytest

from compaction.agents.file_operations import (
    FileEffect,
    file_operations,
    is_file_view,
    is_test_run,
    says_not_edited,
)
from compaction.reading.message import CalledTool


def call(name: str, **arguments: Any) -> CalledTool:
    return CalledTool(id="c", name=name, arguments=json.dumps(arguments))


def effects(called: CalledTool, result: str = "") -> list[tuple[str, str]]:
    return [(one.effect.value, one.path) for one in file_operations(called, result)]


EDITOR = "str_replace_editor"
PATCH = (
    "*** Begin Patch\n*** Update File: a.py\n@@\n-x\n+y\n*** Add File: b/c.py\n+z\n*** End Patch"
)


@pytest.mark.parametrize(
    ("called", "done"),
    [
        (call(EDITOR, command="view", path="/r/parser.c", view_range=[3, 9]), "viewed"),
        (call(EDITOR, command="create", path="/r/parser.c", file_text="x"), "created"),
        (call(EDITOR, command="str_replace", path="/r/parser.c", old_str="a"), "edited"),
        (call(EDITOR, command="insert", path="/r/parser.c", insert_line=2, new_str="a"), "edited"),
        (call(EDITOR, command="undo_edit", path="/r/parser.c"), "undone"),
        (call("text_editor_20250728", command="view", path="/r/parser.c"), "viewed"),
        (call("Read", file_path="/r/parser.c", offset=10), "viewed"),
        (call("Edit", file_path="/r/parser.c", old_string="a", new_string="b"), "edited"),
        (call("MultiEdit", file_path="/r/parser.c", edits=[{"old_string": "a"}]), "edited"),
        (call("Write", file_path="/r/parser.c", content="x"), "created"),
        (call("read_file", absolute_path="/r/parser.c"), "viewed"),
        (call("replace_in_file", path="/r/parser.c", diff="x"), "edited"),
        (call("write_to_file", path="/r/parser.c", content="x"), "created"),
        (call("edit", path="/r/parser.c", oldText="a", newText="b"), "edited"),
        (call("Bash", command="sed -n '5,9p' /r/parser.c"), "viewed"),
        (call("bash", command="cat /r/parser.c | head -3"), "viewed"),
        (call("bash", command="grep -n main /r/parser.c"), "searched"),
        (call("bash", command="sed -i 's/a/b/' /r/parser.c"), "edited"),
        (call("bash", command="cat > /r/parser.c <<EOF\nx\nEOF"), "created"),
        (call("bash", command="echo x >> /r/parser.c"), "edited"),
        (call("bash", command="git checkout -- /r/parser.c"), "undone"),
        (call("bash", command="git restore /r/parser.c"), "undone"),
        (call("bash", command="rm -f /r/parser.c"), "deleted"),
        (call("bash", command="pytest -q /r/parser.c"), "tested"),
        (call("shell", command=["bash", "-lc", "sed -n 5,9p /r/parser.c"]), "viewed"),
        (CalledTool(id="", name="shell", arguments="cat /r/parser.c"), "viewed"),
    ],
)
def test_the_effect_follows_from_command_and_arguments(called, done):
    assert effects(called) == [(done, "/r/parser.c")]


def test_a_patch_names_each_of_its_files():
    patched = [("edited", "a.py"), ("created", "b/c.py")]

    assert effects(call("apply_patch", input=PATCH)) == patched
    assert effects(call("shell", command=["apply_patch", PATCH])) == patched
    assert effects(call("bash", command=f"apply_patch <<'EOF'\n{PATCH}\nEOF")) == patched


def test_a_file_written_over_is_edited_by_its_result():
    called = call("Write", file_path="a.py", content="x")

    assert effects(called, "The file a.py has been updated.") == [("edited", "a.py")]
    assert effects(called, "File created successfully at: a.py") == [("created", "a.py")]


def test_an_edit_of_the_open_file_names_it_by_its_result():
    called = CalledTool(id="", name="shell", arguments="edit 10:12\nx = 1\nend_of_edit")

    assert effects(called, "[File: /r/a.py (97 lines total)]\n10:x = 1") == [("edited", "/r/a.py")]


def test_texts_and_lines_of_an_operation_are_read():
    (edit,) = file_operations(call("Edit", file_path="a.py", old_string="x", new_string="y"))
    (view,) = file_operations(call("bash", command="sed -n '40,60p' a.py"))
    (made,) = file_operations(call("bash", command="cat > a.py <<'E'\nx = 1\nE"))
    both = file_operations(call("MultiEdit", file_path="a", edits=[{"old_string": "1"}, {}]))

    assert (edit.replaced, edit.text, edit.is_whole) == ("x", "y", False)
    assert (view.start, view.by_shell) == (40, True)
    assert (made.start, made.text, made.is_whole) == (0, "x = 1\n", True)
    assert [one.replaced for one in both] == ["1", ""]


def test_other_calls_and_words_are_no_operations_on_files():
    assert effects(call("bash", command="npm run build && git commit -m 'fix a.py'")) == []
    assert effects(call("bash", command="git checkout main > /dev/null")) == []
    assert effects(call("search_flights", origin="JFK")) == []
    assert effects(call("think", thought="read a.py")) == []


def test_undoing_all_is_told_from_undoing_a_file():
    assert effects(call("bash", command="git checkout .")) == [("undone", "*")]
    assert effects(call("bash", command="git stash")) == [("undone", "*")]
    assert effects(call("bash", command="git reset --hard HEAD~1")) == [("undone", "*")]


@pytest.mark.parametrize(
    "result",
    [
        "No replacement was performed, old_str `x` did not appear verbatim in a.py.",
        "<tool_use_error>String to replace not found in file.</tool_use_error>",
        "Could not find the exact text in a.py.",
        "Your proposed edit has introduced new syntax error(s).",
    ],
)
def test_a_result_may_say_that_an_edit_was_not_made(result):
    assert says_not_edited(result)


def test_code_behind_the_first_line_is_no_report():
    result = "The file a.py has been edited. Here is a snippet:\n  3\traise ValueError('invalid')"

    assert not says_not_edited(result)


@pytest.mark.parametrize("command", ["pytest -q", "npm test", "cd x && go test ./...", "make test"])
def test_a_test_run_is_known_by_its_command(command):
    assert is_test_run(call("bash", command=command))
    assert not is_test_run(call("bash", command="cat tests/test_a.py"))


def test_a_view_of_a_file_is_told_from_other_calls():
    assert is_file_view("Read", '{"file_path": "a.json"}')
    assert is_file_view("bash", '{"command": "sed -n 1,9p a.json"}')
    assert not is_file_view("bash", '{"command": "ls a/b.json"}')
    assert not is_file_view("get_order", '{"id": "A-1"}')


def test_every_effect_has_its_own_word():
    assert len({effect.value for effect in FileEffect}) == len(FileEffect)


def test_a_call_has_at_most_twelve_operations():
    assert len(effects(call("bash", command="rm " + " ".join(f"{n}.py" for n in range(12))))) == 12
    assert len(effects(call("bash", command="rm " + " ".join(f"{n}.py" for n in range(13))))) == 12


def test_a_path_has_at_most_400_characters():
    folders = f"{'a' * 59}/" * 6
    path = f"{folders}{'b' * 37}.py"

    assert len(path) == 400
    assert effects(call("bash", command=f"cat {path}")) == [("viewed", path)]
    assert effects(call("bash", command=f"cat {folders}{'b' * 38}.py")) == []


def test_a_verb_counts_within_the_first_128_characters_of_a_tools_name():
    assert effects(call(f"{'q' * 123}_read", path="a.py")) == [("viewed", "a.py")]
    assert effects(call(f"{'q' * 124}_read", path="a.py")) == []


def test_a_failed_edit_is_told_within_the_first_200_characters_of_its_result():
    assert says_not_edited(f"{'a' * 190} not found")
    assert not says_not_edited(f"{'a' * 191} not found")
