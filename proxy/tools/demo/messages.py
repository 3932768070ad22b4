"""The messages that the demo prints."""

import shlex
from collections.abc import Iterable, Iterator
from statistics import median
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dashboards.report_summary.savings_sentences import headline_sentences
from dashboards.reports import Spend
from proxy.records.amounts import cell, quantity
from proxy.tools.demo.baseline import CallTotals
from proxy.tools.demo.result import DemoResult, row_totals, total

_ERRORS_SHOWN = 5
_DIRECTLY = "directly"
_THROUGH = "through Thriftgate"
_TEAMS_TEXT = """\
  acme-support      a support chat, badly built: the time, the customer and the
                    passages found stand above a handbook that never changes
  acme-engineering  a coding agent's loop with tools on Claude, without cache marks
  acme-docs         the support team's chat on the same model, well built: the handbook
                    first, the passages last; without cache marks, too
"""
_ORDERS_TITLE = "The calls of the support chat, with their prompts built in three orders"
_ORDERS_TEXT = """\
Variable first is how they were sent; layouts move what varies behind the handbook. The
other two are how a careful author builds them, with the cache marks that this model wants:
there is nothing left to gain, and marks that stand elsewhere may cost a percent or two."""
_TEAMS_TITLE = "All three teams, as they sent their calls"
_METHOD = """\
Directly: the same calls without a gateway, with the provider's own caching. Dashboard and
`thriftgate savings` show the same cost. Its hit rate, and what was not sent, are
replayed as `thriftgate replay` does. Without marks Claude stores nothing, and GPT-5.6 only
whole prompts, so these calls read nothing.
Through Thriftgate: with cache marks from the first call on; nothing has to be approved."""
_LEARNED = """\
Layouts: the gateway learned which texts vary, and moved them behind those that stay."""
_SIMULATED = """\
The upstream is [bold]simulated[/bold]: names, prices and cache rules are the providers', answers
and waits are not. The prompts are texts of our own of 2,500 to 16,000 tokens. A customer
writes again after 15 to 90 s, an agent after 4 to 40 s."""
#: Digits behind the point of a cost.
_CENTS = 2
_MODELS = ("gpt-5.4-mini", "claude-sonnet-5-5")


def opening(console: Console, count: int, base_url: str) -> None:
    """Say what is about to happen."""
    console.print(
        f"Thriftgate listens on [bold]{base_url}[/bold] in front of a simulated upstream."
    )
    console.print(
        f"Three teams send {count} calls through the official OpenAI SDK, on a simulated clock:\n",
        soft_wrap=True,
    )
    console.print(_TEAMS_TEXT, soft_wrap=True)


def outcome(console: Console, result: DemoResult) -> None:
    """Say what became of the calls and what the ledger knows of them."""
    console.print()
    console.print(_pace(result), soft_wrap=True)
    console.print(_ledger(result), style="red" if result.lacking else "", soft_wrap=True)
    for call in result.failed_calls[:_ERRORS_SHOWN]:
        console.print(f"Failed: {call.planned.model}: {call.error}", style="red", markup=False)
    if len(result.failed_calls) > _ERRORS_SHOWN:
        console.print(f"… and {len(result.failed_calls) - _ERRORS_SHOWN} more failed.", style="red")
    if result.orders.direct:
        _heading(console, _ORDERS_TITLE)
        console.print(_orders(result))
        console.print(f"\n{_ORDERS_TEXT}", soft_wrap=True, markup=False)
    _heading(console, _TEAMS_TITLE)
    console.print(_comparison(result))
    if result.savings and (sentences := headline_sentences(result.savings[""])):
        console.print("\n" + "\n".join(sentences), soft_wrap=True, markup=False)
    if result.otherwise.direct:
        console.print(f"\n{_METHOD}", soft_wrap=True, markup=False)
    if result.proposed:
        console.print(_LEARNED, soft_wrap=True, markup=False)
    console.print(_SIMULATED, soft_wrap=True)
    if result.total and result.otherwise.direct:
        console.print(f"\n{_summary(result)}", style="bold", soft_wrap=True, markup=False)


def _heading(console: Console, title: str) -> None:
    console.print(f"\n{title}\n", style="bold", soft_wrap=True, markup=False)


def invitation(console: Console, base_url: str, key: str, folder: str, result: DemoResult) -> None:
    """Say how to make a call of one's own, and how to ask about all of them."""
    curl, snippet = commands(base_url, key)
    console.print("\nIt is your turn. In another terminal:\n")
    console.print(curl, soft_wrap=True, markup=False)
    console.print("\nWhat all calls cost, why caches were missed, and what a layout moves:\n")
    for line in _questions(folder, result):
        console.print(line, soft_wrap=True, markup=False)
    console.print("\nOr in Python (pip install openai):\n")
    console.print(snippet, soft_wrap=True, markup=False)
    console.print("What the gateway would save on your own calls, from the log of any tool:\n")
    console.print("thriftgate replay YOUR_LOG.jsonl", style="bold", soft_wrap=True, markup=False)


