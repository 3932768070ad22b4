"""Warms replicas while they are idle: system prompts after a start, and expected next turns.

::

    calls ── note_sent, note_turn ─► prompts that are used · turns that have ended
    a replica becomes ready ─► its model's system prompts ─┐
    a turn has ended ─► the next one as far as it is known ┴─► jobs ─ idle? budget? ─► one call
    a call is sent to the replica ─► its warming ends at once

Prompts are kept in memory alone, and no longer than they are used.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from proxy.calls.deadlines import ClientDisconnected
from proxy.calls.metering.finished_turn import FinishedTurn
from proxy.calls.ports import BackgroundTaskGroup
from proxy.engines.profiles import Engine, EngineProfile, WarmingSettings
from proxy.engines.warming.accounts import (
    TokenBudget,
    WarmingAccounts,
    WarmingKind,
    WarmingResult,
)
from proxy.engines.warming.prefix_usage import PrefixUsage
from proxy.engines.warming.prompts import next_turn, system_prompt
from proxy.errors import CallerError, ProxyError
from proxy.records.call import Call
from proxy.records.receipt import Outcome, Receipt
from proxy.services.engines.replica_monitor import ReplicaStatus
from proxy.services.engines.warming.warming_calls import WarmingSender, call_of_its_own
from proxy.services.engines.warming.warming_state import (
    MAX_JOBS,
    CallNames,
    WarmedPrompt,
    WarmedReplica,
    WarmingJob,
    conversation_key,
    owned_key,
)

_log = logging.getLogger("thriftgate.engines")

#: Seconds after a turn's end before the next one is warmed: agents go on at once.
SETTLE_S: Final = 0.05
#: Seconds between two looks whether a replica is idle.
_IDLE_POLL_S: Final = 0.05
#: Seconds that a turn, and a system prompt after a start, may wait for an idle replica.
_NEXT_TURN_WAIT_S: Final = 30.0
_SYSTEM_PROMPT_WAIT_S: Final = 120.0
#: Statuses from this one on say that the engine is at fault, and not the prompt.
_SERVER_ERROR: Final = 500
#: Bytes of a token, for budgets; receipts correct them.
_BYTES_PER_TOKEN: Final = 4
#: llama.cpp's slots where a profile names none; each slot holds one prompt.
_USUAL_SLOTS: Final = 4


WarmedListener = Callable[[ReplicaStatus, Call, WarmingKind, int], Awaitable[None]]


class ReplicaWarming:
    """Warms the replicas of profiles that ask for it.

    Attributes:
        send: Sends warming calls; until there is one, nothing is warmed.
        is_idle: Returns True if no call is at a replica.
        on_warmed: Is told of each prompt that a replica has read, its kind, and the tokens that
            were computed for it.
        prompts: Uses of system prompts, by the name that engines serve the model under.
    """

    def __init__(
        self,
        tasks: BackgroundTaskGroup,
        ticks: Callable[[], float],
        now: Callable[[], float],
        call_id: Callable[[float], str],
    ) -> None:
        self.accounts = WarmingAccounts()
        self.send: WarmingSender | None = None
        self.is_idle: Callable[[ReplicaStatus], bool] = lambda status: False
        self.on_warmed: WarmedListener | None = None
        self.ticks = ticks
        self._tasks = tasks
        self._now = now
        self._call_id = call_id
        self._profiles: dict[str, EngineProfile] = {}
        self._budgets: dict[str, TokenBudget] = {}
        self._statuses: dict[str, ReplicaStatus] = {}
        self._places: dict[str, WarmedReplica] = {}
        self.prompts: dict[str, PrefixUsage[WarmedPrompt]] = {}

    def update(self, profiles: Mapping[str, EngineProfile]) -> None:
        """Warm the replicas of these profiles from now on; what is known of the others goes."""
        warmed = {
            name: profile for name, profile in profiles.items() if profile.warming is not None
        }
        self._profiles = warmed
        self._budgets = {name: self._budget(profile) for name, profile in warmed.items()}
        self._statuses = {n: s for n, s in self._statuses.items() if s.profile in warmed}
        self._places = {name: self._places[name] for name in self._statuses}
        models = {profile.served_name for profile in warmed.values()}
        self.prompts = {name: usage for name, usage in self.prompts.items() if name in models}

    def note_reading(self, status: ReplicaStatus) -> None:
        """Have system prompts warmed where a replica was started since the last reading."""
        settings = self._settings(status.profile)
        if settings is None:
            return
        self._statuses[status.name] = status
        place = self._places.get(status.name)
        if place is not None and place.starts == status.starts:
            return
        self._places[status.name] = place = WarmedReplica(starts=status.starts)
        self._queue_system_prompts(place, status, settings)

    def note_sent(self, name: str, call: Call, conversation: str) -> CallNames | None:
        """Make way for a call; its names, None where nothing is warmed or it warms itself."""
        place = self._places.get(name)
        if place is None or call.is_unattended:
            return None
        if place.stop is not None:
            place.stop.set()
        prompt = system_prompt(call.body, call.endpoint)
        names = CallNames(
            conversation=conversation_key(call, conversation),
            prompt=b"" if prompt is None else owned_key(call, prompt.digest),
        )
        for job in [job for job in place.jobs if job.key == names.conversation]:
            place.jobs.remove(job)
        return names

    def is_warming(self, name: str) -> bool:
        """True if a replica reads something ahead now."""
        place = self._places.get(name)
        return place is not None and place.stop is not None

    def note_turn(self, name: str, turn: FinishedTurn, written: Call, names: CallNames) -> None:
        """Learn from a turn that has ended at a replica, and have the next one warmed.

        Args:
            turn: Its prompt as the model got it, and the answer.
            written: The call as its caller wrote it.
            names: Of its conversation and its system prompt.
        """
        place, status = self._places.get(name), self._statuses.get(name)
        settings = None if status is None else self._settings(status.profile)
        if place is None or status is None or settings is None:
            return
        if names.prompt:
            self._note_system_prompt(status, turn.call, written, names.prompt)
        key = names.conversation
        if key and settings.next_turn:
            until = self.ticks() + SETTLE_S + _NEXT_TURN_WAIT_S
            same_form = turn.call if written.endpoint == turn.call.endpoint else None
            job = WarmingJob(WarmingKind.NEXT_TURN, turn.call, same_form, key, 0, until, turn)
            self._add(place, status.name, job)

    def _settings(self, profile: str) -> WarmingSettings | None:
        warmed = self._profiles.get(profile)
        return None if warmed is None else warmed.warming

    def _budget(self, profile: EngineProfile) -> TokenBudget:
        """The profile's budget; the one that it has, unless its size has changed."""
        per_minute = profile.warming.tokens_per_minute if profile.warming is not None else 0
        had = self._budgets.get(profile.name)
        return had if had is not None and had.per_minute == per_minute else TokenBudget(per_minute)

    def _note_system_prompt(
        self, status: ReplicaStatus, sent: Call, written: Call, key: bytes
    ) -> None:
        """Count a use of a system prompt; what is kept of it is what the model got."""
        prompt = system_prompt(sent.body, sent.endpoint)
        if prompt is None:
            return
        own = call_of_its_own(sent, sent.id, prompt.body, sent.arrived)
        size, routed = len(prompt.body), own
        if sent.body is not written.body and (
            leading := system_prompt(written.body, written.endpoint)
        ):
            routed = call_of_its_own(written, written.id, leading.body, written.arrived)
            size += len(leading.body)
        uses = self.prompts.setdefault(status.model, PrefixUsage())
        uses.note(key, WarmedPrompt(own, routed), size, self.ticks())

    def _queue_system_prompts(
        self, place: WarmedReplica, status: ReplicaStatus, settings: WarmingSettings
    ) -> None:
        uses = self.prompts.get(status.model)
        if uses is None:
            return
        now, profile = self.ticks(), self._profiles[status.profile]
        count = settings.system_prompts
        if profile.engine is Engine.LLAMACPP:  # more would push each other out of its slots
            count = min(count, profile.max_sequences or _USUAL_SLOTS)
        until = now + _SYSTEM_PROMPT_WAIT_S
        for digest, prompt in reversed(uses.most_used(min(count, MAX_JOBS), now)):
            tokens = len(prompt.sent.body) // _BYTES_PER_TOKEN
            job = WarmingJob(WarmingKind.SYSTEM_PROMPT, *prompt, digest, tokens, until)
            self._add(place, status.name, job)

    def _add(self, place: WarmedReplica, name: str, job: WarmingJob) -> None:
        place.jobs.append(job)
        if not place.is_working and self.send is not None:
            place.is_working = True
            self._tasks.start(lambda: self._work(place, name))

    async def _work(self, place: WarmedReplica, name: str) -> None:
        """Warm what waits at a replica, the newest first, one after the other."""
        try:
            await asyncio.sleep(SETTLE_S)
            while place.jobs:
                job = place.jobs.pop()
                status = await self._wait_until_idle(place, name, job)
                if status is not None:
                    result = await self._run(place, status, job)
                    self.accounts.results[status.profile, job.kind, result] += 1
        finally:
            place.is_working = False

    async def _wait_until_idle(
        self, place: WarmedReplica, name: str, job: WarmingJob
    ) -> ReplicaStatus | None:
        """The replica once it is idle; None if it is not in time, or was started anew."""
        while self._places.get(name) is place:
            status = self._statuses[name]
            if self.is_idle(status):
                return status
            if self.ticks() > job.until:
                self.accounts.results[status.profile, job.kind, WarmingResult.BUSY] += 1
                return None
            await asyncio.sleep(_IDLE_POLL_S)
        return None

    async def _run(
        self, place: WarmedReplica, status: ReplicaStatus, job: WarmingJob
    ) -> WarmingResult:
        """Warm one prompt, until a call comes."""
        place.stop = stop = asyncio.Event()
        try:
            body, tokens = await self._prompt_of(job)
            budget = self._budgets.get(status.profile)
            if not body or stop.is_set():
                return WarmingResult.CANCELLED if body else WarmingResult.FAILED
            if budget is None or not budget.take(tokens, self.ticks()):
                return WarmingResult.OVER_BUDGET
            receipt, result = await self._send(place, status, job, body)
            used = self._note_cost(status, job, receipt)
            budget.correct(tokens, tokens if used is None else used)
        finally:
            place.stop = None
        return result

    async def _prompt_of(self, job: WarmingJob) -> tuple[bytes, int]:
        """The body that is sent, and the tokens that it will compute as a guess; b"" for none."""
        if job.turn is None:
            return job.template.body, job.tokens
        return await asyncio.to_thread(_next_turn_prompt, job.turn)

    async def _send(
        self, place: WarmedReplica, status: ReplicaStatus, job: WarmingJob, body: bytes
    ) -> tuple[Receipt | None, WarmingResult]:
        """Send a prompt; its receipt, as far as there is one, and how it fared."""
        now = self._now()
        call = call_of_its_own(job.template, self._call_id(now), body, now)
        assert self.send is not None  # noqa: S101 - without it there are no jobs
        assert place.stop is not None  # noqa: S101 - it is set while a job runs
        try:
            receipt = await self.send(status, call, place.stop)
        except ClientDisconnected:
            return None, WarmingResult.CANCELLED
        except CallerError as error:
            _log.debug("A prompt was not warmed at %s: %s", status.name, error.message)
            return None, WarmingResult.REFUSED
        except (ProxyError, TimeoutError) as error:
            if not isinstance(error, ProxyError) or error.status >= _SERVER_ERROR:
                place.jobs.clear()  # it would fail at the others, too
            _log.debug("A prompt was not warmed at %s: %r", status.name, error)
            return None, WarmingResult.FAILED
        if receipt is None or receipt.outcome is not Outcome.ANSWERED:
            return receipt, WarmingResult.FAILED
        if self.on_warmed is not None and job.written is not None:
            routed = call if job.turn is not None else job.written
            await self.on_warmed(status, routed, job.kind, _computed_tokens(receipt) or 0)
        return receipt, WarmingResult.WARMED

    def _note_cost(
        self, status: ReplicaStatus, job: WarmingJob, receipt: Receipt | None
    ) -> int | None:
        """Count what a warming cost; returns the tokens that it computed, None where unknown."""
        if receipt is None:
            return None
        key = status.profile, job.kind
        self.accounts.nanos[key] += receipt.cost_nanos or 0
        used = _computed_tokens(receipt)
        self.accounts.tokens[key] += used or 0
        return used


def _computed_tokens(receipt: Receipt) -> int | None:
    """Prompt tokens that the engine computed for a call; None where it does not say."""
    usage = receipt.usage
    return None if usage is None else usage.prompt_tokens - usage.cache_read


def _next_turn_prompt(turn: FinishedTurn) -> tuple[bytes, int]:
    """The body of the turn to come, and the tokens of the answer before it; b"" for none."""
    answer = turn.answer()
    call = turn.call
    body = None if answer is None else next_turn(call.body, answer, call.endpoint)
    if answer is None or body is None:
        return b"", 0
    return body, len(answer) // _BYTES_PER_TOKEN + 1
