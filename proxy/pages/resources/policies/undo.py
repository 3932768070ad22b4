"""Changes on pages: the one that an undo takes back, and what is kept but not yet in force."""

from collections.abc import Collection

from dashboards.views.access import AuditEntryView
from proxy.errors import CallerError
from proxy.pages.viewing import NOT_IN_FORCE
from proxy.reloading import Reloader
from proxy.store.sql.access.audit_log import changed_meanwhile_error
from proxy.store.store import Store


async def adopt_change(reloader: Reloader) -> None:
    """Has this gateway adopt a change that is kept; others do within seconds.

    Raises:
        CallerError: It is kept, and not yet in force.
    """
    if not await reloader.adopt_overlay():
        raise not_in_force_error("; ".join(reloader.notes()))


def not_in_force_error(why: str) -> CallerError:
    """The error of a change that is kept, and not yet in force."""
    error = CallerError(f"Kept, but not yet in force: {why}", code=NOT_IN_FORCE, status=409)
    error.details = {"why": why}
    return error


async def change_to_undo(
    store: Store, subject: str, actions: Collection[str], seen: str | None
) -> AuditEntryView:
    """The last of these changes of a subject.

    Args:
        seen: Its id, as the viewer saw it; None for whichever is the last.

    Raises:
        CallerError: There was none, or the last is another.
    """
    last = await store.ask(store.audit.last_change, subject, actions)
    if last is None:
        raise CallerError(
            f"There is nothing to undo: no change of {subject} is known.",
            code="nothing_to_undo",
            status=404,
        )
    if seen not in {None, last.id}:
        raise changed_meanwhile_error(last)
    return last


async def last_change_id(store: Store, subject: str, actions: Collection[str]) -> str:
    """Id of the last of these changes of a subject; "" for none."""
    last = await store.ask(store.audit.last_change, subject, actions)
    return "" if last is None else last.id
