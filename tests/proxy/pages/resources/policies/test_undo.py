"""The change to undo is the one that its viewer saw."""

import asyncio

import pytest

from proxy.errors import CallerError
from proxy.pages.resources.policies.undo import change_to_undo, last_change_id
from proxy.store.sql.access.audit_log import AuditedChange
from proxy.store.store import Store

ACTIONS = ("pin",)


def append(store: Store, who: str, now: float) -> str:
    store.audit.append(AuditedChange(who=who, action="pin", subject="x"), now)
    return asyncio.run(last_change_id(store, "x", ACTIONS))


def test_the_last_change_is_undone_if_it_was_seen_or_nothing_was(store: Store) -> None:
    last = append(store, "ann", 10.0)

    for seen in (last, None):
        assert asyncio.run(change_to_undo(store, "x", ACTIONS, seen)).id == last


def test_a_newer_change_than_was_seen_is_a_conflict_that_names_its_author(store: Store) -> None:
    seen = append(store, "ann", 10.0)
    append(store, "bob", 20.0)

    with pytest.raises(CallerError, match=r"by bob \(pin x, 1970-01-01 00:00:20 UTC\)") as conflict:
        asyncio.run(change_to_undo(store, "x", ACTIONS, seen))
    assert (conflict.value.status, conflict.value.code) == (409, "changed_meanwhile")


def test_without_a_change_there_is_nothing_to_undo(store: Store) -> None:
    assert asyncio.run(last_change_id(store, "y", ACTIONS)) == ""
    with pytest.raises(CallerError, match="no change of y is known") as missing:
        asyncio.run(change_to_undo(store, "y", ACTIONS, None))
    assert missing.value.status == 404
