"""Pages of calls, newest first, and a receipt as a row of one."""

from collections.abc import Mapping

from dashboards.views.calls import CallRow, CallsView
from proxy.records.receipt import Receipt, answering_model
from proxy.store.sql.views.call_pages import CallSearch
from proxy.store.sql.views.readers import Readers


def calls_view(readers: Readers, search: CallSearch) -> CallsView:
    """A page of calls; blocks."""
    page, names = readers.calls.page(search), readers.team_names()
    return CallsView(
        calls=[call_row(each, names) for each in page.receipts],
        next=page.next or None,
        searched_from=page.searched_from,
    )


def call_row(receipt: Receipt, names: Mapping[str, str]) -> CallRow:
    """The end of a call.

    Args:
        receipt: That of its last attempt.
        names: Names of teams by their ids.
    """
    usage = receipt.usage
    return CallRow(
        call_id=receipt.call_id,
        started=receipt.started,
        team=receipt.team,
        team_name=names.get(receipt.team, receipt.team),
        key=receipt.key_id,
        feature=receipt.feature,
        user=receipt.user,
        requested=receipt.model,
        model=answering_model(receipt.route, receipt.model),
        route=receipt.route,
        attempts=receipt.attempt + 1,
        status=receipt.status,
        outcome=receipt.outcome.value,
        error=receipt.error,
        streamed=receipt.streamed,
        cost_nanos=receipt.spent_nanos,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read,
        generated_tokens=None if usage is None else usage.generated_tokens,
        ttft=receipt.ttft,
        duration=receipt.duration,
        miss=receipt.miss,
        miss_nanos=receipt.miss_nanos,
        reroute_reason=receipt.reroute_reason,
    )
