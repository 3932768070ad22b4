"""Segments that are removed or truncated while the journal appends to them."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.store.journal.journal import Journal
from proxy.store.journal.segments import JournalLimits
from tests.fakes.sick_disk import SickDisk, read_lines


@pytest.fixture
def sick() -> SickDisk:
    return SickDisk()


def remove_file(journal: Journal) -> None:
    assert journal.segment is not None
    journal.segment.unlink()


def remove_folder(journal: Journal) -> None:
    shutil.rmtree(journal.folder)


def replace_folder(journal: Journal) -> None:
    journal.folder.rename(journal.folder.with_name("elsewhere"))
    journal.folder.mkdir()


@pytest.mark.parametrize("remove", [remove_file, remove_folder, replace_folder])
def test_lines_of_a_removed_segment_are_written_anew_and_the_removal_is_noted(
    tmp_path: Path, remove: Callable[[Journal], object]
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.append(b"one")
    remove(journal)
    journal.append(b"two")
    before = journal.removed.notice
    journal.sync()
    journal.append(b"three")

    assert sorted(read_lines(journal.folder)[0]) == [b"one", b"three", b"two"]
    assert len(list(journal.folder.glob("*.reserve"))) == 1
    assert journal.trouble is None
    assert before is None
    assert journal.removed.notice is not None
    assert str(journal.folder) in journal.removed.notice
    journal.close()
    assert sorted(read_lines(journal.folder)[0]) == [b"one", b"three", b"two"]


@pytest.mark.parametrize("remove", [remove_file, remove_folder, replace_folder])
def test_lines_of_a_segment_that_is_removed_before_the_close_are_written_anew(
    tmp_path: Path, remove: Callable[[Journal], object]
) -> None:
    journal = Journal(tmp_path / "journal")
    journal.append(b"one")
    remove(journal)
    journal.close()

    assert read_lines(journal.folder) == ([b"one"], 0)


def rewrite_half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:14])


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("truncate", [empty_file, rewrite_half])
def test_lines_around_a_truncation_of_the_open_segment_are_all_written_anew(
    tmp_path: Path, truncate: Callable[[Path], object]
) -> None:
    journal = Journal(tmp_path)
    journal.append(b"one")
    journal.append(b"two")
    segment = journal.segment
    assert segment is not None
    truncate(segment)
    journal.append(b"three")
    journal.sync()
    journal.append(b"four")

    assert set(read_lines(tmp_path)[0]) == {b"one", b"two", b"three", b"four"}
    assert journal.segment != segment
    assert not segment.exists()
    assert (journal.removed.count, journal.removed.lost, journal.trouble) == (1, 0, None)
    journal.close()
    assert set(read_lines(tmp_path)[0]) == {b"one", b"two", b"three", b"four"}


def test_lines_that_neither_memory_nor_the_truncated_segment_has_are_counted_as_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, bounds=JournalLimits(unshipped=60))
    for n in range(10):
        journal.append(b"line %d" % n)
    assert journal.segment is not None
    journal.note_shipped(journal.segment, 2)
    empty_file(journal.segment)
    journal.note_shipped(journal.segment, 4)
    journal.sync()

    assert read_lines(tmp_path)[0] == [b"line 7", b"line 8", b"line 9"]
    assert journal.removed.lost == 5
    assert "5 receipts, which are lost" in caplog.text
    assert "5 receipts were lost" in str(journal.removed.notice)
    journal.close()


def test_lines_of_a_truncated_reserve_in_use_are_written_anew(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(reserve=4096))
    sick.is_full = True
    journal.append(b"one")
    journal.sync()
    assert journal.segment is not None
    empty_file(journal.segment)
    journal.append(b"two")
    sick.is_full = False
    late = time.monotonic() + 5
    while (journal.trouble or not journal.removed.count) and time.monotonic() < late:
        journal.sync()

    assert set(read_lines(tmp_path)[0]) == {b"one", b"two"}
    assert journal.removed.lost == 0
    journal.close()


def test_a_truncated_reserve_that_is_not_in_use_is_made_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (reserve,) = tmp_path.glob("*.reserve")
    empty_file(reserve)
    journal.sync()

    (another,) = tmp_path.glob("*.reserve")
    assert another != reserve
    assert journal.removed.count == 1
    journal.close()


def test_while_a_removed_folder_cannot_be_made_again_lines_wait_in_memory(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    journal.append(b"one")
    shutil.rmtree(journal.folder)
    journal.folder.touch()
    journal.sync()
    journal.append(b"two")
    trouble, waiting, segment = journal.trouble, journal.oldest_waiting(9), journal.segment
    journal.folder.unlink()
    journal.sync()

    assert trouble == "the journal cannot write: its folder is gone"
    assert (waiting, segment) == ([b"one", b"two"], None)
    assert read_lines(journal.folder) == ([b"one", b"two"], 0)
    assert journal.waiting_bytes == 0
    journal.sync()
    assert journal.trouble is None
    journal.close()


def test_a_removed_segment_of_a_full_disk_is_written_anew_with_the_reserve_after_it(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path / "journal", disk=sick.disk, bounds=JournalLimits(reserve=4096))
    journal.append(b"one")
    remove_file(journal)
    sick.is_full = True
    journal.append(b"two")
    sick.is_full = False
    late = time.monotonic() + 5
    while journal.trouble and time.monotonic() < late:
        journal.sync()

    assert sorted(read_lines(journal.folder)[0]) == [b"one", b"two"]
    journal.close()


def test_a_removed_reserve_is_made_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    (reserve,) = tmp_path.glob("*.reserve")
    reserve.unlink()
    journal.sync()

    (another,) = tmp_path.glob("*.reserve")
    assert another != reserve
    assert journal.removed.count == 1
    journal.close()
