# ruff: noqa: T201 - a script prints its result
"""Calls that begin at once and share a prefix: what is written and read of it, and who waits.

The callers mark their prefix as its provider wants it; what differs is whether the gateway holds
calls back until the first of them has written. Time is the machine's. Usage:
python -m tests.bench.prefix_fanout [--calls 20] [--sections 90]
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from proxy.records.feature_mode import PlanningMode
from slo.usage import Usage
from tests.fakes.handbook import handbook, question
from tests.fakes.prefix_harness import MODELS, PrefixHarness, prefix_harness

#: Regimes whose entries can be read once an answer begins, and how a prefix is marked there.
MARKS = {
    "anthropic-breakpoint": {"cache_control": {"type": "ephemeral"}},
    "openai-breakpoint": {"prompt_cache_breakpoint": {"mode": "explicit"}},
}
WAYS = {"as sent": PlanningMode.OFF, "held back": PlanningMode.OBSERVE}
Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Fan:
    """Results of calls that began at once.

    Attributes:
        charged: What the simulator charged for each, as they reached it.
        firsts: Seconds to each call's first content byte.
        notes: What the gateway noted of each.
        dollars: What all of them cost together.
    """

    charged: Sequence[Usage]
    firsts: Sequence[float]
    notes: Sequence[str]
    dollars: float

    @property
    def writers(self) -> int:
        """Calls that wrote most of their prompt."""
        return sum(2 * used.cache_write_tokens > used.prompt_tokens for used in self.charged)

    @property
    def calls_held_back(self) -> int:
        """Calls that were held back."""
        return sum("held back" in note for note in self.notes)


def pace(harness: PrefixHarness, seconds: float) -> None:
    """Let a simulated second take so many."""
    harness.lab.settings = replace(harness.lab.settings, time_scale=seconds)


def fan_out(harness: PrefixHarness, regime: str, way: str, calls: int, sections: int) -> Fan:
    """One conversation goes on in so many ways at once, after a call that shows the pace."""
    feature = f"{regime}/{way}/{calls}/{sections}"
    harness.turn()
    harness.plan(feature, WAYS[way])
    harness.lab.queue_directives(["words=5"] * (calls + 1))
    bodies = [_body(regime, handbook(sections, feature), str(index)) for index in range(calls)]
    _ask(harness, _body(regime, handbook(sections, f"{feature} before"), "first"), feature)
    before, alone = len(harness.lab.exchanges), harness.spend_by_feature()[feature].cost_nanos or 0
    with ThreadPoolExecutor(calls) as pool:
        answers = list(pool.map(lambda body: _ask(harness, body, feature), bodies))
    charged = [exchange.usage for exchange in harness.lab.exchanges][before:]
    return Fan(
        charged=[used for used in charged if used is not None],
        firsts=[first for first, _ in answers],
        notes=[note for _, note in answers],
        dollars=((harness.spend_by_feature()[feature].cost_nanos or 0) - alone) / 1e9,
    )


def _body(regime: str, rules: str, text: str) -> Json:
    marked = {"type": "text", "text": rules, **MARKS[regime]}
    return {
        "model": MODELS[regime],
        "stream": True,
        "messages": [
            {"role": "system", "content": [marked]},
            {"role": "user", "content": "I have a case for you."},
            {"role": "assistant", "content": "Tell me about it."},
            {"role": "user", "content": question(text)},
        ],
    }


def _ask(harness: PrefixHarness, body: Json, feature: str) -> tuple[float, str]:
    """Seconds to the first content byte of an answer, and the gateway's notes."""
    headers = {
        "authorization": f"Bearer {harness.key}",
        "content-type": "application/json",
        "x-thriftgate-feature": feature,
    }
    began, first = time.perf_counter(), None
    content = orjson.dumps(body)
    url = f"{harness.url}/chat/completions"
    with harness.client.stream("POST", url, content=content, headers=headers) as answer:
        for piece in answer.iter_bytes():
            if first is None and b'"content"' in piece:
                first = time.perf_counter() - began
        assert answer.status_code == 200
        assert first is not None
        return first, answer.headers.get("x-thriftgate-notes", "")


def main() -> None:
    """Print the table as markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--sections", type=int, default=90)
    options = parser.parse_args()
    print("| regime | way | prompt | wrote it | held back | read | written | $ | median TTFT s |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder, prefix_harness(Path(folder)) as harness:
        pace(harness, 1.0)
        for regime in MARKS:
            for way in WAYS:
                fan = fan_out(harness, regime, way, options.calls, options.sections)
                read = sum(used.cache_read for used in fan.charged)
                written = sum(used.cache_write_tokens for used in fan.charged)
                print(
                    f"| {regime} | {way} | {fan.charged[0].prompt_tokens:,} | {fan.writers} "
                    f"| {fan.calls_held_back} | {read:,} | {written:,} | {fan.dollars:.4f} "
                    f"| {median(fan.firsts):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