def dashboard(console: Console, url: str, folder: str) -> None:
    """Say where the dashboard is, last of all, and how to sign in again."""
    port = urlsplit(url).port
    again = f"THRIFTGATE_FOLDER={folder} THRIFTGATE_PORT={port} thriftgate admin link"
    console.print("\nThe dashboard shows what these calls cost. This link signs in once:\n")
    console.print(url, style="bold", soft_wrap=True, markup=False)
    console.print(f"\nIt holds for an hour. Another link: {again}", soft_wrap=True, markup=False)
    console.print("Ctrl-C to stop; nothing is left behind.")


def _questions(folder: str, result: DemoResult) -> Iterator[str]:
    """Commands that ask about the calls, one a line; none changes the shell it runs in."""
    setting = f"THRIFTGATE_FOLDER={folder}"
    yield f"{setting} thriftgate report --by feature"
    yield f"{setting} thriftgate misses"
    for place in result.proposed[-1:]:
        family = ("--family", place.family)
        words = ("thriftgate", "layout", "show", place.team, place.feature, *family)
        yield f"{setting} {shlex.join(words)}"


def commands(base_url: str, key: str) -> tuple[str, str]:
    """A curl line and a Python snippet that make a call with this key."""
    openai, anthropic = _MODELS
    body = f'{{"model": "{openai}", "messages": [{{"role": "user", "content": "Hello!"}}]}}'
    curl = (
        f"curl -i {base_url}/chat/completions -H 'Authorization: Bearer {key}' "
        f"-H 'Content-Type: application/json' -d '{body}'"
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
    """Each team's hit rate and cost, sent directly and through the gateway."""
    table = _table(("team", "calls", "sent"), ("hit rate", "cost USD", ""))
    for row in (*result.rows, *result.total):
        name = "all" if row.team is None else result.names.get(row.team, row.team)
        style = "bold" if row.team is None else ""
        first = (name, f"{row.calls:,}")
        for way, totals, less in _ways(result, row):
            cost = _cost(totals.nanos)
            table.add_row(*map(Text, first), way, f"{totals.hit_rate:.1%}", cost, less, style=style)
            first = ("", "")
    return table


def _ways(result: DemoResult, row: Spend) -> Iterator[tuple[str, CallTotals, str]]:
    """Both ways to send the calls of a row, each with its totals, and how much less that costs."""
    name = "" if row.team is None else result.names.get(row.team, "")
    teams = list(result.otherwise.direct) if row.team is None else [name]
    direct = _direct_totals(result, name, teams)
    if result.otherwise.direct:
        yield _DIRECTLY, direct, ""
    yield _THROUGH, row_totals(row), _less(row.cost_nanos, direct.nanos)


def _orders(result: DemoResult) -> Table:
    """A feature's hit rate and cost by the order of its prompts, directly and with layouts."""
    figures = ("hit rate\ndirectly", "USD per 1k\ncalls", "hit rate with\nlayouts applied")
    table = _table(("prompts built",), (*figures, "USD per 1k\ncalls", ""))
    for order, direct in result.orders.direct.items():
        arranged = result.orders.arranged[order]
        cells = (
            text
            for totals in (direct, arranged)
            for text in (f"{totals.hit_rate:.1%}", _cost(totals.nanos_per_1k_calls))
        )
        table.add_row(order, *cells, _less(arranged.nanos, direct.nanos))
    return table


def _table(texts: Iterable[str], figures: Iterable[str]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in texts:
        table.add_column(column, justify="right" if column == "calls" else "left")
    for column in figures:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _direct_totals(result: DemoResult, team: str, teams: list[str]) -> CallTotals:
    """Calls sent directly: replayed tokens, and the cost that all pages and reports show."""
    replayed, saved = total(result.otherwise.direct, teams), result.savings.get(team)
    nanos = replayed.nanos if saved is None else saved.direct_nanos
    return CallTotals(replayed.prompt, replayed.read, nanos)


def _summary(result: DemoResult) -> str:
    (row,) = result.total
    parts = [
        f"{_cost(totals.nanos)} {way}{less and f' ({less})'}"
        for way, totals, less in _ways(result, row)
    ]
    return f"Simulated, in all: {', '.join(parts)}."


def _cost(nanos: int | None) -> str:
    return "unknown" if nanos is None else cell(nanos, _CENTS)


def _less(nanos: int | None, direct: int | None) -> str:
    """The difference to sending directly, in percent; "" where a price is unknown."""
    if nanos is None or not direct:
        return ""
    share = round(100 * (direct - nanos) / direct)
    return f"{abs(share)} % {'more' if share < 0 else 'less'}"


def _pace(result: DemoResult) -> str:
    waits = [call.ttft for call in result.calls if call.ttft is not None]
    first = f", first token of a stream after {median(waits) * 1000:.0f} ms" if waits else ""
    rate = len(result.calls) / result.seconds if result.seconds else 0.0
    calls = quantity(len(result.calls), "call")
    return f"{calls} in {result.seconds:.1f} s, {rate:.0f} a second{first}."


def _ledger(result: DemoResult) -> str:
    answered = len(result.calls) - len(result.failed_calls)
    if result.lacking:
        return (
            f"Ledger: {len(result.lacking)} of {answered} answered calls are not there exactly "
            f"once: {', '.join(result.lacking[:_ERRORS_SHOWN])}"
        )
    was, is_there = ("was", "is") if answered == 1 else ("were", "are")
    calls = quantity(answered, "call")
    return f"Ledger: {calls} {was} answered, {answered:,} {is_there} there, each exactly once."
