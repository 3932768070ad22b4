import json
import time
from collections.abc import Iterator

import pytest

from compaction.reading.message import CalledTool, ParsedMessage, Voice
from compaction.results.result_profile import ResultProfile, is_rereadable, result_profile

RECORD = json.dumps({"order_id": "#W1", "status": "shipped"})
SEEN_AGAIN = [
    "1: import os\n2: import re\n3:\n4: print(1)",
    "     1\timport os\n     2\timport re",
    "src/a.py:12: def total\nsrc/b.py:9: total()",
    "-rw-r--r-- 1 me me 120 May 17 10:00 a.txt\ndrwxr-xr-x 2 me me 64 May 17 10:00 src",
    "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n- a\n+ b",
    'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: no',
    "src/a/b.py\nsrc/a/c.py\nREADME.md",
    "const a = {\n  b: 1,\n};\nfunction go() {\n  return a;\n}",
    "[File: /testbed/a.py (12 lines total)]\nwords",
    "hello\nbash-$",
    "<returncode>0</returncode>\nwords",
    "(no output)",
]
KEPT = [
    RECORD,
    "",
    "ValueError: No events found.",
    "Invoice for May\n-----\nRent of a van 61.20\n<NOTE>\nSend it to me.\n</NOTE>",
    "from the 3rd on, the rent is due\nwith all taxes, and for now: no\nreturn it, if you can;",
    "Error: not enough balance",
    "957.0",
    "id: '3'\nsubject: lunch\nsender: a@b.c",
]


def talk(*results: tuple[str, str, str]) -> list[ParsedMessage]:
    return [
        message
        for number, exchange in enumerate(results)
        for message in _call_and_result(f"c{number}", *exchange)
    ]


def _call_and_result(name: str, tool: str, arguments: str, text: str) -> Iterator[ParsedMessage]:
    yield ParsedMessage(
        raw=b"{}",
        digest=b"",
        role="assistant",
        voice=Voice.ASSISTANT,
        calls=(CalledTool(name, tool, arguments),),
    )
    yield ParsedMessage(
        raw=b"{}",
        digest=b"",
        role="tool",
        voice=Voice.RESULT,
        text=text,
        answers=name,
        tokens=len(text),
    )


@pytest.mark.parametrize("text", SEEN_AGAIN)
def test_files_listings_and_what_a_shell_prints_can_be_had_again(text):
    assert is_rereadable(text)


@pytest.mark.parametrize("text", KEPT)
def test_records_and_plain_answers_cannot(text):
    assert not is_rereadable(text)


@pytest.mark.parametrize(
    ("name", "arguments", "again"),
    [
        ("read_file", '{"path":"package.json"}', True),
        ("bash", '{"command":"ls"}', True),
        ("str_replace_editor", '{"path":"/a/b"}', True),
        ("read_inbox", '{"folder":"new"}', False),
        ("search_direct_flight", '{"origin":"JFK"}', False),
        ("read", '{"id":3}', False),
        ("read_file", '{"path":"bill-december.txt"}', False),
        ("execute", '{"path":"bill.txt"}', True),
    ],
)
def test_a_tool_that_reads_a_path_can_be_asked_again(name, arguments, again):
    assert is_rereadable(RECORD, CalledTool("c", name, arguments)) is again


def test_a_part_of_records_keeps_records():
    part = talk(("get_order", "{}", RECORD), ("get_order", "{}", RECORD), ("bash", "a/b", "x"))

    assert result_profile(part) is ResultProfile.RECORDS


def test_a_part_of_files_is_masked():
    part = talk(("bash", '{"command":"ls a/b"}', "words " * 90), ("get_order", "{}", RECORD))

    assert result_profile(part) is ResultProfile.REREADABLE


def test_a_part_without_results_keeps_records():
    assert result_profile([]) is ResultProfile.RECORDS


@pytest.mark.parametrize("piece", ["a/", "a:", " ", "r", "\\S", "Error", "<a", "at x"])
def test_no_line_takes_long(piece):
    text = "\n".join([piece * 4_000] * 80)

    before = time.process_time()
    is_rereadable(text)

    assert time.process_time() - before < 1


def test_results_are_masked_where_seven_of_ten_tokens_can_be_read_again():
    listing = ("bash", '{"command":"ls a/b"}')

    assert (
        result_profile(talk((*listing, "w" * 70), ("get_order", "{}", "w" * 30)))
        is ResultProfile.REREADABLE
    )
    assert (
        result_profile(talk((*listing, "w" * 69), ("get_order", "{}", "w" * 31)))
        is ResultProfile.RECORDS
    )


def test_a_text_is_rereadable_by_over_24_of_its_first_80_lines():
    assert is_rereadable("# line\n" * 25 + "words\n" * 200)
    assert not is_rereadable("# line\n" * 24 + "words\n" * 200)


def test_two_telling_lines_are_needed():
    assert is_rereadable("# one\n# two")
    assert not is_rereadable("# one")


def test_a_line_is_read_up_to_200_characters():
    assert is_rereadable(f"{'w' * 199};\n" * 2)
    assert not is_rereadable(f"{'w' * 200};\n" * 2)


def test_the_print_of_a_shell_is_known_within_400_characters_of_an_end():
    tag, other_text = "<returncode>", "w" * 1_000

    assert is_rereadable("w" * 388 + tag + other_text)
    assert not is_rereadable("w" * 389 + tag + other_text)
    assert is_rereadable(other_text + tag + "w" * 388)
    assert not is_rereadable(other_text + tag + "w" * 389)
