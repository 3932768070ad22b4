from pathlib import Path

import pytest
from sqlalchemy import Engine

from proxy.store.errors import StoreError
from proxy.store.journal.lines import encode, frame
from proxy.store.sql.database import open_database
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.receipt_ledger import ReceiptLedger
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.receipts import START, a_receipt, rolled_up

FAILED = a_receipt(4, final=False)
ANSWERED = a_receipt(4, attempt=1, prompt='{"model": "m"}')
CALL, TEAM = ANSWERED.call_id, ANSWERED.team


@pytest.fixture
def ledger(engine: Engine, tmp_path: Path) -> ReceiptLedger:
    return ReceiptLedger(engine, tmp_path)


def write_segment(folder: Path, *lines: bytes) -> None:
    (folder / "1-a.segment").write_bytes(b"".join(map(frame, lines)))


def test_a_team_finds_its_call_with_all_attempts_and_the_prompt_it_keeps(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    inserter(engine)([ANSWERED, FAILED, a_receipt(5)])

    receipts = [FAILED, ANSWERED]
    assert [call_receipt.attempt for call_receipt in ledger.call_receipts(CALL, TEAM)] == [0, 1]
    assert ledger.call_receipts(CALL, TEAM)[1] == receipts[1]


def test_another_team_finds_nothing(engine: Engine, ledger: ReceiptLedger, tmp_path: Path) -> None:
    inserter(engine)([ANSWERED])
    write_segment(tmp_path, encode(a_receipt(6)))

    assert ledger.call_receipts(CALL, "team_1") == []
    assert ledger.call_receipts(a_receipt(6).call_id, "team_1") == []


def test_a_call_still_in_the_journal_is_found(
    engine: Engine, ledger: ReceiptLedger, tmp_path: Path
) -> None:
    inserter(engine)([FAILED])
    write_segment(tmp_path, encode(FAILED), encode(ANSWERED))

    assert ledger.call_receipts(CALL, TEAM) == [FAILED, ANSWERED]


def test_with_the_database_away_the_journal_answers_for_what_it_has(
    empty_url: str, tmp_path: Path
) -> None:
    never_migrated = open_database(empty_url)
    ledger = ReceiptLedger(never_migrated, tmp_path)
    write_segment(tmp_path, encode(FAILED), encode(ANSWERED))

    assert ledger.call_receipts(CALL, TEAM) == [FAILED, ANSWERED]
    with pytest.raises(StoreError):
        ledger.call_receipts("call_unheard_of", TEAM)
    never_migrated.dispose()


def test_whoever_runs_the_gateway_finds_anybodys_call(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    inserter(engine)([ANSWERED, FAILED])

    assert [attempt.attempt for attempt in ledger.attempts(CALL)] == [0, 1]
    assert ledger.attempts("call_unheard_of") == []


def test_calls_are_counted_once_however_many_attempts_they_took(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    inserter(engine)([FAILED, ANSWERED, a_receipt(5)])

    assert ledger.count_calls() == 2


def test_ledger_names_the_calls_it_lacks(engine: Engine, ledger: ReceiptLedger) -> None:
    inserter(engine)([FAILED, *(a_receipt(n) for n in range(10, 1000))])
    call_ids = [a_receipt(n).call_id for n in range(10, 1001)]

    assert ledger.missing_calls([*call_ids, CALL]) == [CALL, a_receipt(1000).call_id]


def test_retention_deletes_older_calls_and_prompts_and_leaves_the_rollups(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    receipts = [a_receipt(n, prompt="{}" if n % 3 else None) for n in range(5000)]
    inserter(engine)(receipts)
    before = rollups_of(engine)
    retained = ledger.retain(START + 4990, budget=60)

    assert (retained.calls, retained.prompts, retained.done) == (4990, 3326, True)
    assert len(ledger_of(engine)) == 10
    assert rollups_of(engine) == before == rolled_up(receipts)


def test_retention_without_time_does_nothing_and_says_so(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    inserter(engine)([a_receipt(1)])

    assert ledger.retain(START + 99, budget=0).done is False
    assert len(ledger_of(engine)) == 1


def test_attempts_that_the_ledger_has_are_kept_apart_from_those_it_lacks(
    engine: Engine, ledger: ReceiptLedger
) -> None:
    inserter(engine)([ANSWERED, a_receipt(5)])

    receipts = [FAILED, ANSWERED, *(a_receipt(n) for n in range(5, 600))]
    assert ledger.recorded_attempts(receipts) == {(CALL, 1), (a_receipt(5).call_id, 0)}
    assert ledger.recorded_attempts([]) == set()
