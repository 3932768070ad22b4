"""Results that are cut once the model has seen them, and results that stay whole."""

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
