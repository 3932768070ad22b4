# ruff: noqa: T201 - a script prints its result
"""Costs of recorded conversations with their real texts compacted, beside simpler policies.

never: Sent unmodified.
trim: Tool results are said shorter, nothing else, at the route's own prices.
ours: Compacted by rules where the gate finds that it pays, at the route's own prices.
recall: The same with the recall tool; of the calls that it has something for, ``--recalls`` say
    which part makes one, of 1,000 tokens.
always: At every call all but the last three turns is compacted anew.
window: Compacted when the prompt passes 80 % of a window, all but the last three turns, as agents'
    own compaction does; *+ model* with what a small model takes to read it and to write as much.

Every call goes through ``compaction.compact``, as the gateway calls it, then through the gateway's
model of the route's cache at its recorded time, and is priced by the catalog. Where a cache takes
marks they stand behind the system text, behind the segments, and at the end of this prompt and the
one before. Caches are shown o200k's tokens, of long conversations one for eight. Answers are the
same under all and priced with the rest.

Usage: python -m tests.bench.compaction_costs [SET …] [--model ID …] [--safety N …]
    [--only POLICY …] [--recalls SHARE]
"""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Final

import orjson

from compaction import cost_model
from compaction.compact import CompactedChat, ConversationContext, compact
from compaction.memory import CompactionMemory
from compaction.policy import CompactionMode, CompactionPolicy
from compaction.reading.chat_validation import chat_faults
from compaction.reading.message import CannotCompactError
from compaction.reading.vocabulary import Tokenizer
from compaction.recall.tool_index import TOOL
from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.caches.regimes import build_cache
from slo.price import call_cost
from slo.usage import Usage
from tests.bench.compaction_policies import (
    PricedRoute,
    SessionResult,
    SetResult,
    list_cost,
    priced_route,
)
from tests.bench.compaction_recordings import RECORDINGS, RecordedConversation
from tests.fakes.dialogue import words

ROUTES: Final = (
    "claude-sonnet-5-5",
    "claude-opus-5-5",
    "gpt-5.6-terra",
    "gpt-5.5",
    "gemini-4-argon",
    "deepseek-v4-pro",
    "vllm-own",
)
#: Writes summaries, in the last column.
SMALL: Final = "gpt-5.4-nano"
NOW: Final = datetime(2026, 11, 22, tzinfo=UTC)
_WINDOWS: Final = {"200k": 160_000, "64k": 51_200}  # 80 % of each
_ASKED: Final = " + model"
#: The gateway's own ways, which hang on prices.
_PRICED: Final = {
    "trim": CompactionMode.TRIM,
    "ours": CompactionMode.FACTS,
    "recall": CompactionMode.FACTS_RECALL,
}
#: Tokens of a recall's answer, and of the call that asks for it.
_RECALLED: Final = 1_000
_RECALL_CALL: Final = 40
#: Around a message.
_FRAME: Final = 4


@dataclass(frozen=True, kw_only=True)
class SentRequest:
    """The request of one call.

    Attributes:
        messages: In place of the caller's.
        segments: Messages up to the end of the last segment; 0 for none.
        reset: Whether this call moves the prefix.
        asked: Tokens that a small model read for it, and wrote.
        has_tool: Whether the recall tool is in it.
        recalls: Whether the model recalls something in it.
    """

    messages: Sequence[bytes]
    segments: int = 0
    reset: bool = False
    asked: tuple[int, int] = (0, 0)
    has_tool: bool = False
    recalls: bool = False


class Ids:
    """Token ids by message: equal messages have equal ids, others have others."""

    def __init__(self) -> None:
        self._encode = Tokenizer("o200k_base").encode
        self._known: dict[bytes, tuple[int, ...]] = {}
        self._next = 0

    def of(self, raw: bytes) -> tuple[int, ...]:
        """A message's."""
        numbers = self._known.get(raw)
        if numbers is None:
            text = words(orjson.loads(raw)) if raw.startswith(b"{") else raw.decode()
            numbers = self._known[raw] = self.new(len(self._encode(text)) + _FRAME)
        return numbers

    def new(self, tokens: int) -> tuple[int, ...]:
        """So many that no message has."""
        first, self._next = self._next, self._next + tokens
        return tuple(range(first, self._next))

    def count(self, raws: Sequence[bytes]) -> int:
        """Tokens of some messages."""
        return sum(len(self.of(raw)) for raw in raws)


Sends = Callable[[RecordedConversation], Iterator[SentRequest]]


def never(talk: RecordedConversation) -> Iterator[SentRequest]:
    """Each call unmodified."""
    return (SentRequest(messages=talk.raws[: ask.end]) for ask in talk.asks)


def by(policy: CompactionPolicy, talk: RecordedConversation) -> Iterator[SentRequest]:
    """Each call as the gateway sends it under a policy."""
    memory, fixed = CompactionMemory(), len(talk.tools) // 4
    for ask in talk.asks:
        raws = talk.raws[: ask.end]
        made = _made(raws, policy, memory, fixed)
        yield SentRequest(messages=raws) if made is None else _as_sent(made)


