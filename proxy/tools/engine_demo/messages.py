"""The messages that the engine demo prints."""

import json

from rich.console import Console
from rich.table import Table

from proxy.records.amounts import column, money
from proxy.records.receipt import Receipt
from proxy.tools.engine_demo.measure import DIRECT, DIRECT_DRAFTED, SYSTEM, DecodeRate
from proxy.tools.engine_demo.profiles import DRAFTED, NGRAM, PLAIN
from proxy.tools.engine_demo.result import PROVIDER_MODEL, EngineDemoResult
from proxy.tools.engine_demo.session import EngineDemoSession

_MS = 1_000
_ANSWER_CHARACTERS = 100


def opening(console: Console, session: EngineDemoSession) -> None:
    """Say what runs."""
    ports = ", ".join(
        f"{name} on port {profile.port}" for name, profile in session.profiles.items()
    )
    console.print(f"Thriftgate listens on [bold]{session.base_url}[/bold] in front of llama.cpp.")
    console.print(
        f"Engines, ready after {session.start_seconds:.1f} s: {ports}.\n"
        "All serve the same tiny model of our own, on processors, one thread each.\n",
        soft_wrap=True,
    )


def outcome(console: Console, result: EngineDemoResult) -> None:
    """Say what was measured."""
    sample = result.measured.sample
    console.print(f"Question: {result.measured.question}", markup=False, soft_wrap=True)
    console.print(f"Answer: {_answer_excerpt(sample.text)}\n", markup=False, soft_wrap=True)
    console.print(_decode_table(result))
    console.print(f"\n{result.verdict}", soft_wrap=True)
    console.print(_first_token_text(result), soft_wrap=True)
    console.print()
    console.print(_receipt_table(result))
    if phases := _phases_text(result.receipt):
        console.print(phases, soft_wrap=True)
    console.print(_cost_text(result), soft_wrap=True)


def invitation(console: Console, session: EngineDemoSession) -> None:
    """Say how to make a call of one's own, and how to look at the engines."""
    body = {
        "model": DRAFTED,
        "messages": [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": "Who pays the duty?"},
        ],
    }
    console.print("\nIt is your turn. In another terminal:\n")
    curl = (
        f"curl {session.base_url}/chat/completions -H 'Authorization: Bearer {session.key}' "
        f"-H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    )
    for line in (
        curl,
        f"thriftgate engine plan {DRAFTED} --file {session.folder / 'engines.toml'}",
        f"THRIFTGATE_FOLDER={session.folder} thriftgate report --by model",
    ):
        console.print(line, soft_wrap=True, markup=False)
    console.print("\nCtrl-C to stop; nothing is left behind.")


def _answer_excerpt(text: str) -> str:
    return text if len(text) <= _ANSWER_CHARACTERS else f"{text[:_ANSWER_CHARACTERS]}…"


def _decode_table(result: EngineDemoResult) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("answers", "engine"):
        table.add_column(name)
    for name in ("tokens/s", "drafted", "accepted"):
        table.add_column(name, justify="right")
    decode, repeated = result.measured.decode, result.measured.repeated
    for kind, name, rate in (
        ("new", "without speculation", decode[PLAIN]),
        ("", "the same, without the gateway", decode[DIRECT]),
        ("", "with the draft model", decode[DRAFTED]),
        ("", "the same, without the gateway", decode[DIRECT_DRAFTED]),
        ("repeated", "without speculation", repeated[PLAIN]),
        ("", "with n-grams", repeated[NGRAM]),
    ):
        table.add_row(kind, name, *_rate_cells(rate))
    return table


def _rate_cells(rate: DecodeRate) -> tuple[str, str, str]:
    if not rate.draft_tokens:
        return f"{rate.tokens_per_s:,.0f}", "", ""
    return f"{rate.tokens_per_s:,.0f}", f"{rate.draft_tokens:,}", f"{rate.acceptance_rate:.1%}"


def _first_token_text(result: EngineDemoResult) -> str:
    first = result.measured.first_tokens
    return (
        f"N-grams on answers that stand in the conversation already: {result.ngram_speedup:.2f}"
        " times.\n"
        f"First token of a prompt of {first.prompt_tokens:,} tokens: {first.cold * _MS:.1f} ms"
        f" cold, {first.warm * _MS:.1f} ms with {first.cached_tokens:,} of them cached"
        f" ({first.cold_direct * _MS:.1f} and {first.warm_direct * _MS:.1f} ms without the"
        " gateway)."
    )


def _receipt_table(result: EngineDemoResult) -> Table:
    usage = result.receipt.usage
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("one call")
    for name in ("input tokens", "cached", "output", "seconds", "cost"):
        table.add_column(name, justify="right")
    if usage is None:
        return table
    tokens = (
        f"{usage.prompt_tokens:,}",
        f"{usage.cache_read:,}",
        f"{usage.generated_tokens:,}",
    )
    engine, provider = column([result.receipt.cost_nanos, result.provider_nanos])
    table.add_row("the engine", *tokens, f"{result.receipt.duration:.3f}", engine)
    table.add_row(f"its tokens at {PROVIDER_MODEL}", *tokens, "", provider)
    return table


def _phases_text(receipt: Receipt) -> str:
    """The call's time in phases, and its draft tokens; "" where the engine reported none."""
    phases = {
        "gateway": receipt.overhead,
        "queue": receipt.queue,
        "prefill": receipt.prefill,
        "decode": receipt.decode,
        "transfer": receipt.transfer,
    }
    parts = [
        f"{name} {seconds * _MS:.1f} ms" for name, seconds in phases.items() if seconds is not None
    ]
    if receipt.prefill is None:
        return ""
    drafted = f"{receipt.accepted_tokens} of {receipt.draft_tokens} draft tokens were accepted"
    return f"\nThe call's receipt: {', '.join(parts)}; {drafted}."


def _cost_text(result: EngineDemoResult) -> str:
    return (
        f"\nThe machine is taken to cost {money(result.price_nanos)} an hour:"
        f" {money(result.nanos_per_1k_output)} for 1,000 output tokens while it is busy with one"
        " call after\nthe other; idle hours cost the same. The tiny model answers what it was"
        " trained on, and stands in for yours:\nthe arithmetic is real, the comparison of quality"
        " is not."
    )
