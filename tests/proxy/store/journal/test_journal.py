import logging
import time
from pathlib import Path

import pytest

from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import frame
from proxy.store.journal.segments import JournalLimits, list_segments
from tests.fakes.sick_disk import SickDisk, read_lines


@pytest.fixture
def sick() -> SickDisk:
    return SickDisk()


def test_a_line_is_in_the_file_as_soon_as_it_is_appended(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "new" / "journal")
    journal.append(b"one")

    assert read_lines(journal.folder) == ([b"one"], 0)
    assert (tmp_path / "new" / "journal").stat().st_mode & 0o777 == 0o700
    assert journal.segment is not None
    assert journal.segment.stat().st_mode & 0o777 == 0o600
    journal.close()


def test_a_long_segment_is_followed_by_another_and_nothing_is_lost(tmp_path: Path) -> None:
    journal = Journal(tmp_path, bounds=JournalLimits(segment=40))
    for n in range(10):
        journal.append(b"line %d" % n)
        journal.sync()

    assert len(list_segments(tmp_path)) > 3
    assert read_lines(tmp_path) == ([b"line %d" % n for n in range(10)], 0)
    journal.close()


def test_journal_syncs_only_when_there_is_something_to_sync(tmp_path: Path, sick: SickDisk) -> None:
    journal = Journal(tmp_path, disk=sick.disk)
    journal.sync()
    idle = sick.syncs
    journal.append(b"one")
    journal.append(b"two")
    journal.sync()
    journal.sync()

    assert (idle, sick.syncs) == (0, 1)
    journal.close()


def test_receipts_that_a_full_disk_refuses_are_written_once_there_is_room(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk)
    journal.append(b"one")
    sick.refuses = True
    journal.append(b"two")
    journal.append(b"three")
    journal.sync()
    trouble = journal.trouble
    sick.refuses = False
    journal.append(b"four")
    late = time.monotonic() + 5
    while journal.trouble and time.monotonic() < late:
        journal.sync()

    assert trouble == "the journal cannot write: No space left on device"
    assert sorted(read_lines(tmp_path)[0]) == [b"four", b"one", b"three", b"two"]
    assert journal.trouble is None
    journal.close()


def test_a_line_the_disk_took_a_part_of_is_written_again_whole(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk)
    sick.takes = 7
    journal.append(b"one")
    sick.takes = None
    journal.append(b"two")
    journal.sync()

    assert read_lines(tmp_path) == ([b"one", b"two"], 2)  # the reserve took a part of it, too
    journal.close()


def test_on_a_full_disk_receipts_go_to_the_reserve_and_outlive_the_process(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(reserve=4096))
    journal.append(b"one")
    sick.is_full = True
    for n in range(9):
        journal.append(b"line %d" % n)

    assert (journal.waiting_bytes, journal.is_full, journal.is_exhausted) == (0, False, False)
    assert journal.trouble == "the journal cannot write: No space left on device"
    assert read_lines(tmp_path) == ([b"one", *(b"line %d" % n for n in range(9))], 0)
    journal.close()


def test_a_receipt_longer_than_the_reserve_leaves_it_to_shorter_ones(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(reserve=4096))
    sick.is_full = True
    journal.append(b"x" * 5000)
    for n in range(3):
        journal.append(b"line %d" % n)

    assert read_lines(tmp_path) == ([b"line %d" % n for n in range(3)], 0)
    assert journal.oldest_waiting(9) == [b"x" * 5000]
    journal.close()


def test_when_the_reserve_is_used_up_the_journal_is_exhausted_until_there_is_room(
    tmp_path: Path, sick: SickDisk
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(reserve=64))
    sick.is_full = True
    for n in range(4):
        journal.append(b"0123456789%05d" % n)  # 25 bytes framed
    journal.sync()
    before = journal.is_exhausted, journal.waiting_bytes, journal.trouble
    sick.is_full = False
    late = time.monotonic() + 5
    while journal.trouble and time.monotonic() < late:
        journal.sync()

    assert before == (True, 50, "the journal cannot write: No space left on device")
    assert (journal.is_exhausted, journal.waiting_bytes, journal.trouble) == (False, 0, None)
    assert sorted(read_lines(tmp_path)[0]) == [b"0123456789%05d" % n for n in range(4)]
    journal.close()


