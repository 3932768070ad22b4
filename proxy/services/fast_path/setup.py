"""Sets up the fast path of a running gateway: texts, kept answers, small models, and switches."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from proxy.app_context import AppContext
from proxy.calls.ports import Dependencies
from proxy.configuration import Snapshot
from proxy.records.receipt import Receipt
from proxy.services.fast_path.answer_setup import StoredPurges, running_answers
from proxy.services.fast_path.contexts import ContextResolver, build_contexts
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.services.fast_path.similarity_setup import running_similar_answers
from proxy.services.fast_path.small_first import SmallFirstRouting, running_small_first
from proxy.settings import Settings
from proxy.store.errors import StoreError
from proxy.store.sql.settings.fast_path_switches import FastPathSwitches
from proxy.store.store import Store
from proxy.upstream.port import Transport
from slo.budgets.budget import EVERY
from slo.policies.fast_path_switches import FastPathSwitch, SwitchedPart, with_switches

_log = logging.getLogger("thriftgate.fast_path")


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPath:
    """The parts of the fast path; all but the contexts are None without a policies file.

    Attributes:
        contexts: Puts stored texts and fetched pages into calls.
        answers: Purges answers given before.
        similar: Gives equal or similar calls the answer given before.
        small_first: Sends calls to a small model first.
    """

    contexts: ContextResolver
    answers: StoredPurges | None
    similar: SimilarAnswerCache | None
    small_first: SmallFirstRouting | None

    def join(self, deps: Dependencies) -> Dependencies:
        """The dependencies of calls with the fast path among them."""
        return replace(
            deps, contexts=self.contexts, answers=self.similar, small_first=self.small_first
        )

    def use(self, deps: Dependencies) -> None:
        """Make the gateway's own calls with these dependencies from now on."""
        if self.small_first is not None:
            self.small_first.use(deps)


@asynccontextmanager
async def running_fast_path(
    context: AppContext,
    transport: Transport,
    listen: Callable[[Callable[[Receipt], None]], None],
    ticks: Callable[[], float],
) -> AsyncIterator[FastPath]:
    """Runs the fast path, which follows the policies.

    Args:
        listen: Has each receipt handed to a receiver.
        ticks: Seconds of a clock that goes forward.
    """
    contexts = build_contexts(context, transport, ticks)
    async with (
        running_small_first(context, listen, ticks) as small_first,
        running_answers(context) as answers,
        running_similar_answers(context, answers) as similar,
    ):
        yield FastPath(contexts=contexts, answers=answers, similar=similar, small_first=small_first)


#: Stands for the switches until they are known: any part may be one that people turned off.
_ALL_OFF: Final = tuple(FastPathSwitch(EVERY, EVERY, part) for part in SwitchedPart)


class SwitchOverlay:
    """The switches as this process knows them; while the database is away, those read last.

    Until they were read once, every part is off.
    """

    def __init__(self, stored: FastPathSwitches) -> None:
        self._stored = stored
        self._known = _ALL_OFF

    def revision(self) -> tuple[FastPathSwitch, ...]:
        """A value that differs after each change: the switches themselves; blocks."""
        with suppress(StoreError):  # the ledger says that the database is away
            self._known = tuple(self._stored.all())
        return self._known

    def add_to(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with each switch before the rules of its part; blocks."""
        try:
            self._known = tuple(self._stored.all())
        except StoreError as error:
            _log.warning("Switches of the fast path stay as they were: %s", error)
        policies = with_switches(snapshot.policies, self._known)
        return msgspec.structs.replace(snapshot, policies=policies)


def switch_overlay(settings: Settings, store: Store) -> SwitchOverlay | None:
    """The overlay of a gateway; None without a policies file, where no rules are kept."""
    return None if settings.policies is None else SwitchOverlay(store.fast_path_switches)
