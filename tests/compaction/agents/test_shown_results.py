"""Results that are cut once the model has seen them, and results that stay whole."""

import msgspec
import orjson
import pytest

from compaction.agents.shown_results import shown_result
from compaction.reading.message import CalledTool, ParsedMessage
from compaction.reading.message_parser import parse_message

_LOG = "\n".join(f"step {n}: downloaded package number {n} of the mirror" for n in range(400))
_CODE = "\n".join(f"    self.value_{n} = compute({n});" for n in range(200))


def result(text: str, *, parts: int = 0) -> ParsedMessage:
    content = [{"type": "text", "text": text}] * parts if parts else text
    return parse_message(orjson.dumps({"role": "tool", "tool_call_id": "c1", "content": content}))


def shell(command: str) -> CalledTool:
    return CalledTool("c1", "bash", orjson.dumps({"command": command}).decode())


def cut_text(text: str, call: CalledTool) -> str | None:
    raw = shown_result(result(text), call)
    return None if raw is None else orjson.loads(raw)["content"]


def test_a_long_log_becomes_its_first_and_last_lines():
    text = cut_text(_LOG, shell("cd app && npm install"))

    assert text is not None
    assert text.startswith("step 0: ")
    assert text.endswith("step 399: downloaded package number 399 of the mirror")
    assert "lines shown before]" in text
    assert len(text) < 0.1 * len(_LOG)


def test_errors_between_head_and_tail_are_named():
    lines = _LOG.split("\n")
    lines[200] = "ERROR: could not resolve host mirror.example"

    text = cut_text("\n".join(lines), shell("make all"))

    assert text is not None
    assert "could not resolve host mirror.example" in text


@pytest.mark.parametrize(
    "call",
    [
        shell("cat src/parser.py"),
        shell("sed -n 1,200p src/parser.py"),
        shell("cd app && nl -ba src/parser.py"),
        CalledTool("c1", "read_file", '{"path":"src/parser.py"}'),
        CalledTool("c1", "str_replace_editor", '{"command":"view","path":"src/parser.py"}'),
    ],
)
def test_a_file_that_is_worked_with_stays_whole(call: CalledTool):
    assert cut_text(_LOG, call) is None


def test_code_stays_whole_whatever_showed_it():
    assert cut_text(_CODE, shell("git show HEAD")) is None


def test_records_that_are_not_asked_for_again_stay_whole():
    record = orjson.dumps({"orders": [{"id": f"ORD-{n}", "fee": n} for n in range(300)]}).decode()

    assert cut_text(record, CalledTool("c1", "get_orders", "{}")) is None


def test_a_short_result_and_one_of_several_parts_stay_whole():
    assert cut_text("ok\n" * 20, shell("make")) is None
    assert shown_result(result(_LOG, parts=2), shell("make")) is None


def test_a_result_of_400_tokens_is_cut_and_one_of_399_stays_whole():
    message = result(_LOG)

    assert shown_result(msgspec.structs.replace(message, tokens=400), shell("make")) is not None
    assert shown_result(msgspec.structs.replace(message, tokens=399), shell("make")) is None


@pytest.mark.parametrize(
    ("lines", "line_chars", "kept"),
    [
        # 2,000 characters: 160 stay, 80 at each end.
        (100, 20, 4),
        # 10,000 characters: 6 % stay, 300 at each end.
        (201, 50, 6),
        # 50,000 characters: 2,000 stay, 1,000 at each end.
        (1_000, 50, 20),
    ],
)
def test_characters_that_stay_are_a_share_of_a_result_within_bounds(lines, line_chars, kept):
    log = "\n".join(f"step {n}".ljust(line_chars - 1, ".") for n in range(lines))

    text = cut_text(log, shell("make"))

    assert text is not None
    assert len(text.split("\n")) == 2 * kept + 1
    assert text.split("\n")[kept] == f"[… {lines - 2 * kept} lines shown before]"


def test_text_is_code_where_over_60_of_its_first_200_lines_are():
    code, log = _CODE.split("\n"), _LOG.split("\n")

    assert cut_text("\n".join(code[:61] + log), shell("git show HEAD")) is None
    assert cut_text("\n".join(code[:60] + log), shell("git show HEAD")) is not None
