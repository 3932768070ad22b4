"""Runs the engine demo from its first line to Ctrl-C."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rich.console import Console

from proxy.errors import OperatorError, first_error
from proxy.tools.demo.run import run_until_stopped
from proxy.tools.engine_demo import messages
from proxy.tools.engine_demo.measure import measure
from proxy.tools.engine_demo.profiles import PLAIN
from proxy.tools.engine_demo.result import EngineDemoResult, ledger_receipt, provider_nanos
from proxy.tools.engine_demo.session import EngineDemoSession, PortsFactory, engine_demo_session

INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDemoOptions:
    """Options of the demo.

    Attributes:
        port: Port that the gateway listens on, or the next free one.
        stays: True if it goes on taking calls until a signal stops it.
        price_per_hour: US dollars for an hour of the machine, as a decimal text.
    """

    now: datetime
    port: int
    stays: bool
    rounds: int
    price_per_hour: str


def run(
    console: Console,
    options: EngineDemoOptions,
    ports: PortsFactory,
    tell: Callable[[EngineDemoResult], None],
) -> int:
    """The exit status: 0 once everything was measured, 130 if stopped before.

    Raises:
        OSError: If no port is free.
        OperatorError: If an engine does not start or a call is not answered.
    """
    results: list[EngineDemoResult] = []

    def both(result: EngineDemoResult) -> None:
        results.append(result)
        tell(result)

    try:
        if not run_until_stopped(lambda: engine_demo(console, options, ports, both)):
            console.print("\nStopped.")
    except* (OSError, OperatorError) as group:
        raise first_error(group) from None
    return 0 if results else INTERRUPTED


async def engine_demo(
    console: Console,
    options: EngineDemoOptions,
    ports: PortsFactory,
    tell: Callable[[EngineDemoResult], None],
) -> EngineDemoResult:
    """Run the demo; its result once everything is shut down again."""
    async with engine_demo_session(
        now=options.now, port=options.port, price_per_hour=options.price_per_hour, ports=ports
    ) as session:
        messages.opening(console, session)
        result = await _measure_session(console, session, options.rounds)
        messages.outcome(console, result)
        tell(result)
        if options.stays:
            messages.invitation(console, session)
            await asyncio.wait([session.served])
    return result


async def _measure_session(
    console: Console, session: EngineDemoSession, rounds: int
) -> EngineDemoResult:
    ticks = asyncio.get_running_loop().time
    began = ticks()
    with console.status("") as status:
        measured = await measure(session, rounds, lambda what: status.update(f"Measuring {what}"))
    seconds = ticks() - began
    store = session.gateway.store
    receipt = await store.ask(ledger_receipt, store, measured.sample.call_id)
    price = session.profiles[PLAIN].price_per_gpu_hour
    if price is None:
        raise OperatorError("The engine's profile has no price.")
    return EngineDemoResult(
        measured=measured,
        receipt=receipt,
        price_nanos=price,
        provider_nanos=provider_nanos(session.gateway.catalog, receipt),
        start_seconds=session.start_seconds,
        seconds=seconds,
    )
