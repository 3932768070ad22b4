"""Books attempts that were sent and have no receipt, because their process was killed.

Each process on a journal's folder looks for notes of attempts that a dead one left. Those that are
not in the ledger once the dead one's journal is drained get a receipt: outcome ``broken``, error
``gateway_killed``, its usage an estimate. Two processes that look at once book an attempt once.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from proxy.calls.drafts.drafting import DRAFT_NUMBER
from proxy.calls.eligibility.retry_policy import BILLED_ENDPOINTS
from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route
from proxy.records.amounts import quantity
from proxy.records.receipt import Outcome, PendingAttempt, Receipt, ServedBy
from proxy.reloading import Reloader
from proxy.store.errors import StoreError
from proxy.store.journal.segments import lock_segment
from proxy.store.journal.sent_attempts import SentAttempts, list_files, read_attempts
from proxy.store.store import Store
from proxy.tokens.text_size import BYTES_PER_TOKEN
from slo.price import STANDARD_TERMS, call_cost
from slo.usage import Usage

_log = logging.getLogger("thriftgate")

#: Code of the error on the receipt of an attempt that was cut off.
KILLED: Final = "gateway_killed"
_LOOK_INTERVAL_S: Final = 2.0
_FILE_LOOK_INTERVAL_S: Final = 1.0
#: Seconds that the ledger gets to take up what dead processes journalled.
_FLUSH_TIMEOUT_S: Final = 10.0
#: Seconds that no call takes: a note of an older one is not of a call that the kill cut off.
_DAY_S: Final = 86_400.0
_STATUS: Final = 500
_NOTE: Final = "the gateway was killed while it was under way: its usage is an estimate"


async def keep_cut_attempts_booked(
    opened: Store, reloader: Reloader, now: Callable[[], float]
) -> None:
    """Book what dead processes left, now and every two seconds, without end.

    Args:
        reloader: Has the catalog in force, which has the prices.
    """
    while True:
        try:
            oldest = now() - (reloader.settings.retention_days - 1) * _DAY_S
            catalog = reloader.snapshot.catalog
            await opened.ask_patiently(book_cut_attempts, opened, catalog, oldest)
        except (StoreError, OSError) as error:
            _log.warning("Calls of a killed gateway are not booked yet: %s", error)
        await asyncio.sleep(_LOOK_INTERVAL_S)


async def keep_sent_attempts_in_place(attempts: SentAttempts) -> None:
    """Look once a second if the file of attempts under way is in place; endless."""
    while True:
        attempts.replace_removed()
        await asyncio.sleep(_FILE_LOOK_INTERVAL_S)


def book_cut_attempts(opened: Store, catalog: Catalog, oldest: float) -> int:
    """Book what dead processes left; how many receipts that were; blocks.

    Args:
        oldest: Arrival of the oldest calls whose receipts the ledger surely still has.

    Raises:
        StoreError: The database is away.
        OSError: A file cannot be read.
    """
    files = list_files(opened.journal.folder)
    return sum(_book_file(opened, catalog, path, oldest) for path in files)


def _book_file(opened: Store, catalog: Catalog, path: Path, oldest: float) -> int:
    """Book what a dead process left in its file, and remove that; 0 for a living one's."""
    with lock_segment(path) as file:
        if file is None:
            return 0
        last = path.stat().st_mtime
        since = max(last - _DAY_S, oldest)
        cut = [attempt for attempt in read_attempts(file) if attempt.started > since]
        if cut and not opened.drain.flush(_FLUSH_TIMEOUT_S):
            return 0  # what it journalled has not come to the ledger yet
        receipts = _missing_receipts(opened, catalog, cut, last)
        for receipt in receipts:
            opened.keep(receipt)
        path.unlink()
    if receipts:
        calls = quantity(len(receipts), "call")
        _log.warning("%s that a kill of a gateway cut off: booked by estimate", calls)
    return len(receipts)


def _missing_receipts(
    opened: Store, catalog: Catalog, cut: Iterable[PendingAttempt], last: float
) -> Sequence[Receipt]:
    """The receipts of those attempts that have none; the last of a call is final."""
    receipts = [_estimate_receipt(attempt, catalog, last) for attempt in cut]
    recorded = opened.ledger.recorded_attempts(receipts)
    missing = [
        receipt for receipt in receipts if (receipt.call_id, receipt.attempt) not in recorded
    ]
    ordered = sorted(missing, key=lambda receipt: (not receipt.served_by, receipt.attempt))
    newest = {receipt.call_id: receipt.attempt for receipt in ordered}  # a draft, if nothing else
    ended = {
        call_id
        for call_id in newest
        if any(receipt.final for receipt in opened.ledger.attempts(call_id))
    }
    return [
        msgspec.structs.replace(
            receipt,
            final=receipt.attempt == newest[receipt.call_id] and receipt.call_id not in ended,
        )
        for receipt in missing
    ]


def _estimate_receipt(pending: PendingAttempt, catalog: Catalog, last: float) -> Receipt:
    """The receipt of an attempt that was cut off, at the price of its route."""
    usage, cost = None, None
    if pending.endpoint in BILLED_ENDPOINTS or pending.endpoint == "embeddings":
        routes = (route for model in catalog.models.values() for route in model.routes)
        route = next((route for route in routes if route.name == pending.route), None)
        usage = _likely_usage(pending, route)
        if route is not None and route.tariff is not None:
            cost = call_cost(usage, route.tariff, pending.started, STANDARD_TERMS)
    is_draft = pending.attempt == DRAFT_NUMBER
    return Receipt(
        call_id=pending.call_id,
        attempt=pending.attempt,
        started=pending.started,
        team=pending.team,
        key_id=pending.key_id,
        feature=pending.feature,
        user=pending.user,
        tags=pending.tags,
        endpoint=pending.endpoint,
        model=pending.model,
        route=pending.route,
        upstream=pending.upstream,
        streamed=pending.streamed,
        status=_STATUS,
        outcome=Outcome.BROKEN,
        error=KILLED,
        usage=usage,
        estimated=True,
        list_nanos=None if cost is None else cost.list_nanos,
        cost_nanos=None if cost is None else cost.effective_nanos,
        duration=max(last - pending.started, 0.0),
        notes=(_NOTE,),
        served_by=ServedBy.DRAFT if is_draft else ServedBy.NOBODY,
        fast_path_nanos=None if cost is None or not is_draft else -cost.effective_nanos,
    )


def _likely_usage(pending: PendingAttempt, route: Route | None) -> Usage:
    """The usage that an attempt is likely to have had; no prompt is longer than a window."""
    tokens = pending.prompt_bytes // BYTES_PER_TOKEN
    if route is not None and route.window is not None:
        tokens = min(tokens, route.window)
    return Usage(input=tokens, output=pending.output)
