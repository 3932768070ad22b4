"""Folding in a running gateway: threads, deadlines, and the live proof around the pure core.

::

    folded ── setting, header, prices of the route ──▶ what is sent, from the caller's own bytes
    left ── it goes as it came after all: where that moves its prefix, that is said
    refused ── an upstream took a call only as it came: the conversation rests, then the feature
    settled ── what was needed of what was folded, and what it saved ──▶ step back, alert

Fails open: whatever goes wrong, the call is sent as it came, with a reason.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import Final, TypeVar

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from compaction.compact import compact
from compaction.policy import CompactionMode
from compaction.quality_evidence import QualityEvidence, next_mode
from compaction.reading.message import Unfoldable
from proxy.calls.eligibility import CHAT, PLANNABLE_ENDPOINTS
from proxy.calls.ports import BackgroundTaskGroup
from proxy.calls.route_target import route_target
from proxy.catalog.entries import Route
from proxy.prefix.planned import PlanningTarget
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.recent import LruCache
from proxy.records.amounts import quantity
from proxy.records.call import Call
from proxy.records.compaction_result import (
    NO_COMPACTION,
    NOTES,
    CompactionResult,
    passthrough_result,
    summary_feature,
)
from proxy.records.compaction_settings import CompactionDefaults
from proxy.records.receipt import Receipt
from proxy.services.compaction.alerts import dearer, stepped_back
from proxy.services.compaction.body import Folds, Made, Talk, Task, made, spoken
from proxy.services.compaction.conversations import Now, Talks
from proxy.services.compaction.cool_down import REST, Rests
from proxy.services.compaction.live_quality import Place, Proofs
from proxy.services.compaction.native import native
from proxy.services.compaction.policies import policy
from proxy.services.compaction.requested import wish
from proxy.services.compaction.summariser import Notebook
from proxy.services.compaction.thinking import thinks
from proxy.services.compaction.worker_pool import Threads
from proxy.store.store import Store
from slo.alert import Alert

_log = logging.getLogger("thriftgate.compaction")

T = TypeVar("T")

#: Bytes from which on folding may take more than a millisecond, and so goes to a thread.
_LARGE: Final = 4 * 1024
#: Bytes above which a prompt is sent as it came: it would not be folded in time.
_HUGE: Final = 8 * 1024 * 1024
#: Seconds after which a call goes as it came.
_DEADLINE: Final = 0.5
#: Features of which it is remembered that conversations may have been folded.
_PLACES: Final = 8_192
_WORDS: Final = 200
_USUAL: Final = CompactionDefaults()


class Folding:
    """Folds the calls of one process.

    Args:
        store: Where the settings of features are kept.
        tasks: What shutdown waits for.
        now: Seconds since the epoch.
        say: Takes alerts.
        usual: What holds where nobody chose.
    """

    def __init__(
        self,
        store: Store,
        tasks: BackgroundTaskGroup,
        *,
        now: Callable[[], float],
        say: Callable[[Alert], bool],
        usual: CompactionDefaults = _USUAL,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._now = now
        self._say = say
        self._usual = usual
        self._threads = Threads(_DEADLINE)
        self._talks = Talks()
        self._places: LruCache[Place, bool] = LruCache(_PLACES)
        self._rests = Rests()
        self._proofs = Proofs()
        self._stepping: set[Place] = set()
        self._notebook: Notebook | None = None
        #: What folds.
        self.fold: Folds = compact

    def takes(self, notebook: Notebook) -> None:
        """Have notes taken on what is folded, where a feature's mode wants some."""
        self._notebook = notebook
        self.fold = notebook.fold

    def has_part(self, call: Call) -> bool:
        """True if compaction may have to do with the call: the call or its feature asks, or did."""
        place = (call.key.team, call.feature)
        if call.compaction or place in self._places:
            return True
        setting = self._store.foldboard.chosen.of(*place)
        return setting.effective_mode(self._usual.mode) is not CompactionMode.OFF

    async def folded(self, call: Call, route: Route) -> CompactionResult:
        """What is sent of the call on this route, or why it goes as it came; never raises."""
        if call.endpoint not in PLANNABLE_ENDPOINTS or call.method != "POST":
            return NO_COMPACTION
        place = (call.key.team, call.feature)
        setting = self._store.foldboard.chosen.of(*place)
        asked = wish(call.compaction, setting, self._usual.mode)
        if asked.mode is CompactionMode.OFF or (
            asked.mode is not CompactionMode.NATIVE and call.endpoint != CHAT
        ):
            fold = (
                msgspec.structs.replace(NO_COMPACTION, notes=asked.notes)
                if asked.notes
                else NO_COMPACTION
            )
            return await self.left(call, fold)
        if why := self._passed(call, route, asked.mode):
            return await self.left(call, passthrough_result(asked.mode.value, why))
        if asked.mode is CompactionMode.NATIVE:
            return await self.left(call, native(call, route, setting, is_dry=asked.is_dry))
        there = route_target(route, call.model, self._now(), call.endpoint)
        self._places.put(place, value=True)
        task = Task(
            call=call,
            policy=policy(asked, setting, there, route.window, self._usual.safety),
            is_dry=asked.is_dry,
            share=self._usual.share,
            secret=self._store.secret,
            model=there.model,
        )
        return await self._made(task, there)

    async def left(self, call: Call, fold: CompactionResult) -> CompactionResult:
        """A call that goes as it came; where the one before it did not, that is said."""
        if call.endpoint != CHAT or (call.key.team, call.feature) not in self._places:
            return fold
        try:
            talk = await self._tried(self._spoken(call), call)
        except Unplannable:
            return fold
        if talk is None:
            return fold
        now = Now(fold=fold, talk=talk, policy=None, at=self._now(), lives=inf)
        return self._talks.noted(call, now)

    def refused(self, call: Call, fold: CompactionResult) -> None:
        """Leave a conversation alone for a while: an upstream took it only as it came."""
        place = (call.key.team, call.feature)
        is_all = self._rests.refused(place, fold.conversation, self._now())
        _log.error(
            "An upstream refused a folded conversation of feature %r and took it as it came:"
            " compaction leaves the %s alone for %d s",
            call.feature,
            "feature" if is_all else "conversation",
            REST,
        )

    def settled(self, receipt: Receipt) -> None:
        """Count what became of a call, and judge its feature by it."""
        chosen = self._store.foldboard.chosen
        if receipt.compaction_why == NOTES:
            asked_for = (receipt.team, receipt.feature.removesuffix(summary_feature("")))
            self._proofs.charge(receipt, chosen.of(*asked_for).measured_from)
        if not receipt.final or not (receipt.folded or receipt.needed):
            return
        place = (receipt.team, receipt.feature)
        setting = chosen.of(*place)
        mode = setting.effective_mode(self._usual.mode)
        if receipt.compaction != mode.value or place in self._stepping:
            return
        self._proofs.add(receipt, setting.measured_from)
        sums = self._proofs.sums(place, self._now(), setting.measured_from)
        for found in (sums.untreated, sums.treated):
            gentler = next_mode(mode, found)
            if gentler is not mode:
                self._stepping.add(place)
                self._tasks.start(partial(self._step_back, place, mode, gentler, found))
                return
        if sums.is_dearer:
            self._say(dearer(place, sums, self._now()))

    def close(self) -> None:
        """Stop folding; what waits is dropped."""
        self._threads.close()

    async def _made(self, task: Task, there: PlanningTarget) -> CompactionResult:
        """What is made of the call in time, or why nothing is."""
        mode, call = task.policy.mode, task.call
        is_quick = len(call.body) < _LARGE and mode is not CompactionMode.FACTS_MODEL
        try:
            work = partial(made, task, self.fold)
            found = await self._tried(self._threads.run(call.key.team, work, here=is_quick), call)
            if found is not None:
                return self._noted(task, found, there)
            fold = passthrough_result(mode.value, "failed")
        except Unfoldable as error:
            fold = _left(mode, str(error))
        except Unplannable:
            fold = passthrough_result(mode.value, "unreadable")
        except TimeoutError:
            _log.warning("Folding took too long on call %s; it goes as it came", call.id)
            fold = passthrough_result(mode.value, "late")
        return await self.left(call, fold)

    async def _tried(self, work: Awaitable[T], call: Call) -> T | None:
        """What work on a call comes to; None where we made a mistake, which must not cost the call.

        Raises:
            Unfoldable: As the work does; and the two below.
            Unplannable: The body cannot be read.
            TimeoutError: It is late.
        """
        try:
            return await work
        except (Unfoldable, Unplannable, TimeoutError):
            raise
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            _log.exception("Folding failed on call %s; it goes as it came", call.id)
            return None

    def _passed(self, call: Call, route: Route, mode: CompactionMode) -> str:
        """Why a call is not folded, whatever it holds; "" where it is looked at."""
        if self._rests.feature((call.key.team, call.feature), self._now()):
            return "refused"
        if len(call.body) > _HUGE:
            return "too_large"
        asked = call.body if call.ask is None else call.ask.thought
        return "thinks" if mode is not CompactionMode.NATIVE and thinks(asked, route) else ""

    async def _spoken(self, call: Call) -> Talk | None:
        """The conversation of a call that nobody folded, or not in time."""
        read = partial(spoken, call, self._store.secret)
        return read() if len(call.body) < _LARGE else await asyncio.to_thread(read)

    def _noted(self, task: Task, found: Made, there: PlanningTarget) -> CompactionResult:
        """What was made, with what is known of how the conversation was sent before."""
        talk, fold, now = found.talk, found.fold, self._now()
        if talk is None:
            return fold
        by, news = task.policy if found.is_decided else None, found.news
        if self._rests.conversation(talk.name, now):
            fold, by, news = passthrough_result(fold.mode, "refused"), None, None
        if self._notebook is not None and news is not None:
            self._notebook.wanted(task.call, news)
        lives = max(there.regime.lifetimes.values(), default=inf)  # nobody knows: for ever
        return self._talks.noted(
            task.call, Now(fold=fold, talk=talk, policy=by, at=now, lives=lives)
        )

    async def _step_back(
        self, place: Place, mode: CompactionMode, to: CompactionMode, found: QualityEvidence
    ) -> None:
        """Have the feature compacted more gently everywhere, and people told."""
        needed = quantity(found.needed, "value")
        why = f"{found.lost:,} of {needed} that tool calls needed were folded away"
        try:
            done = await self._store.ask(
                self._store.compactions.step_back, place, to, why, self._now()
            )
            if done:
                _log.error(
                    "Compaction of %r is stepped back from %s to %s: %s", place, mode, to, why
                )
                self._say(stepped_back(place, mode, to, why, self._now()))
            await self._store.ask(self._store.foldboard.refresh)
        except SQLAlchemyError as error:
            _log.warning("A feature was not stepped back: %s", error)
        finally:
            self._proofs.forget(place)
            self._stepping.discard(place)


def _left(mode: CompactionMode, why: str) -> CompactionResult:
    """A conversation that goes as it came; what is no code is said in a note."""
    if why.isidentifier():
        return passthrough_result(mode.value, why)
    said = f"the conversation was not compacted: {why[:_WORDS]}"
    return CompactionResult(mode=mode.value, why="unfoldable", notes=(said,))
