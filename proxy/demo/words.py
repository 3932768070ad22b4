"""What the demo says."""

from statistics import median

from rich.console import Console

from proxy.demo.result import Result
from proxy.demo.spending import hit_rate, spending
from proxy.demo.traffic import AT_ONCE

_ERRORS_SHOWN = 5
#: Below this hit rate it is said why.
_LOW = 0.05
_WHY_LOW = (
    "Hit rate: prompts go out as these applications build them, with the time first and tools\n"
    "in any order, so the providers' caches find next to nothing to read."
)
_SIMULATED = (
    "The upstream is [bold]simulated[/bold]: names, prices and cache rules are the providers',\n"
    "answers and waits are not."
)
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


def outcome(console: Console, result: Result) -> None:
    """Say what became of the calls and what the ledger knows of them."""
    console.print()
    console.print(spending(result.rows, result.names, result.total))
    console.print()
    console.print(_pace(result), soft_wrap=True)
    console.print(_ledger(result), style="red" if result.lacking else "", soft_wrap=True)
    for sent in result.failed[:_ERRORS_SHOWN]:
        console.print(f"Failed: {sent.planned.model}: {sent.error}", style="red", markup=False)
    if len(result.failed) > _ERRORS_SHOWN:
        console.print(f"… and {len(result.failed) - _ERRORS_SHOWN} more failed.", style="red")
    if any(hit_rate(row.usage) < _LOW for row in result.total):
        console.print(_WHY_LOW, soft_wrap=True)
    console.print(_SIMULATED, soft_wrap=True)


def invitation(console: Console, base_url: str, key: str, folder: str) -> None:
    """Say how to make a call of one's own."""
    curl, snippet = commands(base_url, key)
    console.print("\nIt is your turn. In another terminal:\n")
    console.print(curl, soft_wrap=True, markup=False)
    console.print("\nWhat the ledger and planning know of all calls:\n")
    console.print(
        f"export THRIFTGATE_FOLDER={folder}; thriftgate misses; thriftgate savings",
        soft_wrap=True,
        markup=False,
    )
    console.print("\nOr in Python (pip install openai):\n")
    console.print(snippet, soft_wrap=True, markup=False)
    console.print("Ctrl-C to stop; nothing is left behind.")


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


def _pace(result: Result) -> str:
    waits = [sent.ttft for sent in result.sent if sent.ttft is not None]
    first = f", first token of a stream after {median(waits) * 1000:.0f} ms" if waits else ""
    rate = len(result.sent) / result.seconds if result.seconds else 0.0
    return f"{len(result.sent)} calls in {result.seconds:.1f} s, {rate:.0f} a second{first}."


def _ledger(result: Result) -> str:
    answered = len(result.sent) - len(result.failed)
    if result.lacking:
        return (
            f"Ledger: {len(result.lacking)} of {answered} answered calls are not there exactly "
            f"once: {', '.join(result.lacking[:_ERRORS_SHOWN])}"
        )
    return f"Ledger: {answered} calls were answered, {answered} are there, each exactly once."
