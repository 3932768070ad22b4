"""Folding in a running gateway: threads, deadlines, and the live proof around the pure core.

::

    folded ── setting, header, prices of the route ──▶ what is sent, from the caller's own bytes
    refused ── an upstream took a call only as it came: the feature rests
    settled ── what was needed of what was folded, and what it saved ──▶ step back, alert

Fails open: whatever goes wrong, the call is sent as it came, with a reason.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from compaction.deciding.proof import Evidence, stepped
from compaction.fold import fold
from compaction.memory import Memory
from compaction.policy import Mode, Policy
from compaction.reading.message import Unfoldable
from proxy.call import Call
from proxy.catalog.entries import Route
from proxy.desk import Tasks
from proxy.folding.body import Folds, Made, Task, made
from proxy.folding.native import native
from proxy.folding.news import dearer, stepped_back
from proxy.folding.notebook import Notebook
from proxy.folding.policies import policy
from proxy.folding.proofs import Place, Proofs, Sums
from proxy.folding.thinking import thinks
from proxy.folding.wishes import wish
from proxy.folds import NO_FOLD, Fold, is_noting, unfolded
from proxy.plannable import CHAT, ENDPOINTS
from proxy.prefix.planned import Way
from proxy.prefix.prompts.objects import Unplannable
from proxy.prefix.prompts.recent import Recent
from proxy.receipt import Receipt
from proxy.store.store import Store
from proxy.ways import way
from slo.alert import Alert

_log = logging.getLogger("thriftgate.compaction")

#: Bytes from which on folding may take more than a millisecond, and so goes to a thread.
_LARGE: Final = 4 * 1024
#: Bytes above which a prompt is sent as it came: it would not be folded in time.
_HUGE: Final = 8 * 1024 * 1024
#: Seconds after which a call goes as it came.
_DEADLINE: Final = 0.5
#: Calls that may wait for the thread.
_WAITING: Final = 64
#: Seconds a feature is left alone once an upstream refused what was folded.
_REST: Final = 600.0
_RESTING: Final = 1_024
#: Conversations of which it is remembered how they were sent last.
_TALKS: Final = 50_000
#: Folded calls of a day after which it is asked what they cost.
_ENOUGH: Final = 30
_WORDS: Final = 200


class _Sent(msgspec.Struct, frozen=True):
    """How a conversation was sent last.

    Attributes:
        policy: By which policy; None for as it came.
        is_folded: Whether that was shorter.
        at: When, in seconds since the epoch.
    """

    policy: Policy | None
    is_folded: bool
    at: float


class Folding:
    """Folds the calls of one process.

    Args:
        store: Where the settings of features are kept.
        tasks: What shutdown waits for.
        now: Seconds since the epoch.
        say: Takes alerts.
        default: The mode of features for which nobody chose one.
        share: The part of all conversations that is sent as it came, to compare with.
    """

    def __init__(
        self,
        store: Store,
        tasks: Tasks,
        *,
        now: Callable[[], float],
        say: Callable[[Alert], bool],
        default: Mode = Mode.OFF,
        share: float = 0.05,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._now = now
        self._say = say
        self._default = default
        self._share = share
        self._lock = threading.Lock()
        self._memory = Memory()
        # Of its own: where one prompt takes long, other work finds a thread all the same.
        self._desk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="folding")
        self._waiting = 0
        self._talks: Recent[bytes, _Sent] = Recent(_TALKS)
        self._resting: Recent[Place, float] = Recent(_RESTING)
        self._proofs = Proofs()
        self._stepping: set[Place] = set()
        self._notebook: Notebook | None = None
        #: What folds.
        self.fold: Folds = fold

    def takes(self, notebook: Notebook) -> None:
        """Have notes taken on what is folded, where a feature's mode wants some."""
        self._notebook = notebook
        self.fold = notebook.fold

    async def folded(self, call: Call, route: Route) -> Fold:
        """What is sent of the call on this route, or why it goes as it came; never raises."""
        if call.endpoint not in ENDPOINTS or call.method != "POST":
            return NO_FOLD
        place = (call.key.team, call.feature)
        setting = self._store.foldboard.chosen.of(*place)
        asked = wish(call.compaction, setting, self._default)
        if asked.mode is Mode.OFF or (asked.mode is not Mode.NATIVE and call.endpoint != CHAT):
            return msgspec.structs.replace(NO_FOLD, notes=asked.notes)
        if why := self._passed(call, route, asked.mode):
            return unfolded(asked.mode.value, why)
        if asked.mode is Mode.NATIVE:
            return native(call, route, setting, is_dry=asked.is_dry)
        there = way(route, call.model, self._now(), call.endpoint)
        task = Task(
            call=call,
            policy=policy(asked, setting, there, route.window),
            is_dry=asked.is_dry,
            share=self._share,
            secret=self._store.secret,
        )
        return await self._made(task, there)

    def refused(self, call: Call) -> None:
        """Leave a feature alone for a while: an upstream took its call only as it came."""
        self._resting.put((call.key.team, call.feature), self._now() + _REST)
        _log.error(
            "An upstream refused a folded conversation of feature %r and took it as it came:"
            " compaction leaves the feature alone for %d s",
            call.feature,
            _REST,
        )

    def settled(self, receipt: Receipt) -> None:
        """Count what became of a call, and judge its feature by it."""
        if is_noting(receipt.feature):
            self._proofs.charge(receipt)
        if not receipt.final or not (receipt.folded or receipt.needed):
            return
        place = (receipt.team, receipt.feature)
        setting = self._store.foldboard.chosen.of(*place)
        mode = setting.in_force(self._default)
        if receipt.compaction != mode.value or place in self._stepping:
            return
        self._proofs.add(receipt)
        sums = self._proofs.sums(place, self._now(), setting.measured_from)
        gentler = stepped(mode, Evidence(needed=sums.needed, lost=sums.lost))
        if gentler is not mode:
            self._stepping.add(place)
            self._tasks.start(partial(self._step_back, place, mode, gentler, sums))
        elif sums.folded >= _ENOUGH and sums.tokens > 0 and sums.nanos < 0:
            self._say(dearer(place, sums, self._now()))

    def close(self) -> None:
        """Stop folding; what waits is dropped."""
        self._desk.shutdown(wait=False, cancel_futures=True)

    async def _made(self, task: Task, there: Way) -> Fold:
        """What is made of the call in time, or why nothing is."""
        mode, call_id = task.policy.mode, task.call.id
        try:
            async with asyncio.timeout(_DEADLINE):
                found = await self._run(task)
            return self._noted(task, found, there)
        except Unfoldable as error:
            return _left(mode, str(error))
        except Unplannable:
            why = "unreadable"
        except TimeoutError:
            _log.warning("Folding took too long on call %s; it goes as it came", call_id)
            why = "late"
        except Exception:  # noqa: BLE001 - an optimiser's mistake must not cost the call
            _log.exception("Folding failed on call %s; it goes as it came", call_id)
            why = "failed"
        return unfolded(mode.value, why)

    def _passed(self, call: Call, route: Route, mode: Mode) -> str:
        """Why a call is not folded, whatever it holds; "" where it is looked at."""
        if (self._resting.peek((call.key.team, call.feature)) or 0.0) > self._now():
            return "refused"
        if len(call.body) > _HUGE:
            return "too_large"
        return "thinks" if mode is not Mode.NATIVE and thinks(call.body, route) else ""

    async def _run(self, task: Task) -> Made:
        """The call, folded: here where it is short and asks no store, else in the thread."""
        is_quick = len(task.call.body) < _LARGE and task.policy.mode is not Mode.FACTS_MODEL
        if is_quick and self._lock.acquire(blocking=False):
            try:
                return made(task, self.fold, self._memory)
            finally:
                self._lock.release()
        if self._waiting >= _WAITING:
            raise Unfoldable("busy")
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._desk, self._locked, task)
        finally:
            self._waiting -= 1

    def _locked(self, task: Task) -> Made:
        with self._lock:
            return made(task, self.fold, self._memory)

    def _noted(self, task: Task, found: Made, there: Way) -> Fold:
        """What was made, with what is known of how the conversation was sent before."""
        if self._notebook is not None and found.news is not None:
            self._notebook.wanted(task.call, found.news)
        kept, name = found.fold, found.conversation
        if not name:
            return kept
        before, now = self._talks.peek(name), self._now()
        by = task.policy if kept.is_folded or not (task.is_dry or kept.why == "control") else None
        self._talks.put(name, _Sent(by, kept.is_folded, now))
        if before is None:
            return kept
        lives = max(there.regime.lifetimes.values(), default=now)  # nobody knows: for ever
        kept = msgspec.structs.replace(kept, is_warm=now - before.at <= lives)
        moved = before.policy != by and (before.is_folded or kept.is_folded)
        return _moved(kept) if moved and not kept.reset else kept

    async def _step_back(self, place: Place, mode: Mode, to: Mode, sums: Sums) -> None:
        """Have the feature compacted more gently everywhere, and people told."""
        why = f"{sums.lost:,} of {sums.needed:,} values that tool calls needed were folded away"
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


def _left(mode: Mode, why: str) -> Fold:
    """A conversation that goes as it came; what is no code is said in a note."""
    if why.isidentifier():
        return unfolded(mode.value, why)
    said = f"the conversation was not compacted: {why[:_WORDS]}"
    return Fold(mode=mode.value, why="unfoldable", notes=(said,))


def _moved(kept: Fold) -> Fold:
    """A fold whose prompt begins otherwise than it did before, for another reason than a fold."""
    sent = kept.sent
    if sent is not None and sent.origin is not None:
        origin = msgspec.structs.replace(sent.origin, reset=True)
        sent = msgspec.structs.replace(sent, origin=origin)
    return msgspec.structs.replace(kept, reset=True, sent=sent)
