"""The messages that the demo prints."""

import shlex
from collections.abc import Iterator
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dashboards.savings_headline import headline_sentences
from proxy.records.amounts import cell, quantity
from proxy.tools.demo.baseline import CallTotals
from proxy.tools.demo.result import DemoResult, row_totals, total
from proxy.tools.demo.spending import spending
from proxy.tools.demo.traffic import AT_ONCE

_ERRORS_SHOWN = 5
#: Ways a call can be sent, as they are called in the table.
_DIRECTLY = "directly"
_THROUGH = "through Thriftgate"
_ARRANGED = "and its layouts applied"
_RECKONED = (
    "Directly: the same calls as their applications write them, with the time first and tools in\n"
    "any order, and with the provider's own caching. The dashboard and `thriftgate savings` show\n"
    "the same figure. Its hit rate, and layouts, are replayed as `thriftgate replay` does."
)
_LEARNED = (
    "Layouts: what it learned from these calls should move behind what stays the same. They wait\n"
    "for `thriftgate layout approve`, or for the mode auto; applied at once, they come to this."
)
_SIMULATED = (
    "The upstream is [bold]simulated[/bold]: names, prices and cache rules are the providers',\n"
    "answers and waits are not."
)
#: Digits behind the point of a cost.
_CENTS = 2
_MODELS = ("gpt-5.4-mini", "claude-sonnet-5-5")


def opening(console: Console, count: int, base_url: str) -> None:
    """Say what is about to happen."""
    console.print(
        f"Thriftgate listens on [bold]{base_url}[/bold] in front of a simulated upstream."
    )
    console.print(
        f"Two teams send {count} calls through the official OpenAI SDK, {AT_ONCE} at once, half of "
        "them\nstreaming: support chat over documents, a coding agent, a report writer.\n",
        soft_wrap=True,
    )


def outcome(console: Console, result: DemoResult) -> None:
    """Say what became of the calls and what the ledger knows of them."""
    console.print()
    console.print(spending(result.rows, result.names, result.total))
    console.print()
    console.print(_pace(result), soft_wrap=True)
    console.print(_ledger(result), style="red" if result.lacking else "", soft_wrap=True)
    for sent in result.failed_calls[:_ERRORS_SHOWN]:
        console.print(f"Failed: {sent.planned.model}: {sent.error}", style="red", markup=False)
    if len(result.failed_calls) > _ERRORS_SHOWN:
        console.print(f"… and {len(result.failed_calls) - _ERRORS_SHOWN} more failed.", style="red")
    if result.otherwise.direct:
        console.print()
        console.print(_comparison(result))
        console.print()
        for line in headline_sentences(result.savings[""]) if result.savings else ():
            console.print(line, soft_wrap=True, markup=False)
        console.print()
        console.print(_RECKONED, soft_wrap=True, markup=False)
    if result.proposed:
        console.print(_LEARNED, soft_wrap=True, markup=False)
    console.print(_SIMULATED, soft_wrap=True)


def invitation(console: Console, base_url: str, key: str, folder: str, result: DemoResult) -> None:
    """Say how to make a call of one's own, and how to ask about all of them."""
    curl, snippet = commands(base_url, key)
    console.print("\nIt is your turn. In another terminal:\n")
    console.print(curl, soft_wrap=True, markup=False)
    console.print("\nWhat the ledger and planning know of all calls:\n")
    for line in _questions(folder, result):
        console.print(line, soft_wrap=True, markup=False)
    console.print("\nOr in Python (pip install openai):\n")
    console.print(snippet, soft_wrap=True, markup=False)
    console.print("Ctrl-C to stop; nothing is left behind.")


def dashboard(console: Console, url: str) -> None:
    """Say where the dashboard is.

    Args:
        console: Console for the message.
        url: Link that signs in once.
    """
    console.print("\nThe dashboard shows what these calls cost; this link signs in once:\n")
    console.print(url, style="bold", soft_wrap=True, markup=False)