def test_the_reserve_of_a_process_that_died_is_removed_and_one_with_receipts_is_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "1-dead.reserve").write_bytes(bytes(4096))
    (tmp_path / "2-dead.reserve").write_bytes(frame(b"one") + bytes(4096))
    journal = Journal(tmp_path)
    there = list(tmp_path.glob("*.reserve"))
    journal.close()

    assert len(there) == 1  # its own
    assert list(tmp_path.glob("*.reserve")) == []
    assert read_lines(tmp_path) == ([b"one"], 0)


def test_receipts_only_in_memory_at_a_stop_are_logged_whole(
    tmp_path: Path, sick: SickDisk, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, disk=sick.disk)
    sick.refuses = True
    journal.append(b'{"call_id":"call_1"}')
    journal.append(b'{"call_id":"call_2"}')
    journal.close()

    assert journal.log_waiting() == journal.lost_receipts == 2
    assert journal.waiting_bytes == 0
    assert '{"call_id":"call_1"}' in caplog.text
    assert '{"call_id":"call_2"}' in caplog.text


def test_journal_is_full_at_half_the_room_and_logs_receipts_that_have_no_room(
    tmp_path: Path, sick: SickDisk, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(backlog=100))
    sick.refuses = True
    fullness = []
    with caplog.at_level(logging.CRITICAL):
        for n in range(6):
            journal.append(b"0123456789%05d" % n)  # 25 bytes framed
            fullness.append(journal.is_full)

    assert fullness == [False, True, True, True, True, True]
    assert [record.getMessage()[-5:] for record in caplog.records] == ["00004", "00005"]
    journal.close()


def test_a_sync_that_fails_is_reported_and_tried_again(tmp_path: Path, sick: SickDisk) -> None:
    journal = Journal(tmp_path, disk=sick.disk)
    sick.cannot_sync = True
    journal.append(b"one")
    journal.sync()
    trouble = journal.trouble
    sick.cannot_sync = False
    journal.sync()

    assert trouble == "the journal cannot sync: Input/output error"
    assert journal.trouble is None
    assert sick.syncs == 1
    journal.close()


def test_without_a_new_segment_the_old_one_serves_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal", bounds=JournalLimits(segment=1))
    journal.append(b"one")
    assert journal.segment is not None
    next_path = journal.segment.with_name(journal.segment.name.replace("-000001", "-000002"))
    next_path.touch()
    journal.sync()
    trouble = journal.trouble
    next_path.unlink()
    journal.append(b"two")

    assert trouble == "the journal cannot begin a segment: File exists"
    assert read_lines(journal.folder) == ([b"one", b"two"], 0)
    journal.close()


def test_a_line_appended_after_the_end_is_no_silent_loss(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.close()
    journal.append(b"late")

    assert journal.segment is None
    assert journal.trouble == "the journal cannot write: it is closed"


def test_the_thread_syncs_what_is_appended(tmp_path: Path, sick: SickDisk) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(unsynced=0.001))
    journal.start()
    journal.append(b"one")
    deadline = time.monotonic() + 5
    while not sick.syncs and time.monotonic() < deadline:
        time.sleep(0.001)
    synced = sick.syncs
    journal.close()

    assert synced == 1


def test_the_last_resort_does_not_write_prompts_to_the_log(
    tmp_path: Path, sick: SickDisk, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path, disk=sick.disk, bounds=JournalLimits(backlog=10))
    sick.refuses = True
    with caplog.at_level(logging.CRITICAL):
        journal.append(b'{"call_id":"call_1","prompt":"a \\"secret\\" plan","z":1}')

    assert '{"call_id":"call_1","z":1}' in caplog.text
    assert "secret" not in caplog.text
