import os
from pathlib import Path

import pytest

from proxy.cli.storage_checks import (
    descriptor_counts,
    folder_problem,
    low_descriptor_warning,
    low_space_warning,
)

LINUX = pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc here")
ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")


def file_names(*paths: Path) -> list[str]:
    return sorted(path.name for folder in paths for path in folder.rglob("*"))


def test_a_folder_that_is_there_is_tried_and_left_as_it_was(tmp_path: Path):
    (tmp_path / "journal").mkdir()
    (tmp_path / "thriftgate.db").write_bytes(b"rows")

    assert folder_problem(tmp_path) == ""
    assert file_names(tmp_path) == ["journal", "thriftgate.db"]


@pytest.mark.parametrize("below", ["gateway", "var/thriftgate/eu"])
def test_a_folder_that_can_be_made_is_not_made(tmp_path: Path, below: str):
    assert folder_problem(tmp_path / below) == ""
    assert file_names(tmp_path) == []


def test_a_folder_beside_where_it_runs_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    assert folder_problem(Path("var/thriftgate")) == ""


@pytest.mark.parametrize("below", ["", "gateway"])
def test_a_file_in_its_place_is_named(tmp_path: Path, below: str):
    file = tmp_path / "file"
    file.touch()

    assert folder_problem(file / below) == (
        f"THRIFTGATE_FOLDER: {file} is no folder; move it away, or name another"
    )


def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")

    assert f"{link} is no folder" in folder_problem(link)


@LINUX
def test_where_nothing_can_be_made_that_is_said_with_why_and_the_fix():
    problem = folder_problem(Path("/proc/self/gateway"))

    assert problem.startswith(
        "THRIFTGATE_FOLDER: /proc/self/gateway cannot be made in /proc/self: "
    )
    assert problem.endswith(
        "; give it to the user whom the gateway runs as, or name another folder"
    )
    assert "/proc/self/fd cannot be written: " in folder_problem(Path("/proc/self/fd"))


@ROOT
def test_a_folder_of_somebody_elses_cannot_be_written(tmp_path: Path):
    tmp_path.chmod(0o500)

    assert "cannot be written: permission denied" in folder_problem(tmp_path)


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path):
    journal = tmp_path / "journal"
    journal.touch()

    assert folder_problem(tmp_path).startswith(f"THRIFTGATE_FOLDER: {journal} cannot be written; ")


def test_a_ledger_that_cannot_be_written_is_named(tmp_path: Path):
    ledger = tmp_path / "thriftgate.db"
    ledger.mkdir()

    assert folder_problem(tmp_path).startswith(f"THRIFTGATE_FOLDER: {ledger} cannot be written; ")


@ROOT
def test_a_ledger_that_may_only_be_read_is_named(tmp_path: Path):
    ledger = tmp_path / "thriftgate.db"
    ledger.touch(mode=0o400)

    assert str(ledger) in folder_problem(tmp_path)


def test_a_disk_that_is_nearly_full_is_doubted(tmp_path: Path):
    (warning,) = low_space_warning(tmp_path / "later", lambda _: 12 << 20)

    assert warning.startswith("12 MiB are left where THRIFTGATE_FOLDER is; ")
    assert low_space_warning(tmp_path, lambda _: 1 << 30) == []


def test_the_disk_itself_is_asked_where_the_folder_would_be(tmp_path: Path):
    assert low_space_warning(tmp_path / "not" / "yet") == low_space_warning(tmp_path)


def test_the_limit_of_open_files_is_shown_with_what_clients_may_hold():
    assert descriptor_counts(20_000, 2000, 4_096) == (
        "Open files: at most 20,000; clients may hold 17,744 connections,"
        " one address 4,096 of them."
    )
    assert descriptor_counts(1_024, 2000, 4_096).endswith(
        "512 connections, one address 256 of them."
    )


def test_a_limit_of_open_files_below_two_for_each_call_is_noted():
    assert low_descriptor_warning(4_512, 2000) == []
    (note,) = low_descriptor_warning(1_024, 2000)

    assert "at most 1,024 files" in note
    assert "THRIFTGATE_MAX_CALLS=2000" in note