def _questions(folder: str, result: DemoResult) -> Iterator[str]:
    """Commands that ask about the calls, one a line."""
    yield f"export THRIFTGATE_FOLDER={folder}"
    yield "thriftgate report --by feature"
    yield "thriftgate misses"
    for each in result.proposed[-1:]:
        family = ("--family", each.family)
        yield shlex.join(("thriftgate", "layout", "show", each.team, each.feature, *family))


def commands(base_url: str, key: str) -> tuple[str, str]:
    """A curl line and a Python snippet that make a call with this key."""
    openai, anthropic = _MODELS
    asked = f'{{"model": "{openai}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    curl = (
        f"curl -i {base_url}/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{asked}'"
    )
    snippet = (
        "from openai import OpenAI\n\n"
        f'client = OpenAI(base_url="{base_url}", api_key="{key}")\n'
        "answer = client.chat.completions.create(\n"
        f'    model="{anthropic}", messages=[{{"role": "user", "content": "Hello!"}}]\n'
        ")\n"
        "print(answer.choices[0].message.content)\n"
    )
    return curl, snippet


def _comparison(result: DemoResult) -> Table:
    """Each team's hit rate and cost as its calls were sent, between other ways to send them."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("team", "sent"):
        table.add_column(column)
    for column in ("hit rate", "cost USD", ""):
        table.add_column(column, justify="right", no_wrap=True)
    rows = [(result.names.get(row.team or "", ""), row) for row in result.rows]
    every = list(result.otherwise.direct)
    for name, teams, row in (
        *((name, [name], row) for name, row in rows),
        *(("all", every, row) for row in result.total),
    ):
        direct = _direct_totals(result, "" if name == "all" else name, teams)
        ways = [(_DIRECTLY, direct), (_THROUGH, row_totals(row))]
        if result.proposed:
            ways.append((_ARRANGED, total(result.otherwise.arranged, teams)))
        for number, (way, found) in enumerate(ways):
            shown = Text(name if number == 0 else "")
            style = "bold" if name == "all" else ""
            table.add_row(shown, way, *_figures(found, direct), style=style)
    return table


def _direct_totals(result: DemoResult, team: str, teams: list[str]) -> CallTotals:
    """Calls sent directly: replayed tokens, and the cost that all pages and reports show."""
    replayed, saved = total(result.otherwise.direct, teams), result.savings.get(team)
    nanos = replayed.nanos if saved is None else saved.direct_nanos
    return CallTotals(replayed.prompt, replayed.read, nanos)


def _figures(found: CallTotals, direct: CallTotals) -> tuple[str, str, str]:
    """Hit rate, cost to the cent, and how much less that is than directly."""
    if found.nanos is None:
        return f"{found.hit_rate:.1%}", "unknown", ""
    less = ""
    if found is not direct and direct.nanos:
        share = round(100 * (direct.nanos - found.nanos) / direct.nanos)
        less = f"{abs(share)} % {'more' if share < 0 else 'less'}"
    return f"{found.hit_rate:.1%}", cell(found.nanos, _CENTS), less


def _pace(result: DemoResult) -> str:
    waits = [sent.ttft for sent in result.sent if sent.ttft is not None]
    first = f", first token of a stream after {median(waits) * 1000:.0f} ms" if waits else ""
    rate = len(result.sent) / result.seconds if result.seconds else 0.0
    calls = quantity(len(result.sent), "call")
    return f"{calls} in {result.seconds:.1f} s, {rate:.0f} a second{first}."


def _ledger(result: DemoResult) -> str:
    answered = len(result.sent) - len(result.failed_calls)
    if result.lacking:
        return (
            f"Ledger: {len(result.lacking)} of {answered} answered calls are not there exactly "
            f"once: {', '.join(result.lacking[:_ERRORS_SHOWN])}"
        )
    was, is_there = ("was", "is") if answered == 1 else ("were", "are")
    calls = quantity(answered, "call")
    return f"Ledger: {calls} {was} answered, {answered:,} {is_there} there, each exactly once."
