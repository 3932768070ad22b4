"""Segments, or all of the journal's folder, that cannot be read for a while."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Engine

from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import encode
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.journal_shipper import JournalShipper
from tests.fakes.ledger import ledger_of
from tests.fakes.receipts import a_receipt

RECEIPT = a_receipt(1)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "journal")) as journal:
        yield journal


@pytest.fixture
def drain(journal: Journal, sqlite_engine: Engine) -> Iterator[JournalShipper]:
    drain = JournalShipper(journal, inserter(sqlite_engine), pause=0.01)
    yield drain
    drain.close(10)


def test_an_unreadable_segment_is_trouble_and_does_not_hold_up_the_others(
    journal: Journal, drain: JournalShipper, sqlite_engine: Engine
) -> None:
    (journal.folder / "000.segment").mkdir()
    journal.append(encode(RECEIPT))
    drained = drain.ship_all()

    assert not drained
    assert drain.trouble is not None
    assert ledger_of(sqlite_engine) == [RECEIPT]
    (journal.folder / "000.segment").rmdir()
    assert drain.ship_all()
    assert drain.trouble is None


def test_an_unreadable_folder_is_trouble_and_read_again_later(
    journal: Journal, drain: JournalShipper, sqlite_engine: Engine
) -> None:
    journal.append(encode(RECEIPT))
    aside = journal.folder.rename(journal.folder.with_name("aside"))
    journal.folder.symlink_to(journal.folder)
    drain.start()
    flushed = drain.flush(0.1)

    assert not flushed
    assert drain.trouble == (
        "the journal shipper cannot read the journal: Too many levels of symbolic links"
    )
    assert not drain.close(0)
    journal.folder.unlink()
    aside.rename(journal.folder)
    assert drain.ship_all()
    assert ledger_of(sqlite_engine) == [RECEIPT]
