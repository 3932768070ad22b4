"""System prompts over a restart: whose are kept, and under which key they come back."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import orjson

from proxy.engines.system_prompt_file import MAX_AGE_S, KeptPrompt, SystemPromptFile
from proxy.engines.warming.prefix_usage import PrefixUsage
from proxy.engines.warming.prompts import system_prompt
from proxy.records.call import Call, Key
from proxy.services.engines.kept_prompts import WRITE_INTERVAL_S, PromptKeeper
from proxy.services.engines.warming_state import WarmedPrompt, owned_key
from tests.fakes.call_dependencies import call
from tests.fakes.virtual_clock import run_in_virtual_time

MODELS = frozenset({"m"})
KEEPS = Key(id="key_1", team="team_1", team_name="acme", keeps_prompts=True)


def chat(system: str = "Be kind.") -> Call:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": "Hello"}]
    return call(json.dumps({"model": "m", "messages": messages}).encode())


class PromptKeepingGateway:
    """One run of a gateway, as far as it keeps prompts.

    Args:
        keys: Its keys.
        now: Seconds since the epoch when it starts.
        salt: Salt of its teams.
    """

    def __init__(self, *keys: Key, now: float = 1_790_000_000.0, salt: str = "") -> None:
        self.uses: dict[str, PrefixUsage[WarmedPrompt]] = {}
        self.ticks, self._began = 50.0, now - 50.0
        self._salt = salt
        known = {each.id.encode(): each for each in keys}
        self.keeper = PromptKeeper(
            lambda: self.uses, lambda: known, self._add_salt, lambda: self.ticks, self.now
        )

    def now(self) -> float:
        return self._began + self.ticks

    def serve(self, asked: Call, key: Key, times: int = 2) -> None:
        """Serve calls with one system prompt."""
        asked = self._add_salt(msgspec.structs.replace(asked, key=key))
        found = system_prompt(asked.body, asked.endpoint)
        assert found is not None
        own = msgspec.structs.replace(asked, body=found.body)
        uses = self.uses.setdefault("m", PrefixUsage())
        for _ in range(times):
            uses.note(
                owned_key(asked, found.digest), WarmedPrompt(own, own), len(own.body), self.ticks
            )

    def _add_salt(self, asked: Call) -> Call:
        return msgspec.structs.replace(asked, salt=self._salt)

    @property
    def systems(self) -> list[str]:
        """The system prompts that would be warmed, the most used one first."""
        uses = self.uses.get("m", PrefixUsage[WarmedPrompt]())
        return [
            orjson.loads(prompt.sent.body)["messages"][0]["content"]
            for _, prompt in uses.most_used(99, self.ticks)
        ]


def test_prompts_of_a_team_that_keeps_prompts_come_back_in_the_order_of_their_use(tmp_path: Path):
    first = PromptKeepingGateway(KEEPS)
    first.serve(chat("Rare."), KEEPS)
    first.serve(chat("Often."), KEEPS, times=5)
    first.serve(chat("Once."), KEEPS, times=1)
    SystemPromptFile(tmp_path).write(first.keeper.kept_prompts())

    later = PromptKeepingGateway(KEEPS, now=first.now() + 600.0)
    later.keeper.restore(SystemPromptFile(tmp_path).read(later.now()), MODELS)

    assert later.systems == ["Often.", "Rare."]
    later.serve(chat("Rare."), KEEPS, times=9)
    assert later.systems == ["Rare.", "Often."]


def prompts_after_restart(kept_by: Key, *keys: Key, **later: Any) -> list[str]:
    """Prompts after a restart with other keys."""
    first = PromptKeepingGateway(kept_by)
    first.serve(chat(), kept_by)
    second = PromptKeepingGateway(*keys, **later)
    second.keeper.restore(first.keeper.kept_prompts(), MODELS)
    return second.systems


def test_a_team_that_keeps_no_prompts_has_none_kept():
    plain = msgspec.structs.replace(KEEPS, keeps_prompts=False)

    assert prompts_after_restart(plain, plain) == []
    assert prompts_after_restart(KEEPS, plain) == []
    assert prompts_after_restart(KEEPS, KEEPS) == ["Be kind."]


def test_a_key_that_opens_nothing_any_more_or_is_another_teams_brings_none_back():
    for change in ({"revoked": True}, {"expires": 1.0}, {"team": "team_2"}, {"id": "key_2"}):
        assert prompts_after_restart(KEEPS, msgspec.structs.replace(KEEPS, **change)) == []


def test_a_prompt_comes_back_with_the_salt_that_its_team_has_now():
    first = PromptKeepingGateway(KEEPS)
    first.serve(chat(), KEEPS)
    second = PromptKeepingGateway(KEEPS, salt="of team_1")
    second.keeper.restore(first.keeper.kept_prompts(), MODELS)
    second.serve(chat(), KEEPS, times=1)
    ((_, prompt),) = second.uses["m"].most_used(9, second.ticks)

    assert prompt.sent.salt == "of team_1"
    assert [each.calls for each in second.uses["m"].shared_uses(second.ticks)] == [3]


def test_a_model_that_is_warmed_no_more_and_a_day_without_use_bring_none_back():
    gateway = PromptKeepingGateway(KEEPS)
    gateway.serve(chat(), KEEPS)
    kept = gateway.keeper.kept_prompts()
    gateway.ticks += MAX_AGE_S + 1.0

    assert gateway.keeper.kept_prompts() == []
    other = PromptKeepingGateway(KEEPS)
    other.keeper.restore(kept, frozenset({"another"}))
    assert other.systems == []


def test_a_body_that_cannot_be_read_is_left_out():
    gateway = PromptKeepingGateway(KEEPS)
    gateway.serve(chat(), KEEPS)
    (kept,) = gateway.keeper.kept_prompts()
    other = PromptKeepingGateway(KEEPS)
    for body in (b"{", b"{}"):
        part = msgspec.structs.replace(kept.sent, body=body)
        other.keeper.restore([msgspec.structs.replace(kept, sent=part)], MODELS)

    assert other.systems == []


def test_the_file_is_written_every_minute(tmp_path: Path):
    class RecordingPromptFile(SystemPromptFile):
        """A file that says when it is written."""

        def write(self, prompts: Sequence[KeptPrompt]) -> None:
            super().write(prompts)
            written.append(len(prompts))

    written: list[int] = []

    async def story() -> tuple[list[int], list[int]]:
        gateway = PromptKeepingGateway(KEEPS)
        gateway.serve(chat(), KEEPS)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(gateway.keeper.run(RecordingPromptFile(tmp_path)))
            await asyncio.sleep(WRITE_INTERVAL_S - 1.0)
            early = list(written)
            await asyncio.sleep(WRITE_INTERVAL_S * 2)
            running.cancel()
        return early, written

    early, late = run_in_virtual_time(story)
    assert early == []
    assert late[0] == 1
    assert len(SystemPromptFile(tmp_path).read(1_790_000_000.0)) == 1