def at_window(most: int, ids: Ids, talk: RecordedConversation) -> Iterator[SentRequest]:
    """Each call, compacted whenever what would be sent passes so many tokens."""
    policy, fixed = CompactionPolicy(force=True, once=True), ids.count([talk.tools])
    base, compacted_to, segments = list[bytes](), 0, 0
    for ask in talk.asks:
        raws = talk.raws[: ask.end]
        messages = [*base, *raws[compacted_to:]]
        came = fixed + ids.count(messages)
        made = _made(raws, policy, CompactionMemory(), fixed) if came > most else None
        if made is None or ids.count(made.messages) > most:
            yield SentRequest(messages=messages, segments=segments)
            continue
        base, compacted_to, segments = list(made.messages), ask.end, _as_sent(made).segments
        wrote = ids.count([segment.text.encode() for segment in made.segments])
        yield SentRequest(messages=base, segments=segments, reset=True, asked=(came, wrote))


def _made(
    raws: Sequence[bytes], policy: CompactionPolicy, memory: CompactionMemory, fixed: int
) -> CompactedChat | None:
    """The messages sent in place of these; None where they go unmodified."""
    try:
        made = compact(raws, policy, memory=memory, context=ConversationContext(fixed=fixed))
    except CannotCompactError:
        return None
    longer = made.tokens_after > made.tokens_before
    return None if not made.changed or longer or chat_faults(made.messages, raws) else made


def _as_sent(made: CompactedChat) -> SentRequest:
    summaries = {b'{"role":"user","content":' + orjson.dumps(s.text) + b"}" for s in made.segments}
    last = max(
        (index + 1 for index, raw in enumerate(made.messages) if raw in summaries), default=0
    )
    has_tool = made.removed is not None
    return SentRequest(messages=made.messages, segments=last, reset=made.reset, has_tool=has_tool)


def with_recalls(sends: Sequence[SentRequest], share: float) -> list[SentRequest]:
    """The requests of which this part of those with the tool recalls, evenly spread."""
    having = [index for index, sent in enumerate(sends) if sent.has_tool]
    chosen = {index for n, index in enumerate(having) if int((n + 1) * share) > int(n * share)}
    return [replace(sent, recalls=index in chosen) for index, sent in enumerate(sends)]


def play(
    talk: RecordedConversation, sends: Sequence[SentRequest], here: PricedRoute, ids: Ids
) -> SessionResult:
    """The cost of a conversation on a route, sent so."""
    route = here.route
    least = route.min_cache_tokens
    held = build_cache(route.regime, provider=route.upstream.provider, min_tokens=least)
    total, before = 0, 0
    for ask, sent in zip(talk.asks, sends, strict=True):
        prompt = _prompt(talk, sent, ask.end - before, here, ids)
        served = held.serve(prompt, ask.at)
        answer = talk.raws[ask.end : ask.end + 1]
        held.begin_answer(prompt, ask.at + ask.took / 2)
        held.finish_answer(prompt, ids.of(answer[0]) if answer else (), ask.at + ask.took)
        total += list_cost(served, ids.count(answer), here)
        if sent.recalls:
            again = held.serve(_prompt_after_recall(prompt, ids, here), ask.at + ask.took)
            total += list_cost(again, _RECALL_CALL, here)
        before = ask.end
    return SessionResult(
        nanos=total,
        compactions=sum(sent.reset for sent in sends),
        tokens=sum(ids.count(sent.messages) for sent in sends),
    )


def _prompt_after_recall(prompt: CachedPrompt, ids: Ids, here: PricedRoute) -> CachedPrompt:
    """The prompt of the round after a recall."""
    block = TokenBlock(
        role="user",
        tokens=ids.new(_RECALL_CALL + _RECALLED),
        message=prompt.blocks[-1].message + 1,
        mark=here.ttl,
    )
    return replace(prompt, blocks=(*prompt.blocks, block))


def price_of_notes(sends: Sequence[SentRequest], small: PricedRoute) -> int:
    """The price of a small model's notes for these compactions, in nano-dollars."""
    read, wrote = (sum(sent.asked[n] for sent in sends) for n in (0, 1))
    cost = call_cost(Usage(input=read, output=wrote), small.tariff, small.at)
    assert cost is not None
    return cost.list_nanos


def _prompt(
    talk: RecordedConversation, sent: SentRequest, new: int, here: PricedRoute, ids: Ids
) -> CachedPrompt:
    """The prompt as the cache sees it, marked."""
    tools = [talk.tools] if talk.tools else []
    raws = [*tools, TOOL, *sent.messages] if sent.has_tool else [*tools, *sent.messages]
    shift = len(raws) - len(sent.messages)
    lead = shift
    while lead < len(raws) and raws[lead].startswith(b'{"role":"system"'):
        lead += 1
    last = len(raws) - 1
    marks = {lead - 1, sent.segments + shift - 1 if sent.segments else last, last - new, last}
    return CachedPrompt(
        blocks=tuple(
            TokenBlock(
                role="system" if index < lead else "user",
                tokens=ids.of(raw),
                message=index,
                mark=here.ttl if index in marks else None,
            )
            for index, raw in enumerate(raws)
        )
    )


