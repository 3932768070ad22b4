"""The ledger ends as the set of receipts that were appended, in any order and after any failure."""

from pathlib import Path
from secrets import token_hex

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import Engine

from proxy.records.receipt import Receipt
from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import encode, frame
from proxy.store.journal.segments import JournalLimits, list_segments
from proxy.store.sql.database import write_transaction
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.journal_shipper import JournalShipper
from tests.examples import examples
from tests.fakes.ledger import ledger_of, rollups_of
from tests.fakes.receipts import a_receipt, rolled_up

NUMBERS = st.lists(st.integers(0, 60), min_size=1, max_size=12)


class LifeOfALedger(RuleBasedStateMachine):
    """Processes append, tear lines, crash, start again, replay old segments and drain."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        super().__init__()
        self.engine = engine
        self.folder = folder / token_hex(4)
        self.appended: dict[str, Receipt] = {}
        with write_transaction(engine) as connection:
            connection.exec_driver_sql("DELETE FROM calls")
            connection.exec_driver_sql("DELETE FROM rollups")
        self.begin()

    def begin(self) -> None:
        self.journal = Journal(self.folder, bounds=JournalLimits(segment=2000))
        self.drain = JournalShipper(self.journal, inserter(self.engine), batch=3)

    @rule(numbers=NUMBERS)
    def append(self, numbers: list[int]) -> None:
        for number in numbers:
            receipt = a_receipt(number)
            self.journal.append(encode(receipt))
            self.appended[receipt.call_id] = receipt

    @rule()
    def sync_and_rotate(self) -> None:
        self.journal.sync()

    @rule(number=st.integers(0, 60), kept=st.integers(0, 200))
    def crash_in_the_middle_of_a_line(self, number: int, kept: int) -> None:
        assert self.journal.segment is not None
        with self.journal.segment.open("ab") as file:
            file.write(frame(encode(a_receipt(number)))[: 1 + kept])
        self.crash()

    @rule()
    def crash(self) -> None:
        self.journal.close()
        self.begin()

    @rule(numbers=NUMBERS)
    def find_an_old_segment_again(self, numbers: list[int]) -> None:
        old = [receipt for n in numbers if (receipt := a_receipt(n)).call_id in self.appended]
        lines = b"".join(frame(encode(receipt)) for receipt in old)
        (self.folder / f"0-{token_hex(4)}-000001.segment").write_bytes(lines)

    @rule()
    def drain_all(self) -> None:
        assert self.drain.ship_all()
        assert self.drain.lag_bytes == 0
        assert ledger_of(self.engine) == [self.appended[number] for number in sorted(self.appended)]
        assert list_segments(self.folder) == [self.journal.segment]

    @invariant()
    def the_rollups_are_the_sums_of_the_calls(self) -> None:
        assert rollups_of(self.engine) == rolled_up(ledger_of(self.engine))

    def teardown(self) -> None:
        self.drain_all()
        self.journal.close()


def test_the_ledger_is_what_was_appended_and_the_rollups_are_its_sums(
    engine: Engine, tmp_path: Path
) -> None:
    class LedgerMachine(LifeOfALedger):
        def __init__(self) -> None:
            super().__init__(engine, tmp_path)

    run_state_machine_as_test(LedgerMachine, settings=examples(21, stateful_step_count=12))
