"""The lines that an edit has to match stand in the slices of the files that were viewed."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from compaction.facts.coding.file_slices import CUT_LINES, FileSlice, _holds_part, file_slices
from tests.compaction.facts.regions import call_and_result, read_contents

MAX_EXCERPT_CHARS = 10_000
MAX_WHOLE_CHARS = 20_000

EDITED = "The file a.py has been updated."


def read(result: str, ref: str = "r", **more: Any) -> list[dict[str, Any]]:
    return call_and_result("Read", result, ref, file_path="a.py", **more)


def edit(old: str, new: str, result: str = EDITED, ref: str = "e") -> list[dict[str, Any]]:
    return call_and_result("Edit", result, ref, file_path="a.py", old_string=old, new_string=new)


def slices(*calls: list[dict[str, Any]]) -> list[FileSlice]:
    return file_slices(read_contents(*calls).exchanges)


def texts(*calls: list[dict[str, Any]]) -> list[str]:
    return [one.text for one in slices(*calls)]


def test_numbers_of_lines_are_no_part_of_a_file():
    (numbered,) = slices(read("  12→def f():\n  13→\treturn 1\n  14→"))
    (shown,) = slices(read("[File: a.py (9 lines total)]\n3:x = 1\n4:y = 2\n5:z = 3\n6:a\n7:b"))

    assert (numbered.start, numbered.text) == (12, "def f():\n\treturn 1\n")
    assert (shown.start, shown.text) == (3, "x = 1\ny = 2\nz = 3\na\nb")


def test_an_edit_is_made_in_the_slice_that_holds_its_text():
    assert texts(read("x = 1\ny = 2"), edit("x = 1", "x = 7")) == ["x = 7\ny = 2"]
    assert texts(edit("x = 1", "x = 7")) == ["x = 7"]


def test_a_programs_complaint_is_no_line_of_a_file():
    complaint = "grep: parentheses not balanced\n"
    view = call_and_result("bash", complaint, "g", command="grep -A 3 'f((' a.py")
    file_of_heads = call_and_result("bash", "head: 1\nx = 2\n", "h", command="cat a.py")

    assert texts(view) == []
    assert texts(file_of_heads) == ["head: 1\nx = 2"]


def test_a_slice_is_stale_once_a_command_may_have_changed_it_before_it_failed():
    chain = call_and_result(
        "bash", "<returncode>1</returncode>1 failed", "b", command="sed -i s/1/2/ a.py && pytest"
    )

    assert [one.is_stale for one in slices(read("x = 1"), chain)] == [True]
    assert [one.is_stale for one in slices(chain, read("x = 2"))] == [False]


def test_a_slice_with_a_part_of_the_lines_that_an_edit_took_out_is_stale():
    first = read("def height(self):\n    return self.top", "r1")
    cut = read("    return self.top\n\ndef width(self):", "r2")
    made = edit("def height(self):\n    return self.top", "def height(self):\n    return 0")

    stale = {one.text: one.is_stale for one in slices(first, cut, made)}

    assert stale == {
        "def height(self):\n    return 0": False,
        "    return self.top\n\ndef width(self):": True,
    }


def test_a_part_of_a_file_is_known_by_a_line_of_twelve_characters():
    assert _holds_part("a = 1\nlength = 120\n", "length = 120\n", "")
    assert not _holds_part("a = 1\nlength = 12\n", "length = 12\n", "")


def test_an_edit_that_failed_changes_nothing():
    failed = edit("x = 9", "x = 7", "String to replace not found in file.")

    assert texts(read("x = 1"), failed) == ["x = 1"]


def test_a_newer_view_takes_the_place_of_what_it_shows_again():
    old, new = read("a\nb", "1"), read("z\na\nb\nc", "2", offset=1)

    assert texts(old, new) == ["z\na\nb\nc"]


def test_a_view_of_known_lines_makes_their_slice_the_newest():
    other = call_and_result("bash", "q = 1", "o", command="cat b.py")
    part = [read("a\nb\nc\nd", "1"), other, read("b\nc", "2", offset=2)]

    assert [(one.path, one.message, one.spots) for one in slices(*part)] == [
        ("a.py", 5, ["b\nc"]),
        ("b.py", 3, []),
    ]


def test_a_file_that_was_written_is_known_whole_and_one_undone_not_at_all():
    made = call_and_result("Write", "File created successfully", "w", file_path="a.py", content="x")

    assert texts(read("old"), made) == ["x"]
    assert texts(made, call_and_result("bash", "", "u", command="git checkout -- a.py")) == []
    assert texts(made, call_and_result("bash", "", "u", command="git stash")) == []
    assert texts(made, call_and_result("bash", "", "u", command="rm a.py")) == []


def test_lines_before_an_unknown_change_are_marked_so():
    sed = call_and_result("bash", "", "s", command="sed -i s/x/y/ a.py")

    assert [one.is_stale for one in slices(read("x = 1"), sed)] == [True]


def test_searches_with_lines_around_show_a_file_and_others_do_not():
    around = call_and_result("bash", "def f():\n\tpass", "g", command="grep -A 2 'def f' a.py")
    alone = call_and_result("bash", "def f():", "g", command="grep -n 'def f' a.py")

    assert texts(around) == ["def f():\n\tpass"]
    assert texts(alone) == []


def test_of_a_long_slice_the_lines_around_its_last_spots_stand():
    page = "\n".join(f"line number {n} of a long file" for n in range(2_000))
    (long,) = slices(read(page), edit("line number 700 of", "changed number 700 of"))

    excerpt = long.excerpt_text()

    assert len(long.text) > MAX_WHOLE_CHARS > len(excerpt)
    assert excerpt.startswith(f"{CUT_LINES}\nline number 688 of")
    assert "changed number 700 of a long file" in excerpt
    assert excerpt.endswith("line number 712 of a long file")
    assert slices(read(page)) == []


lines = st.lists(st.sampled_from(["a = 1", "b = 2", "", "\tc()", "d"]), min_size=1, max_size=6)


@given(st.lists(st.tuples(lines, lines, st.booleans()), max_size=8))
def test_known_lines_of_a_file_equal_those_of_a_file_that_is_edited(steps):
    text = "first\nlast"
    calls = [read(text)]
    for number, (old, new, is_made) in enumerate(steps):
        before, after = "\n".join([*old, "last"]), "\n".join([*new, "last"])
        if is_made and before in text:
            text = text.replace(before, after, 1)
            calls.append(edit(before, after, ref=f"e{number}"))
        else:
            calls.append(edit(before, after, "String to replace not found in file.", f"e{number}"))

    assert texts(*calls) == [text]


def test_excerpts_stay_within_their_bound():
    page = "\n".join(f"line number {n} of a long file" for n in range(3_000))
    many = [
        edit(f"line number {n} of", f"changed {n} of", ref=f"e{n}") for n in range(0, 3_000, 30)
    ]

    assert len(slices(read(page), *many)[0].excerpt_text()) <= MAX_EXCERPT_CHARS + 100 * len(
        CUT_LINES
    )


def test_a_slice_of_20000_characters_stands_whole_and_a_longer_one_does_not():
    assert texts(read("x" * 20_000)) == ["x" * 20_000]
    assert texts(read("x" * 20_001)) == []


def test_lines_around_a_spot_stand_up_to_10000_characters():
    def excerpt_text(line_chars: int) -> str:
        lines = ["y" * 400] * 30 + ["spot".ljust(line_chars, "x")] + ["y" * 400] * 30
        text = "\n".join(lines)
        part = FileSlice(path="a.py", start=0, text=text, message=0, turn=0, spots=["spot"])
        return part.excerpt_text()

    assert len(excerpt_text(400).replace("\n", "")) == 10_000 + len(CUT_LINES)
    assert excerpt_text(401) == ""


def test_numbers_are_no_part_of_a_file_where_eight_of_ten_lines_have_one():
    def first_line(numbered_lines: int) -> int:
        lines = [f"{n}→x" for n in range(5, 5 + numbered_lines)]
        (part,) = slices(read("\n".join(lines + ["note"] * (10 - numbered_lines))))
        return part.start

    assert first_line(8) == 5
    assert first_line(7) == 0


def test_an_older_slice_stands_where_over_a_tenth_of_its_lines_is_new():
    lines = [f"line {n}" for n in range(60)]

    def standing_slices(first_of_newer: int) -> int:
        newer = read("\n".join(lines[first_of_newer:]), "2", offset=9)
        return len(slices(read("\n".join(lines[:40]), "1"), newer))

    assert standing_slices(4) == 1
    assert standing_slices(5) == 2
