# ruff: noqa: T201 - a script prints its result
"""The cost of recorded and made-up sets on Claude: without marks, with fixed ones, as planned.

Each figure is the prompts' dollars over those of the same calls without marks.
``fixed`` marks the end of the system text and the last two messages from the first call on;
``stop-loss`` does the same until that lost 1.2 times the dearest prompt's write fee; ``parted,
fixed`` does it on the parts that the gateway makes of long texts; ``planned`` is the gateway's
planning. Rows marked with * are not for tuning.

With ``--live`` agents' loops and mixed features go over HTTP to simulators: directly without marks
and with fixed ones; through a gateway without a control arm; and through one with default settings.

Usage: python -m tests.bench.marks [--only NAME] [--model claude-sonnet-5-5] [--calls 300]
       [--live]
"""

import argparse
import logging
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import orjson

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.prefix.prompts.marks import add_marks
from proxy.prefix.prompts.prompt import PromptSlot
from proxy.tools.replay.planning import PlannedVariant
from proxy.tools.replay.prompts import LineVocabulary, PromptReader
from proxy.tools.replay.recorded_call import RecordedCall
from proxy.tools.replay.run import replay
from proxy.tools.replay.variant_totals import VariantTotals, sum_of
from proxy.tools.simulator.upstream import Simulator
from slo.price import call_cost
from slo.usage import Usage
from tests.bench.marked_sets import MarkedSet, marked_sets
from tests.bench.no_harm_live import ComparedGateway, beside
from tests.bench.no_harm_replay import START, recorded_calls
from tests.bench.no_harm_routes import catalog
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.fakes.workloads import TimedCall, timed_calls

Json = dict[str, Any]
_DAY_S: Final = 86_400.0
_MARK: Final = {"cache_control": {"type": "ephemeral"}}
#: Write fees of the dearest prompt that fixed marks may lose before they are given up.
_STOP_FEES: Final = 1.2
#: Surcharge of a written token and gain of a read one, in fresh tokens.
_WRITE_FEE: Final = 0.25
_READ_GAIN: Final = 0.9


def with_fixed_marks(body: bytes) -> bytes:
    """The body with marks at the end of the system text and of the last two messages."""
    call: Json = orjson.loads(body)
    messages = call["messages"]
    system = [index for index, one in enumerate(messages) if one["role"] == "system"]
    for index in {*system[-1:], *range(max(0, len(messages) - 2), len(messages))}:
        messages[index] = _with_mark(messages[index])
    return orjson.dumps(call)


def _with_mark(message: Json) -> Json:
    content = message.get("content")
    if not content:
        return message
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return {**message, "content": [*parts[:-1], {**parts[-1], **_MARK}]}


class FixedMarks:
    """Marks at fixed places in every call, or until they lost too much.

    Args:
        stops: True if they are given up after a loss.
    """

    shortens = False

    def __init__(self, *, stops: bool = False) -> None:
        self.name = "stop-loss" if stops else "fixed"
        self._stops = stops
        self._balance = self._largest = 0.0

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The marked body; the line's own once marks are given up."""
        if self._stops and self._balance < -_STOP_FEES * _WRITE_FEE * self._largest:
            return line.body
        return with_fixed_marks(line.body)

    def record_answer(self, usage: Usage) -> None:
        """Count what the marks brought and cost, in fresh tokens."""
        self._largest = max(self._largest, usage.prompt_tokens)
        self._balance += _READ_GAIN * usage.cache_read - _WRITE_FEE * usage.cache_write_tokens


class PartedFixedMarks(PlannedVariant):
    """The planned prompt with marks at the end of the stable slot and of the last three blocks.

    From GPT-5.6 on the provider marks the last one by itself.
    """

    def __init__(self, reading: PromptReader, day: float) -> None:
        super().__init__(reading, day, arranges=False, names=False, stake=0.0)
        self.name = "parted, fixed"

    def body(self, line: RecordedCall, now: float) -> bytes:
        """The body with its marks; the line's own where it cannot be planned."""
        body, planned = super().body(line, now), self._planned
        if planned is None:
            return body
        sent = planned.evidence.sent
        stable = [index for index, one in enumerate(sent.blocks) if one.slot is PromptSlot.STABLE]
        end = len(sent.blocks) - (sent.regime.name == "openai-breakpoint")
        places = {*stable[-1:], *range(max(0, len(sent.blocks) - 3), end)}
        marks = [(sent.blocks[index], "") for index in sorted(places)]
        return add_marks(planned.prompt, marks, sent.regime).render()


def _variants(reading: PromptReader) -> Sequence[Any]:
    day = START // _DAY_S * _DAY_S
    fixed = FixedMarks(), FixedMarks(stops=True), PartedFixedMarks(reading, day)
    return *fixed, PlannedVariant(reading, day, arranges=False, names=False)


