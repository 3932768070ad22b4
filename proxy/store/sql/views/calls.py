"""Pages of calls, newest first, and a receipt as a row of one."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Final

from dashboards.views.calls import CallRow, CallsView
from proxy.records.receipt import Receipt, answering_model
from proxy.store.sql.views.call_pages import CallSearch
from proxy.store.sql.views.readers import Readers

#: Fields of a row that are the receipt's; ``model`` is the one that answered.
_SAME_FIELDS: Final = {field.name for field in fields(CallRow)} & {*Receipt.__struct_fields__} - {
    "model",
    "cost_nanos",
}


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
        **{name: getattr(receipt, name) for name in _SAME_FIELDS},
        team_name=names.get(receipt.team, receipt.team),
        key=receipt.key_id,
        requested=receipt.model,
        model=answering_model(receipt.route, receipt.model),
        attempts=receipt.attempt + 1,
        cost_nanos=receipt.spent_nanos,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        cache_read_tokens=None if usage is None else usage.cache_read,
        generated_tokens=None if usage is None else usage.generated_tokens,
    )
