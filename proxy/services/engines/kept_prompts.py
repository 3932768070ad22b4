"""Keeps the system prompts that are to be warmed over a restart of the gateway.

::

    uses ─ every minute, and at the end ─▶ system-prompts.json ─ start ─▶ uses ─▶ warming

A prompt is the property of its team: it is kept where the team keeps prompts, comes back under a
key of it that is still open, and with the salt that its calls have now.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from proxy.app_context import AppContext
from proxy.engines.system_prompt_file import (
    MAX_AGE_S,
    KeptPrompt,
    PromptBody,
    SystemPromptFile,
)
from proxy.engines.warming.prefix_usage import PrefixUsage, PromptUse
from proxy.engines.warming.prompts import system_prompt
from proxy.errors import CallerError
from proxy.prefix.prompts.fingerprints import Pseudonymizer
from proxy.providers.cache_isolation import add_cache_salt
from proxy.records.call import Call, Key
from proxy.records.request_fields import parse_request_fields
from proxy.services.engines.warming import ReplicaWarming
from proxy.services.engines.warming_state import WarmedPrompt, owned_key

#: Seconds between two writes.
WRITE_INTERVAL_S: Final = 60.0


class PromptKeeper:
    """Moves system prompts between their uses in memory and their file.

    Args:
        uses: Uses of system prompts by the served model; it is read and filled.
        keys: The keys there are now.
        add_salt: Adds to a call what keeps its team's cache apart.
        ticks: Seconds of the clock by which uses are counted.
        now: Seconds since the epoch.
    """

    def __init__(
        self,
        uses: Callable[[], dict[str, PrefixUsage[WarmedPrompt]]],
        keys: Callable[[], Mapping[bytes, Key]],
        add_salt: Callable[[Call], Call],
        ticks: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self._uses = uses
        self._keys = keys
        self._add_salt = add_salt
        self._ticks = ticks
        self._now = now

    async def run(self, file: SystemPromptFile) -> None:
        """Write them every minute, for ever."""
        while True:
            await asyncio.sleep(WRITE_INTERVAL_S)
            await asyncio.to_thread(file.write, self.kept_prompts())

    def kept_prompts(self) -> list[KeptPrompt]:
        """The prompts of teams that keep prompts and still have the key, the most used first."""
        keys = self._open_keys()
        found = [
            _kept_prompt(model, use, self._now() - (self._ticks() - use.at))
            for model, uses in self._uses().items()
            for use in uses.shared_uses(self._ticks())
            if use.prompt.sent.key.id in keys
        ]
        return [each for each in found if self._now() - each.used_at <= MAX_AGE_S]

    def restore(self, prompts: Sequence[KeptPrompt], models: frozenset[str]) -> None:
        """Take over prompts of an earlier process.

        Args:
            prompts: They.
            models: Names under which engines serve models that are warmed.
        """
        keys = self._open_keys()
        for kept in prompts:
            key = keys.get(kept.key)
            if kept.model not in models or key is None or key.team != kept.team:
                continue
            for prompt, digest in self._read_prompt(kept, key):
                uses = self._uses().setdefault(kept.model, PrefixUsage())
                at = self._ticks() - (self._now() - kept.used_at)
                use = PromptUse(prompt, kept.size, kept.calls, kept.weight, at)
                uses.restore(owned_key(prompt.asked, digest), use, self._ticks())

    def _open_keys(self) -> dict[str, Key]:
        """The keys by their ids that calls may come with, of teams that keep prompts."""
        now = self._now()
        return {
            key.id: key
            for key in self._keys().values()
            if key.keeps_prompts and not key.revoked and not key.has_expired(now)
        }

    def _read_prompt(self, kept: KeptPrompt, key: Key) -> Iterator[tuple[WarmedPrompt, bytes]]:
        """The prompt and its digest; nothing where it cannot be read."""
        try:
            sent = self._call(kept, key, kept.sent)
            asked = sent if kept.asked is None else self._call(kept, key, kept.asked)
        except CallerError:
            return
        found = system_prompt(asked.body, asked.endpoint)
        if found is not None:
            yield WarmedPrompt(sent, asked), found.digest

    def _call(self, kept: KeptPrompt, key: Key, part: PromptBody) -> Call:
        """The call with a body.

        Raises:
            CallerError: If it cannot be read.
        """
        return self._add_salt(
            Call(
                id="",
                key=key,
                method="POST",
                endpoint=part.endpoint,
                headers={"content-type": "application/json"},
                body=part.body,
                fields=parse_request_fields(part.body),
                feature=kept.feature,
                arrived=kept.used_at,
                regions=None if kept.regions is None else frozenset(kept.regions),
            )
        )


@asynccontextmanager
async def keeping_prompts(
    context: AppContext, warming: ReplicaWarming, ticks: Callable[[], float]
) -> AsyncIterator[None]:
    """A block in which system prompts are kept; those of the last process come first."""
    opened, now = context.opened, context.now
    keeper = PromptKeeper(
        lambda: warming.prompts,
        opened.keyring.cached_keys,
        partial(_with_salt, context),
        ticks,
        now,
    )
    file = SystemPromptFile(context.settings.folder)
    models = frozenset(e.served_name for e in context.engines.values() if e.warming is not None)
    keeper.restore(await asyncio.to_thread(file.read, now()), models)
    writing = context.tasks.keep(partial(keeper.run, file))
    try:
        yield
    finally:
        context.tasks.end(writing)
        file.write(keeper.kept_prompts())


def _with_salt(context: AppContext, call: Call) -> Call:
    """A call with the salt of its team, as calls get it."""
    if context.settings.shared_provider_state:
        return call
    opened = context.opened
    return add_cache_salt(call, opened.keyring.teams, Pseudonymizer(opened.secret))


def _kept_prompt(model: str, use: PromptUse[WarmedPrompt], used_at: float) -> KeptPrompt:
    sent, asked = use.prompt
    return KeptPrompt(
        model=model,
        team=sent.key.team,
        key=sent.key.id,
        feature=sent.feature,
        regions=None if sent.regions is None else tuple(sorted(sent.regions)),
        sent=PromptBody(sent.endpoint, sent.body),
        asked=None if asked is sent else PromptBody(asked.endpoint, asked.body),
        calls=use.calls,
        weight=use.weight,
        used_at=used_at,
    )
