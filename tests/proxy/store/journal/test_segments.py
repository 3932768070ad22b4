import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.store.journal.lines import encode, frame
from proxy.store.journal.segments import create, list_segments, lock_segment, read, receipts_of_call
from tests.fakes.receipts import a_receipt

ROOT = Path(__file__).resolve().parents[3]
LINES = [encode(a_receipt(n)) for n in range(5)]
WHOLE = b"".join(map(frame, LINES))


def a_segment(folder: Path, content: bytes, name: str = "1-a") -> Path:
    path = folder / f"{name}.segment"
    path.write_bytes(content)
    return path


def test_appended_lines_are_read_in_order_and_in_parts(tmp_path: Path) -> None:
    with a_segment(tmp_path, WHOLE).open("rb") as file:
        first = read(file, 0, 4, sealed=False)
        second = read(file, first.end, 4, sealed=False)

    assert first.lines + second.lines == LINES
    assert second.end == len(WHOLE)
    assert first.torn == second.torn == []


def test_a_last_line_still_on_its_way_is_left_for_later(tmp_path: Path) -> None:
    path = a_segment(tmp_path, WHOLE[:-5])
    with path.open("rb") as file:
        early = read(file, 0, 99, sealed=False)
        path.write_bytes(WHOLE)
        late = read(file, early.end, 99, sealed=False)

    assert (early.lines, early.torn) == (LINES[:4], [])
    assert late.lines == LINES[4:]


def test_a_torn_last_line_of_a_sealed_segment_is_counted_and_passed(tmp_path: Path) -> None:
    with a_segment(tmp_path, WHOLE[:-5]).open("rb") as file:
        pieces = read(file, 0, 99, sealed=True)

    torn = WHOLE[:-5].rpartition(b"\n")[2]
    assert (pieces.lines, pieces.torn, pieces.end) == (LINES[:4], [torn], len(WHOLE) - 5)


def test_allocated_blocks_behind_the_lines_are_read_only_once_written(
    tmp_path: Path,
) -> None:
    path = a_segment(tmp_path, WHOLE + bytes(4096))
    with path.open("rb") as file:
        early = read(file, 0, 99, sealed=False)
        path.write_bytes(WHOLE + frame(LINES[0]) + bytes(1000))
        late = read(file, early.end, 99, sealed=False)

    assert (early.lines, early.torn, early.end) == (LINES, [], len(WHOLE))
    assert (late.lines, late.torn) == (LINES[:1], [])


@pytest.mark.parametrize("seen", [0, 1, len(frame(LINES[0])) // 2])
def test_lines_written_while_a_reserve_is_read_are_left_for_later(
    tmp_path: Path, seen: int
) -> None:
    """A reader that reads in pieces sees zeros where lines were written after its last piece."""
    path, first, rest = tmp_path / "a.segment", frame(LINES[0]), WHOLE[len(frame(LINES[0])) :]
    path.write_bytes(WHOLE + first[:seen] + bytes(len(first) - seen) + rest)

    with path.open("rb") as file:
        early = read(file, 0, 99, sealed=False)
        path.write_bytes(WHOLE + first + rest)
        late = read(file, early.end, 99, sealed=False)

    assert early.torn == late.torn == []
    assert early.lines + late.lines == LINES + LINES


@given(start=st.integers(0, len(WHOLE) - 1), length=st.integers(1, 900), fill=st.binary(max_size=9))
def test_whatever_is_overwritten_costs_only_the_lines_it_touches(
    tmp_path_factory: pytest.TempPathFactory, start: int, length: int, fill: bytes
) -> None:
    damaged = WHOLE[:start] + (fill * length)[:length] + WHOLE[start + length :]
    path = a_segment(tmp_path_factory.mktemp("damage"), damaged)
    with path.open("rb") as file:
        pieces = read(file, 0, 999, sealed=True)

    untouched, place = [], 0
    for line in LINES:
        # a line ends safely only where the newline that leads the next one still stands
        end = place + len(frame(line))
        if end < start or place >= start + length:
            untouched.append(line)
        place = end
    assert [line for line in pieces.lines if line in LINES] == pieces.lines
    assert set(untouched) <= set(pieces.lines)
    assert pieces.end == len(damaged)


def test_a_segment_being_appended_to_cannot_be_adopted_until_its_owner_lets_go(
    tmp_path: Path,
) -> None:
    made = create(tmp_path, "1-a")
    assert made is not None
    with lock_segment(made[1]) as file:
        before = file
    os.close(made[0])
    with lock_segment(made[1]) as file:
        after = file

    assert before is None
    assert after is not None
    assert list_segments(tmp_path) == [made[1]]


def test_a_segment_is_adopted_by_one_at_a_time(tmp_path: Path) -> None:
    path = a_segment(tmp_path, WHOLE)
    with lock_segment(path) as first, lock_segment(path) as second:
        assert first is not None
        assert second is None


def test_a_segment_that_is_gone_or_deleted_while_we_wait_is_not_adopted(tmp_path: Path) -> None:
    path = a_segment(tmp_path, WHOLE)
    with lock_segment(path) as file:
        assert file is not None
        path.unlink()

    with lock_segment(path) as file:
        assert file is None


def test_a_call_is_found_in_whatever_segment_it_lies(tmp_path: Path) -> None:
    a_segment(tmp_path, WHOLE, "1-a")
    a_segment(tmp_path, frame(encode(a_receipt(2, attempt=1))), "2-b")

    receipts = receipts_of_call(tmp_path, a_receipt(2).call_id)
    assert sorted(receipts, key=lambda each: each.attempt) == [
        a_receipt(2),
        a_receipt(2, attempt=1),
    ]
    assert receipts_of_call(tmp_path, "call_unheard_of") == []


def test_a_call_named_in_another_calls_line_is_not_taken_for_it(tmp_path: Path) -> None:
    a_segment(tmp_path, frame(encode(a_receipt(1, upstream_id=a_receipt(2).call_id))))

    assert receipts_of_call(tmp_path, a_receipt(2).call_id) == []


def test_a_line_of_another_version_does_not_hide_the_rest(tmp_path: Path) -> None:
    call = a_receipt(2).call_id
    strange = frame(f'{{"call_id": "{call}", "shape": "new"}}'.encode())
    a_segment(tmp_path, strange + WHOLE)

    assert receipts_of_call(tmp_path, call) == [a_receipt(2)]


ADOPT_ALL = """
import sys
from pathlib import Path
from proxy.store.journal.segments import adopted, listed

print("ready", flush=True)
while True:
    for path in listed(Path(sys.argv[1])):
        with adopted(path) as file:
            if file is not None:
                path.unlink()
"""


def test_one_who_looks_for_orphans_never_takes_a_segment_from_its_maker(tmp_path: Path) -> None:
    """A new segment is unlocked for a moment; many of them meet an eager process."""
    command = [sys.executable, "-c", ADOPT_ALL, str(tmp_path)]
    adopter = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)  # noqa: S603 - our own
    assert adopter.stdout is not None
    with adopter.stdout as pipe:
        pipe.readline()
        made = [create(tmp_path, f"1-{n}") for n in range(200)]
        adopter.kill()
        adopter.wait()

    segments_made = [segment for segment in made if segment is not None]
    assert list_segments(tmp_path) == sorted(path for _, path in segments_made)
    for file, path in segments_made:
        assert os.fstat(file).st_ino == path.stat().st_ino
        os.close(file)
