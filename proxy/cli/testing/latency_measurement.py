"""One run of ``thriftgate bench latency``: measures, reports progress, shows and saves figures."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import typer

from proxy.cli.terminal import Terminal

if TYPE_CHECKING:
    from proxy.tools.bench.chat_client import BenchTarget
    from proxy.tools.bench.latency_run import LatencyPlan, LatencyRun
    from proxy.tools.bench.latency_summary import CellFigures

#: Most bytes of prompts that are held at once.
_MAX_PROMPT_BYTES: Final = 1024**3
_MAX_CALLERS: Final = 4096
#: Exit status of a command that Ctrl-C ended.
_INTERRUPTED: Final = 130


class LatencyMeasurement:
    """One run of the command: the figures so far, and the ways to show them."""

    def __init__(self, terminal: Terminal, target: BenchTarget, plan: LatencyPlan) -> None:
        self._terminal = terminal
        self._target = target
        self._plan = plan
        self._cells: list[CellFigures] = []
        self._run: LatencyRun | None = None
        self._is_interrupted = False

    def run(self) -> None:
        """Measure until done or interrupted; what was measured until then stays.

        Raises:
            OperatorError: If the server does not answer.
        """
        import uvloop

        _check_size(self._plan)
        try:
            uvloop.run(self._measure())
        except KeyboardInterrupt:
            self._is_interrupted = True

    def show(self, *, plot: Path | None, save: Path | None, as_json: bool) -> None:
        """Print the figures, draw and save them; exit status 1 if no call was answered."""
        terminal, document = self._terminal, self._document()
        try:
            if save is not None:
                save.write_bytes(msgspec.json.encode(document) + b"\n")
            if plot is not None and self._cells:
                plot.write_bytes(self._png())
        except OSError as error:
            terminal.fail(f"{error.filename} cannot be written: {error.strerror}.")
        if as_json:
            terminal.print_json(document)
        elif self._cells:
            self._print_report(document["notes"])
        if self._is_interrupted:
            raise typer.Exit(_INTERRUPTED)
        if not any(cell.calls for cell in self._cells):
            terminal.fail("No call was answered.")

    async def _measure(self) -> None:
        from msgspec.structs import replace

        from proxy.settings import upstream_keys
        from proxy.tools.bench.chat_client import ChatClient
        from proxy.tools.bench.latency_run import LatencyRun
        from proxy.upstream.http import open_transport

        target = self._target
        keys = upstream_keys([target.key_env] if target.key_env else [])
        async with open_transport(
            keys, connections=max(self._plan.concurrency), connect_timeout=target.timeout_s
        ) as transport:
            client = ChatClient(transport, target, time.perf_counter)
            if not self._plan.model:
                self._plan = replace(self._plan, model=await client.first_model())
            self._announce()
            self._run = LatencyRun(client, self._plan, time.perf_counter, time.process_time)
            await self._run.measure(self._add)

    def _announce(self) -> None:
        from proxy.cli.session import err

        plan = self._plan
        err.print(
            f"{plan.model} at {self._target.base_url}: {len(plan.cells)} combinations, up to"
            f" {plan.max_calls:,} calls of {plan.max_prompt_tokens:,} prompt tokens. Ctrl-C stops"
            " and shows what was measured.",
            soft_wrap=True,
        )

    def _add(self, cell: CellFigures) -> None:
        from proxy.cli.session import err
        from proxy.tools.bench.latency_run import cell_name

        self._cells.append(cell)
        err.print(
            f"  {len(self._cells)}/{len(self._plan.cells)} {cell_name(cell.shape)}:"
            f" {cell.calls} calls, {cell.failed} failed, {cell.seconds:.1f} s",
            soft_wrap=True,
        )

    def _print_report(self, notes: list[str]) -> None:
        from proxy.tools.bench.latency_report import (
            LEGEND,
            chart_lines,
            error_lines,
            latency_table,
        )

        terminal = self._terminal
        terminal.show(latency_table(self._cells))
        for line in chart_lines(self._cells, terminal.out.width):
            terminal.out.print(line, soft_wrap=True)
        terminal.say("", LEGEND, *error_lines(self._cells), *(f"Note: {note}" for note in notes))

    def _document(self) -> dict[str, Any]:
        from proxy.tools.bench.latency_run import doubts
        from proxy.tools.bench.prompts import TokenRatio

        ratio = self._run.ratio if self._run else TokenRatio()
        return {
            "url": self._target.base_url,
            "finished": self._terminal.now(),
            "is_interrupted": self._is_interrupted,
            "plan": self._plan,
            "extra_body": self._target.extra_body,
            "cells": self._cells,
            "notes": list(doubts(self._plan, ratio, self._cells)),
        }

    def _png(self) -> bytes:
        from proxy.tools.bench.latency_chart import latency_png

        plan = self._plan
        subtitle = (
            f"{self._target.base_url}, answers of up to {plan.output_tokens} tokens,"
            f" up to {plan.calls} calls per point, {plan.shared_share:.0%} of a warm prompt shared"
        )
        return latency_png(self._cells, f"Latency of {plan.model}", subtitle)


def _check_size(plan: LatencyPlan) -> None:
    """Check that the run is within its bounds."""
    from proxy.errors import OperatorError

    if plan.memory_bytes > _MAX_PROMPT_BYTES:
        raise OperatorError("The prompts take over 1 GiB: fewer --requests, or shorter prompts.")
    if max(plan.concurrency) > _MAX_CALLERS:
        raise OperatorError(f"--concurrency: {_MAX_CALLERS:,} callers at most.")
