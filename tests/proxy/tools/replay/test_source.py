"""Recorded calls from files, in order."""

import gzip
from pathlib import Path

import orjson
import pytest

from proxy.errors import OperatorError
from proxy.tools.replay import source
from proxy.tools.replay.source import RecordedSource
from tests.fakes.logged_calls import claude_code


@pytest.fixture
def write_rows(tmp_path: Path):
    def write(name: str, *rows: object) -> Path:
        path = tmp_path / name
        lines = [row if isinstance(row, bytes) else orjson.dumps(row) for row in rows]
        path.write_bytes(b"\n".join(lines))
        return path

    return write


def a_row(t: float | None, text: str) -> dict[str, object]:
    return {"t": t, "conversation": text, "body": {"messages": [{"role": "user", "content": ""}]}}


def read(recorded: RecordedSource) -> list[tuple[float, str]]:
    return [(time, line.conversation) for time, line in recorded]


def test_calls_come_in_the_order_of_their_times(write_rows):
    path = write_rows("a", a_row(5, "second"), a_row(1, "first"), a_row(9, "third"))

    assert read(RecordedSource([path])) == [(1, "first"), (5, "second"), (9, "third")]


def test_a_call_knows_its_file_and_line(write_rows):
    path = write_rows("a", b"nothing", b"", a_row(1, "first"))

    assert [line.where for _, line in RecordedSource([path])] == ["a:3"]


def test_an_export_that_begins_with_the_newest_is_put_in_order(write_rows):
    rows = [a_row(float(t), str(t)) for t in range(5_000, 0, -1)]

    assert read(RecordedSource([write_rows("a", *rows)]))[0] == (1.0, "1")


def test_beyond_the_window_time_never_goes_back_and_late_calls_are_counted(write_rows):
    late = [a_row(float(n + 10), "") for n in range(20)]
    recorded = RecordedSource([write_rows("a", *late, a_row(1, ""))], window=6_000)

    times = [time for time, _ in read(recorded)]

    assert times[0] == 10
    assert times == sorted(times)
    assert recorded.late == 1


def test_a_window_holds_a_bounded_number_of_bytes(write_rows):
    body = {"messages": [{"role": "user", "content": "x" * 5_000}]}
    rows = [{"t": t, "conversation": str(t), "body": body} for t in (3, 4, 2, 1)]
    recorded = RecordedSource([write_rows("a", *rows)], window=6_000)

    assert [name for _, name in read(recorded)] == ["3", "2", "1", "4"]


def test_calls_without_times_are_a_gap_apart(write_rows):
    path = write_rows("a", a_row(None, "1"), a_row(None, "2"), a_row(None, "3"))

    assert [time for time, _ in read(RecordedSource([path], gap=3))] == [0, 3, 6]


def test_speed_shortens_the_time_between_calls(write_rows):
    path = write_rows("a", a_row(100, "1"), a_row(120, "2"), a_row(130, "3"))

    assert [time for time, _ in read(RecordedSource([path], speed=10))] == [100, 102, 103]


def test_a_file_goes_on_where_the_one_before_ended(write_rows):
    one = write_rows("a", a_row(0, "1"), a_row(50, "2"))
    two = write_rows("b", a_row(0, "3"), a_row(5, "4"))
    later = write_rows("c", a_row(500, "5"))

    assert [time for time, _ in read(RecordedSource([one, two, later], gap=2))] == [
        0,
        50,
        52,
        57,
        500,
    ]


def test_equal_reasons_are_counted_once_with_the_place_of_the_first(write_rows):
    path = write_rows("a", b"{", b"", a_row(1, "good"), b"{", b"\xff", {"body": 5})

    recorded = RecordedSource([path])

    assert read(recorded) == [(1, "good")]
    assert recorded.bad.total == 4
    assert [(bad.count, bad.first) for bad in recorded.bad.most_frequent()] == [
        (2, "a:1"),
        (1, "a:5"),
        (1, "a:6"),
    ]


def test_reasons_that_differ_in_a_place_within_the_body_are_counted_once():
    counts = source.ReasonCounts()
    for number in range(3):
        counts.add(f"Unknown block in `messages[{number}].content[0]`.", f"a:{number}")

    (reason,) = counts.most_frequent()

    assert (reason.why, reason.count) == ("Unknown block in `messages[…].content[…]`", 3)


def test_calls_without_a_time_are_counted(write_rows):
    source = RecordedSource([write_rows("a", a_row(None, "1"), a_row(50, "2"))])

    assert [len(read(source)), source.untimed] == [2, 1]


def test_a_file_that_zstd_packed_says_how_to_unpack_it(tmp_path):
    path = tmp_path / "rollout.jsonl.zst"
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(40))

    with pytest.raises(OperatorError, match=r"rollout.jsonl.zst: it is packed by zstd.*zstd -d"):
        read(RecordedSource([path]))


def test_different_reasons_are_bounded_and_none_is_lost():
    counts = source.ReasonCounts()
    for number in range(100):
        counts.add(f"reason {number}", f"a:{number}")

    assert counts.total == 100
    assert len(counts.most_frequent()) == source._MAX_REASONS + 1
    assert counts.most_frequent()[0].why == source.OTHER_REASONS


def test_a_damaged_file_is_named(tmp_path):
    path = tmp_path / "calls.jsonl.gz"
    path.write_bytes(gzip.compress(orjson.dumps(a_row(1, "good")) * 100)[:-20])

    with pytest.raises(OperatorError, match=r"calls.jsonl.gz: its gzip data is damaged"):
        read(RecordedSource([path]))


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize(("room", "is_read"), [(-1, False), (0, True), (1, True), (2, True)])
def test_a_line_is_read_up_to_the_longest_and_the_next_is_never_lost(tmp_path, room, is_read, end):
    path = tmp_path / "a"
    first = orjson.dumps(a_row(1, "first, and longer than the others"))
    path.write_bytes(end.join(first if n == 0 else orjson.dumps(a_row(2, "next")) for n in (0, 1)))
    offsets: list[int] = []

    recorded = RecordedSource([path], longest=len(first) + room, tell=offsets.append)

    assert [name for _, name in read(recorded)][-1:] == ["next"]
    assert (recorded.bad.total == 0) is is_read
    assert sum(offsets) == path.stat().st_size


def test_a_line_without_end_is_one_bad_line(write_rows):
    long = b'{"t": 1, "x": "' + b"x" * (3 * 2**20) + b'"}'
    path = write_rows("a", long, a_row(1, "good"))
    offsets: list[int] = []

    recorded = RecordedSource([path], longest=2**20, tell=offsets.append)

    assert read(recorded) == [(1, "good")]
    assert [bad.first for bad in recorded.bad.most_frequent()] == ["a:1"]
    assert sum(offsets) == path.stat().st_size


def test_a_session_with_a_message_of_the_wrong_form_is_read_on(write_rows):
    rows = [orjson.loads(line) for line in claude_code(3).splitlines()]
    rows[1]["message"]["content"] = []

    recorded = RecordedSource([write_rows("session", *rows)])

    assert len(list(recorded)) == 2
    assert [(reason.why, reason.count) for reason in recorded.bad.most_frequent()] == [
        ("one of its fields has the wrong form", 1)
    ]


def test_a_first_line_of_an_odd_type_is_no_transcript(write_rows):
    recorded = RecordedSource([write_rows("odd", {"type": [], "payload": 1}, a_row(1, "first"))])

    assert read(recorded) == [(1, "first")]