@dataclass
class Bench:
    """All policies; what does not hang on prices is compacted once."""

    ids: Ids = field(default_factory=Ids)
    small: PricedRoute = field(default_factory=lambda: priced_route(SMALL, NOW))
    recalls: float = 0.0
    _kept: dict[tuple[str, str], list[SentRequest]] = field(default_factory=dict)

    def row(
        self, talks: Sequence[RecordedConversation], here: PricedRoute, names: Sequence[str]
    ) -> SetResult:
        """A set on a route."""
        result = SetResult()
        for talk in talks:
            result.sessions += 1
            played = self._play(talk, here, names)
            for name, each in played.items():
                result.add(name, each, played["never"])
        return result

    def _play(
        self, talk: RecordedConversation, here: PricedRoute, names: Sequence[str]
    ) -> Mapping[str, SessionResult]:
        """Every policy; what is sent alike is played once."""
        played: dict[str, SessionResult] = {}
        pairs: list[tuple[list[SentRequest], SessionResult]] = []
        for name in names:
            sends = self._sends(name.removesuffix(_ASKED), talk, here)
            made = next((made for them, made in pairs if _alike(them, sends)), None)
            if made is None:
                made = play(talk, sends, here, self.ids)
                pairs.append((sends, made))
            more = price_of_notes(sends, self.small) if name.endswith(_ASKED) else 0
            played[name] = replace(made, nanos=made.nanos + more)
        return played

    def _sends(self, name: str, talk: RecordedConversation, here: PricedRoute) -> list[SentRequest]:
        """The messages that each call sends under a policy."""
        if name in _PRICED:
            return with_recalls(list(by(ours(here, _PRICED[name]), talk)), self.recalls)
        key = (name, talk.name)
        if key not in self._kept:
            self._kept[key] = list(self._others[name](talk))
        return self._kept[key]

    @property
    def _others(self) -> Mapping[str, Sends]:
        windows = {size: partial(at_window, most, self.ids) for size, most in _WINDOWS.items()}
        return {
            "never": never,
            "always": partial(by, CompactionPolicy(force=True, once=True)),
            **windows,
        }


def _alike(one: Sequence[SentRequest], other: Sequence[SentRequest]) -> bool:
    """True if the same is sent; where one had compacted, so has the other."""
    return all(
        a.reset == b.reset and a.has_tool == b.has_tool and a.messages == b.messages
        for a, b in zip(one, other, strict=True)
    )


def ours(here: PricedRoute, mode: CompactionMode = CompactionMode.FACTS) -> CompactionPolicy:
    """The gateway's own policy on a route."""
    return CompactionPolicy(mode=mode, prices=here.prices, window=here.route.window or 0)


NAMES: Final = ("never", "trim", "ours", "always", "200k", "64k", f"64k{_ASKED}")


def main() -> None:
    """Print a table for the sets on the routes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("sets", nargs="*", default=tuple(RECORDINGS))
    parser.add_argument("--model", nargs="*", default=ROUTES)
    parser.add_argument("--safety", nargs="*", type=float, default=(cost_model.SAFETY_FACTOR,))
    parser.add_argument("--only", nargs="*", default=NAMES)
    parser.add_argument("--recalls", type=float, default=0.0)
    given = parser.parse_args()
    if unknown := set(given.sets) - set(RECORDINGS):
        parser.error(
            f"no such set: {', '.join(sorted(unknown))}; there are: {', '.join(RECORDINGS)}"
        )
    heads = ["set", "route", "safety", "sessions", "compacted", "dearer", "dearest", "cents"]
    heads += ["costlier"]
    heads += [*given.only, *(f"{name}, tokens" for name in given.only if name in _PRICED)]
    print(f"| {' | '.join(heads)} |\n|---|---|{'--:|' * (len(heads) - 2)}")
    for name in given.sets:
        talks, bench = list(RECORDINGS[name]()), Bench(recalls=given.recalls)
        for route, safety in product(given.model, given.safety):
            cost_model.SAFETY_FACTOR = safety  # type: ignore[misc]
            result = bench.row(talks, priced_route(route, NOW), given.only)
            print(f"| {name} | {route} | {safety:g} | {_line(result, given.only)} |", flush=True)


def _line(result: SetResult, names: Sequence[str]) -> str:
    worst = result.worst.get("ours", 0.0)
    cells = [
        str(result.sessions),
        str(result.compacted.get("ours", 0)),
        str(result.dearer.get("ours", 0)),
        f"{100 * worst - 100:+.1f} %" if worst else "",
        f"{result.most_nanos.get('ours', 0) / 1e7:.2f}",
        str(result.costlier.get("ours", 0)),
        *(f"{result.nanos[name] / 1e9:.3f}" for name in names),
        *(
            f"{100 * result.tokens[name] / result.tokens['never'] - 100:+.1f} %"
            for name in names
            if name in _PRICED
        ),
    ]
    return " | ".join(cells)


if __name__ == "__main__":
    main()
