"""The store: everything that is persisted, as one object to start and stop.

::

    receipt ─ journal (a file, on the event loop) ─ drain (a thread) ─ calls and rollups
                               every ten seconds ─ pending_sums ─ sums of days, histograms
    pages ─ dashboard ─ connections of their own, which only read: in ``serve`` those of a process
    keyring (memory) ─ keys                 board (memory) ─ layouts
                                            compaction_settings (memory) ─ compactions
    ledger, reports, teams, plans, outbox, savings ─ the same database, on threads
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from functools import cached_property, partial
from pathlib import Path
from secrets import token_bytes
from typing import TYPE_CHECKING, ParamSpec, Self, TypeVar

from sqlalchemy import Engine, select

from compaction.policy import CompactionMode as Compaction
from proxy.errors import OperatorError
from proxy.records.compaction_settings import FeatureSettings, SettingsSnapshot
from proxy.records.feature_mode import FeatureStates, PlanningMode
from proxy.records.receipt import Receipt
from proxy.settings import Settings
from proxy.store.journal.journal import Journal
from proxy.store.journal.lines import decode, encode
from proxy.store.journal.sent_attempts import SentAttempts
from proxy.store.sql import schema
from proxy.store.sql.access.admin_sessions import SessionRows
from proxy.store.sql.access.api_key_cache import ApiKeyCache
from proxy.store.sql.access.audit_log import AuditLog
from proxy.store.sql.access.known_keys import KnownKeys
from proxy.store.sql.access.teams import Teams
from proxy.store.sql.access.users import Users
from proxy.store.sql.alert_records import AlertRecords
from proxy.store.sql.database import (
    ConnectionGate,
    address,
    migrate,
    open_database,
    open_reader,
    revision,
    write_transaction,
)
from proxy.store.sql.ledger.compaction_receipts import CompactionReceipts
from proxy.store.sql.ledger.control_arms import ArmMeasurements, Savings
from proxy.store.sql.ledger.engine_usage import ReplicaTimeLedger
from proxy.store.sql.ledger.fallback_rows import RecentFallbacks
from proxy.store.sql.ledger.inserts import inserter
from proxy.store.sql.ledger.journal_shipper import JournalShipper
from proxy.store.sql.ledger.last_answers import Answers
from proxy.store.sql.ledger.receipt_ledger import ReceiptLedger
from proxy.store.sql.ledger.spendings import Spendings
from proxy.store.sql.outbox import Outbox
from proxy.store.sql.report_deliveries import ReportDeliveries
from proxy.store.sql.rollups.pending_sums import PendingSums
from proxy.store.sql.rows import upsert
from proxy.store.sql.settings.answer_purges import AnswerPurges
from proxy.store.sql.settings.compactions import Compactions
from proxy.store.sql.settings.contexts import Contexts
from proxy.store.sql.settings.fast_path_switches import FastPathSwitches
from proxy.store.sql.settings.layouts import Layouts
from proxy.store.sql.settings.locks import singleton_lock
from proxy.store.sql.settings.mark_accounts import MarkAccounts
from proxy.store.sql.settings.pins import Pins
from proxy.store.sql.settings.plans import Plans
from proxy.store.sql.settings.settings_cache import compaction_settings, layout_settings
from proxy.store.sql.settings.stored_budgets import StoredBudgets
from proxy.store.sql.settings.stored_policies import StoredPolicies
from proxy.store.sql.views.ledger_reports import LedgerReports

if TYPE_CHECKING:
    from proxy.store.sql.views.reader_process import ReaderProcess
    from proxy.store.sql.views.readers import DashboardReads, Readers

P = ParamSpec("P")
Q = TypeVar("Q")
T = TypeVar("T")

_MAX_THREADS = 4
_FACT = "installation secret"


class Store:
    """The parts of the store, running.

    All but ``journal.append``, ``keep``, ``keyring.find``, ``keyring.fetch``,
    ``board.current`` and ``compaction_settings.current`` may block: call them through ``ask``.

    Attributes:
        secret: 32 random bytes of this installation, for keyed hashes.
        own_cost_usd_month: Cost of running the gateway as its operator states it; None unstated.
    """

    _gates: Sequence[ConnectionGate] = ()
    own_cost_usd_month: Decimal | None = None

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        mode: PlanningMode = PlanningMode.OBSERVE,
        secret: bytes = b"",
        reader: Engine | None = None,
    ) -> None:
        self._engine, self._reader, self._mode = engine, reader or engine, mode
        self._online = asyncio.Event()
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="store")
        self._waiting_thread = ThreadPoolExecutor(1, thread_name_prefix="store-waits")
        self.secret = secret or _secret(engine)
        self.keyring = ApiKeyCache(engine, self._threads)
        self.ledger = ReceiptLedger(engine, folder)
        self.reports = LedgerReports(engine)
        self._reader_process: ReaderProcess | None = None
        self.pending_sums = PendingSums(engine)
        self.spendings = Spendings(engine)
        self.teams, self.users = Teams(engine), Users(engine)
        self.sessions = SessionRows(engine)
        self.audit, self.pins = AuditLog(engine), Pins(engine)
        self.plans, self.mark_accounts = Plans(engine), MarkAccounts(engine)
        self.answers, self.replica_time = Answers(engine), ReplicaTimeLedger(engine)
        self.outbox, self.alert_records = Outbox(engine), AlertRecords(engine)
        self.budgets, self.policies = StoredBudgets(engine), StoredPolicies(engine)
        self.report_deliveries, self.fast_path_switches = (
            ReportDeliveries(engine),
            FastPathSwitches(engine),
        )
        self.layouts, self.contexts = Layouts(engine, mode=mode), Contexts(engine)
        self.board = layout_settings(self.layouts)
        self.compactions = Compactions(engine)
        self.compaction_settings = compaction_settings(self.compactions)
        self.compaction_receipts = CompactionReceipts(engine)
        self.fallbacks, self.answer_purges = RecentFallbacks(engine), AnswerPurges(engine)
        self.savings, self.arms = Savings(engine), ArmMeasurements(engine)
        self.journal = Journal(folder)
        self.sent = SentAttempts(folder, self.journal.removed)
        self._insert = inserter(engine)
        self.drain = JournalShipper(self.journal, self._insert)

    @classmethod
    def open(cls, url: str, folder: Path, mode: PlanningMode = PlanningMode.OBSERVE) -> Self:
        """The store in the database at ``url``, migrated and running; blocks.

        Receipts that processes before this one left in the journal's ``folder`` are drained.

        Raises:
            ValueError: The URL names no database this can use.
            StoreError: The database is away.
            OperatorError: A newer version has migrated its tables.
            OSError: The folder cannot be written.
        """
        with ExitStack() as undo:
            engine = open_database(url)
            undo.callback(engine.dispose)
            migrate(engine)
            store = cls(engine, folder, mode, reader=open_reader(url))
            undo.callback(store.close, 0.0)
            store.keyring.start()
            store.board.start()
            store.compaction_settings.start()
            store.journal.start()
            store.drain.start()
            undo.pop_all()
        return store

    @classmethod
    def open_offline(cls, url: str, folder: Path, mode: PlanningMode, known: KnownKeys) -> Self:
        """A store whose database is away; ``go_online`` connects it.

        Until then it finds the known keys and journals receipts. Whatever asks the database fails
        at once, and no prompt is planned or compacted, for the features' modes are not known.

        Raises:
            ValueError: The URL names no database this can use.
            OSError: The folder cannot be written.
        """
        engine, reader = open_database(url), open_reader(url)
        gates = ConnectionGate(engine), ConnectionGate(reader)
        store = cls(engine, folder, mode, known.secret, reader)
        store._gates = gates
        store.keyring.restore(known.by_hash(), known.teams)
        store.board.current = FeatureStates(mode=PlanningMode.OFF)
        store.compaction_settings.current = SettingsSnapshot(
            unlisted=FeatureSettings(mode=Compaction.OFF)
        )
        store.journal.start()
        store.drain.start()
        return store

    @cached_property
    def dashboard(self) -> "DashboardReads":
        """Reads of pages; over connections of their own, so calls never wait for them."""
        from proxy.store.sql.views.readers import LocalReads  # noqa: PLC0415 - commands need none

        return LocalReads(self._reader, self._mode)

    def use_reader_process(self) -> None:
        """Read for pages in a process of its own from now on, which gives way to calls."""
        from proxy.store.sql.views.reader_process import ReaderProcess  # noqa: PLC0415 - as above

        url = self._reader.url.render_as_string(hide_password=False)
        self._reader_process = ReaderProcess(url, self.dashboard, self._mode)
        self.dashboard = self._reader_process

    async def read_apart(
        self, timeout_s: float, question: "Callable[[Readers, Q], T]", arg: Q
    ) -> T:
        """The answer of a process for this question alone; see ``reader_process.read_apart``."""
        from proxy.store.sql.views.reader_process import read_apart  # noqa: PLC0415 - as above

        url = self._reader.url.render_as_string(hide_password=False)
        return await read_apart((url, self._mode), timeout_s, question, arg)

    @property
    def address(self) -> str:
        """The database's URL, without its passwords."""
        return address(self._engine.url)

    @property
    def is_offline(self) -> bool:
        """True while the database is away since this store was opened."""
        return any(not gate.is_open for gate in self._gates)

    def go_online(self) -> None:
        """Connect to the database, of which ``check_database`` found that it can be used."""
        if not self.is_offline:
            return
        for gate in self._gates:
            gate.is_open = True
        self.keyring.watch()
        self.board.watch()
        self.compaction_settings.watch()
        self._online.set()

    async def wait_until_online(self) -> None:
        """Wait until the store has been connected to its database."""
        if self.is_offline:
            await self._online.wait()

    def keep(self, receipt: Receipt) -> None:
        """Record a receipt; once this returns, kill -9 does not lose it."""
        self.journal.append(encode(receipt))
        self.sent.end(receipt.call_id, receipt.attempt)

    def book(self, receipts: Sequence[Receipt]) -> int:
        """Put receipts into the ledger at once, each once; how many it lacked; blocks.

        Raises:
            OperatorError: The database will never take one of them, and takes none now.
            StoreError: The database is away.
        """
        receipts = [decode(encode(receipt)) for receipt in receipts]
        recorded = self.ledger.recorded_attempts(receipts)
        if (why := self._insert(receipts)) is not None:
            raise OperatorError(why)
        return len({(receipt.call_id, receipt.attempt) for receipt in receipts} - recorded)

    async def ask(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs ``question`` off the event loop and returns or raises what it does."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: question(*args, **kwargs))

    async def ask_patiently(self, question: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As ``ask``, for what may wait long: on a thread apart, so that no other question waits.

        One runs at a time.
        """
        loop = asyncio.get_running_loop()
        work = partial(question, *args, **kwargs)
        return await loop.run_in_executor(self._waiting_thread, work)

    def singleton_lock(self) -> AbstractContextManager[bool]:
        """A block that yields True if no other process on this database is in one."""
        return singleton_lock(self._engine)

    def trouble(self) -> list[str]:
        """A description of what is wrong, in sentences; receipts are lost by none of it."""
        running = (self.journal, self.drain, self.keyring, self.board, self.compaction_settings)
        parts = (part.trouble for part in running)
        return [trouble for trouble in parts if trouble is not None]

    def close(self, deadline: float) -> bool:
        """Drain and stop; False if receipts are left that are not in the database.

        They stay in the journal for the next start; what the journal could not write is written
        to the log, whole (``journal.lost``).

        Args:
            deadline: Seconds the drain may take.
        """
        self.journal.close()
        drained = self.drain.close(deadline)
        self.journal.log_waiting()
        self.sent.close()
        self.keyring.close()
        self.board.close()
        self.compaction_settings.close()
        if self._reader_process is not None:
            self._reader_process.close()
        for reads in (self.savings, self.arms):
            reads.stop()
        for threads in (self._waiting_thread, self._threads):
            threads.shutdown(wait=drained, cancel_futures=True)
        for engine in (self._reader, self._engine):
            engine.dispose()
        return drained


def open_store(settings: Settings) -> Store:
    """The store these settings name, migrated and running; blocks.

    Raises:
        ValueError: The URL names no database that can be used.
        StoreError: The database is away.
        OperatorError: A newer version has migrated its tables.
        OSError: The folder cannot be written.
    """
    settings.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    store = Store.open(settings.ledger_url, settings.folder / "journal", settings.planning)
    store.own_cost_usd_month = settings.own_cost_usd_month
    return store


def check_database(url: str, secret: bytes) -> bool:
    """Migrate the database at ``url``; False if it is not the installation with this secret.

    It blocks, and leaves the database of another installation as it is.

    Raises:
        StoreError: The database is away.
        OperatorError: A newer version has migrated its tables.
    """
    engine = open_database(url)
    try:
        if revision(engine) is None:
            return False
        migrate(engine)
        return _secret(engine) == secret
    finally:
        engine.dispose()


def open_known_store(settings: Settings, known_keys: KnownKeys) -> Store:
    """The store these settings name, whose database is away; blocks.

    Raises:
        ValueError: The URL names no database that can be used.
        OSError: The folder cannot be written.
    """
    folder = settings.folder / "journal"
    store = Store.open_offline(settings.ledger_url, folder, settings.planning, known_keys)
    store.own_cost_usd_month = settings.own_cost_usd_month
    return store


def _secret(engine: Engine) -> bytes:
    """The installation's secret; the first process to start makes it."""
    query = select(schema.meta.c.secret).where(schema.meta.c.name == _FACT)
    with write_transaction(engine) as connection:
        fact = {"name": _FACT, "secret": token_bytes(32), "number": None}
        connection.execute(upsert(schema.meta), fact)
        return bytes(connection.execute(query).scalar_one())
