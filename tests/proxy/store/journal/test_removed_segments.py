import logging
import os
from pathlib import Path

import pytest

from proxy.store.journal.lines import frame
from proxy.store.journal.removed_segments import RemovedSegments, UnshippedLines
from proxy.store.journal.segments import create, is_at


def removed_segment(folder: Path, content: bytes) -> int:
    """The descriptor of a segment with this content, whose name is gone."""
    made = create(folder, "1-a")
    assert made is not None
    file, path = made
    os.write(file, content)
    assert is_at(file, path)
    path.unlink()
    assert not is_at(file, path)
    return file


def take_over(removed: RemovedSegments, file: int) -> None:
    removed.take_over(file, Path() / "1-a.segment", 0, UnshippedLines(0))


def test_all_whole_lines_of_removed_segments_are_read_in_order(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    removed = RemovedSegments(tmp_path)
    first = [b"first %d" % n for n in range(600)]
    take_over(removed, removed_segment(tmp_path, b"".join(map(frame, first))))
    take_over(removed, removed_segment(tmp_path, frame(b"second") + frame(b"torn line")[:-3]))
    lines: list[bytes] = []
    with caplog.at_level(logging.ERROR):
        while some := removed.next_lines():
            lines += some

    assert lines == [*first, b"second"]
    assert "torn line, which began" in caplog.text


def test_a_removal_is_counted_logged_and_noted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    removed = RemovedSegments(tmp_path)
    before = removed.notice
    take_over(removed, removed_segment(tmp_path, b""))

    assert removed.next_lines() == []
    assert before is None
    assert removed.count == 1
    assert removed.notice is not None
    assert "removed" in removed.notice
    assert "1-a.segment was removed" in caplog.text


def test_another_file_at_the_path_of_a_segment_is_not_it(tmp_path: Path) -> None:
    made = create(tmp_path, "1-a")
    assert made is not None
    file, path = made
    path.unlink()
    path.touch()

    assert not is_at(file, path)
    os.close(file)


def test_unshipped_lines_are_in_memory_up_to_a_bound_and_the_others_are_counted() -> None:
    unshipped = UnshippedLines(30)
    for n in range(5):
        unshipped.add(frame(b"%d" % n))
    dropped_before = unshipped.dropped
    unshipped.forget(1)
    dropped_after = unshipped.dropped

    assert (dropped_before, dropped_after) == (3, 2)
    assert unshipped.in_memory() == [b"3", b"4"]
    unshipped.forget(3)
    assert unshipped.in_memory() == [b"4"]
    unshipped.forget(9)
    assert (unshipped.dropped, unshipped.in_memory()) == (0, [])
