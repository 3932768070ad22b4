import io
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.records.receipt import PendingAttempt
from proxy.store.journal.removed_segments import RemovedSegments
from proxy.store.journal.segments import lock_segment
from proxy.store.journal.sent_attempts import SentAttempts, list_files, read_attempts


def a_sent_attempt(number: int, **fields: Any) -> PendingAttempt:
    return PendingAttempt(
        call_id=f"call_{number}",
        attempt=0,
        started=7.0,
        team="team",
        key_id="key",
        endpoint="chat/completions",
        route="lab/gpt-lab",
        upstream="lab",
        streamed=False,
        prompt_bytes=400,
        output=10,
        **fields,
    )


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let writes beyond so many bytes of a file fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def attempts_in(path: Path) -> list[PendingAttempt]:
    return list(read_attempts(io.BytesIO(path.read_bytes())))


def test_attempts_under_way_stand_in_a_file_that_nobody_else_can_lock(tmp_path: Path) -> None:
    sent = SentAttempts(tmp_path, RemovedSegments(tmp_path))
    assert list_files(tmp_path) == []
    for number in range(3):
        sent.begin(a_sent_attempt(number))
    (path,) = list_files(tmp_path)
    with lock_segment(path) as file:
        assert file is None

    assert attempts_in(path) == [a_sent_attempt(number) for number in range(3)]
    assert path.stat().st_mode & 0o777 == 0o600
    sent.close()
    assert list_files(tmp_path) == []


def test_a_thousand_calls_one_after_the_other_share_a_slot(tmp_path: Path) -> None:
    sent = SentAttempts(tmp_path, RemovedSegments(tmp_path))
    for number in range(1_000):
        sent.begin(a_sent_attempt(number))
        sent.end(f"call_{number}", 0)
    (path,) = list_files(tmp_path)

    assert attempts_in(path) == [a_sent_attempt(999)]
    assert path.stat().st_size <= 1_024
    sent.close()


def test_texts_of_an_attempt_that_would_not_fit_are_cut(tmp_path: Path) -> None:
    sent = SentAttempts(tmp_path, RemovedSegments(tmp_path))
    sent.begin(a_sent_attempt(1, model="m" * 512, feature="ü" * 512))
    sent.begin(a_sent_attempt(2))
    (path,) = list_files(tmp_path)
    first, second = attempts_in(path)

    assert (first.call_id, first.model, first.feature) == ("call_1", "m" * 60, "ü" * 60)
    assert second == a_sent_attempt(2)
    sent.close()


def test_a_removed_file_is_made_again_and_a_missing_folder_fails_no_call(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    sent = SentAttempts(folder, RemovedSegments(folder))
    sent.begin(a_sent_attempt(1))
    (path,) = list_files(folder)
    path.unlink()
    folder.rmdir()
    sent.replace_removed()
    sent.begin(a_sent_attempt(2))
    folder.mkdir()
    sent.replace_removed()

    (path,) = list_files(folder)
    assert [attempt.call_id for attempt in attempts_in(path)] == ["call_1", "call_2"]
    sent.close()


def test_a_disk_that_takes_no_more_is_no_removal_and_leaves_nothing_to_be_booked(
    tmp_path: Path,
) -> None:
    removed = RemovedSegments(tmp_path)
    sent = SentAttempts(tmp_path, removed)
    with files_of_at_most(1_500):
        for number in range(3):
            sent.begin(a_sent_attempt(number))
        sent.replace_removed()
        (path,) = list_files(tmp_path)
        assert removed.count == 0
        assert [attempt.call_id for attempt in attempts_in(path)] == ["call_0", "call_1"]
        path.unlink()
        sent.replace_removed()
        assert list_files(tmp_path) == []
    sent.replace_removed()

    (path,) = list_files(tmp_path)
    assert [attempt.call_id for attempt in attempts_in(path)] == ["call_0", "call_1", "call_2"]
    assert removed.count == 1
    sent.close()


def move_away(path: Path) -> None:
    path.parent.rename(path.parent.with_name("elsewhere"))
    path.parent.mkdir()


def truncate(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("remove", [Path.unlink, truncate, move_away])
def test_a_removed_or_truncated_file_is_made_anew_with_the_attempts_under_way(
    tmp_path: Path, remove: Callable[[Path], object]
) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    removed = RemovedSegments(folder)
    sent = SentAttempts(folder, removed)
    for number in range(3):
        sent.begin(a_sent_attempt(number))
    sent.end("call_1", 0)
    remove(list_files(folder)[0])
    sent.replace_removed()
    (path,) = list_files(folder)
    anew = [attempt.call_id for attempt in attempts_in(path)]
    sent.replace_removed()
    sent.end("call_0", 0)
    sent.begin(a_sent_attempt(4))

    assert removed.count == 1
    assert removed.notice is not None
    assert anew == ["call_0", "call_2"]
    assert list_files(folder) == [path]
    assert [attempt.call_id for attempt in attempts_in(path)] == ["call_4", "call_2"]
    assert [attempt.stat().st_size for attempt in list_files(tmp_path / "elsewhere")] in ([], [0])
    sent.close()


def test_a_file_whose_folder_is_gone_at_the_end_fails_no_stop(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir()
    sent = SentAttempts(folder, RemovedSegments(folder))
    sent.begin(a_sent_attempt(1))
    list_files(folder)[0].unlink()
    folder.rmdir()
    folder.touch()
    sent.close()

    assert folder.is_file()


@given(st.binary(max_size=3_000))
def test_whatever_stands_in_a_file_is_read_or_left_out(content: bytes) -> None:
    assert list(read_attempts(io.BytesIO(content))) == []