def row(marked: MarkedSet, model: Model) -> Sequence[VariantTotals]:
    """Cost of each way: direct, fixed, stop-loss, fixed on parts, planned."""
    reading = PromptReader(model, model.routes[0], LineVocabulary())
    calls = timed_calls(marked.workload, marked.rate, marked.calls)
    lines = (
        (now, msgspec.structs.replace(line, generated=0))
        for now, line in recorded_calls(marked.workload, calls, reading, is_native=False)
    )
    day = START // _DAY_S * _DAY_S
    return sum_of(replay(lines, reading, _variants(reading), day=day).features())


def _table_row(marked: MarkedSet, rows: Sequence[VariantTotals]) -> str:
    direct = rows[0].nanos or 1
    ratios = " | ".join(f"{(way.nanos or 0) / direct:.4f}" for way in rows[1:])
    extra = ((rows[-1].nanos or 0) - direct) / 1e9
    return f"| {_label(marked)} | {rows[0].calls} | {ratios} | {extra:+.4f} |"


def _label(marked: MarkedSet) -> str:
    return f"{marked.name}{' *' * marked.is_held_back}"


async def _live_rows(rows: Sequence[MarkedSet], model: str, folder: Path) -> None:
    """Print prompt dollars over direct: fixed marks sent directly, and of two gateways."""
    (folder / "treated").mkdir()
    async with (
        beside(folder / "treated", control_share=0.0) as treated,
        beside(folder) as by_default,
    ):
        for marked in rows:
            calls = timed_calls(marked.workload, marked.rate, marked.calls)
            fixed = replace(marked.workload, dressed=_dressed_with_fixed_marks)
            peer, _ = await _sent_both_ways(treated, replace(marked, workload=fixed), model, calls)
            _, planned = await _sent_both_ways(treated, marked, model, calls)
            direct, gateway = await _sent_both_ways(by_default, marked, model, calls)
            ratios = " | ".join(f"{nanos / direct:.4f}" for nanos in (peer, planned, gateway))
            extra = f"{(gateway - direct) / 1e9:+.4f}"
            print(f"| {_label(marked)} | {len(calls)} | {ratios} | {extra} |", flush=True)


async def _sent_both_ways(
    both: ComparedGateway, marked: MarkedSet, model: str, calls: Sequence[TimedCall]
) -> tuple[int, int]:
    """Cost of all prompts in nano-dollars: sent directly, and by the gateway."""
    await both.cells(marked.workload, calls, (model,), marked.rate)
    direct, gateway = (_prompt_nanos(upstream, both.known) for upstream in both.upstreams)
    return direct, gateway


def _dressed_with_fixed_marks(body: Json, _: str) -> Json:
    marked: Json = orjson.loads(with_fixed_marks(orjson.dumps(body)))
    return marked


def _prompt_nanos(upstream: Simulator, models: Catalog) -> int:
    """Cost of all prompts that a simulator counted."""
    total = 0
    for exchange in upstream.exchanges:
        tariff = models.models[orjson.loads(exchange.body)["model"]].routes[0].tariff
        if exchange.usage is not None and tariff is not None:
            prompt = msgspec.structs.replace(exchange.usage, output=0, reasoning=0)
            cost = call_cost(prompt, tariff, START)
            total += 0 if cost is None else cost.effective_nanos
    return total


def _print_live(rows: Sequence[MarkedSet], model: str) -> None:
    columns = ("fixed, direct", "gateway, no control arm", "gateway", "gateway, $ more")
    print(_heading(columns))
    with tempfile.TemporaryDirectory() as folder:
        run_in_virtual_time(lambda: _live_rows(rows, model, Path(folder)))


def _print_replay(rows: Sequence[MarkedSet], name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        model = catalog(Path(folder))[0].models[name]
    print(_heading(("fixed", "stop-loss", "parted, fixed", "planned", "planned, $ more")))
    for marked in rows:
        print(_table_row(marked, row(marked, model)), flush=True)


def _heading(columns: Sequence[str]) -> str:
    return f"| set | calls | {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) + 1)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a row's name")
    parser.add_argument("--model", default="claude-sonnet-5-5")
    parser.add_argument("--calls", type=int, default=10_000, help="calls of each row, at most")
    parser.add_argument("--live", action="store_true", help="agents' rows, over HTTP")
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = [
        replace(marked, calls=min(marked.calls, options.calls))
        for marked in marked_sets()
        if options.only in marked.name and (marked.is_live or not options.live)
    ]
    if options.live:
        _print_live(rows, options.model)
    else:
        _print_replay(rows, options.model)


if __name__ == "__main__":
    main()
