import asyncio
from io import StringIO

from rich.console import Console

from proxy.tools.demo.progress import progress
from tests.proxy.tools.demo.scripts import Says, a_stage, plan, send_calls


def test_the_bar_ends_with_all_calls_and_what_the_ledger_says_they_cost() -> None:
    out = StringIO()

    async def scene() -> int:
        async with a_stage() as staged:
            async with progress(Console(file=out, width=80), staged, 1) as tell:
                (answer,) = await send_calls(staged, plan(Says("Refunds. " * 4000)))
                tell(answer)
            return answer.input

    tokens = asyncio.run(scene())

    assert "1/1" in out.getvalue()
    assert "calls/s" in out.getvalue()
    assert f"${tokens * 2.5e-6:.2f}" in out.getvalue()


def test_a_quiet_console_shows_nothing() -> None:
    out = StringIO()

    async def scene() -> None:
        async with a_stage() as staged, progress(Console(file=out, quiet=True), staged, 1):
            pass

    asyncio.run(scene())

    assert out.getvalue() == ""
