"""``thriftgate compact FILE``: shows what would be sent of a conversation, and why."""

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
import typer

from compaction.policy import CompactionMode, CompactionPolicy
from proxy.cli.terminal import AsJson, Terminal, empty_table
from proxy.records.amounts import quantity
from proxy.tools.replay.command import named_model

if TYPE_CHECKING:
    from compaction.facts.fact import Fact
    from proxy.catalog.catalog import Catalog
    from proxy.catalog.entries import Model
    from proxy.cli.compaction.dry_run import DryRunResult

_DEFAULT_MODEL: Final = "gpt-5.6-terra"
#: Characters of a fact, of a message, and of a lost value that are shown.
_MAX_TEXT_CHARS: Final = 100
_MAX_VALUE_CHARS: Final = 40
#: Facts of a kind, messages at each end, and lost values that are shown.
_MAX_FACTS_OF_KIND: Final = 6
_MAX_MESSAGES_AT_END: Final = 8
_MAX_LOST_SHOWN: Final = 12
#: Lost values that are looked for at most.
_MAX_LOST_FOUND: Final = 1_000

_File = Annotated[
    Path,
    typer.Argument(
        help='JSON: {"messages": […], "tools": […]}, other fields of a chat allowed; - for stdin.',
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Compact whether it pays or not.")]
_Mode = Annotated[CompactionMode, typer.Option(help="How far to go; no model is asked here.")]
_Keep = Annotated[int, typer.Option(help="The last turns that stay unmodified.", min=1)]
_Target = Annotated[
    int, typer.Option(help="Tokens to come down to; 0 for as far as facts go.", min=0)
]
_ModelName = Annotated[
    str,
    typer.Option(
        help="Whose prices and tokens count.",
        show_default=f"the file's own, else {_DEFAULT_MODEL}",
    ),
]


def compact(terminal: Terminal, catalog: "Callable[[], Catalog]") -> Callable[..., None]:
    """The command."""
    usual = CompactionPolicy()

    def compact_command(  # noqa: PLR0913 - a person's options
        file: _File,
        *,
        force: _Force = False,
        mode: _Mode = usual.mode,
        keep_turns: _Keep = usual.keep_turns,
        target_tokens: _Target = usual.target,
        model: _ModelName = "",
        as_json: AsJson = False,
    ) -> None:
        """Show what would be sent of a conversation, its facts, and why; nothing is sent."""
        models = catalog()
        chosen = named_model(models, model) if model else None
        text = _read(terminal, file)
        chosen = chosen or models.find(_model_of(text)) or named_model(models, _DEFAULT_MODEL)
        policy = CompactionPolicy(
            mode=mode, keep_turns=keep_turns, target=target_tokens, force=force, once=force
        )
        result, came = _run_dry(
            terminal, _Request("stdin" if str(file) == "-" else str(file), text, policy, chosen)
        )
        if as_json:
            terminal.print_json(result)
        else:
            _show(terminal, result, came, chosen.routes[0].model or chosen.id)

    return compact_command


class _Request(NamedTuple):
    """A conversation's name and text, and how far and for which model it is to be compacted."""

    name: str
    text: bytes
    policy: CompactionPolicy
    model: "Model"


def _run_dry(terminal: Terminal, request: _Request) -> "tuple[DryRunResult, int]":
    """Run it; returns the result and the number of messages, or ends the command without any."""
    from proxy.calls.eligibility.route_target import route_target
    from proxy.cli.compaction.dry_run import conversation, dry_run
    from proxy.errors import OperatorError
    from proxy.services.compaction.policies import relative_prices
    from proxy.services.compaction.signed_thinking import with_thinking_rules

    model, policy = request.model, request.policy
    route = model.routes[0]
    try:
        messages = conversation(request.text)
    except OperatorError as why:
        terminal.fail(f"{request.name} {why}.")
    policy = msgspec.structs.replace(
        policy,
        prices=relative_prices(route_target(route, model.id, terminal.now())),
        window=route.window or 0,
    )
    result = dry_run(
        messages,
        with_thinking_rules(policy, messages.body, route),
        model=model.id,
        upstream_model=route.model or model.id,
    )
    return result, len(messages.messages)


def _read(terminal: Terminal, file: Path) -> bytes:
    """The file's bytes."""
    if str(file) == "-":
        return typer.get_binary_stream("stdin").read()
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {str(file)!r}", param_hint="FILE")
    try:
        return file.read_bytes()
    except OSError as error:
        terminal.fail(f"{file} cannot be read: {error.strerror}.")


def _model_of(body: bytes) -> str:
    """The model that the body names, or an empty string."""
    try:
        return _model_field(body).model
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


def _show(terminal: Terminal, result: "DryRunResult", came: int, model: str) -> None:
    from proxy.cli.compaction.dry_run_report import kept_line, summary_lines

    terminal.say(*summary_lines(result, came))
    if result.facts:
        terminal.say("", f"Facts ({len(result.facts)}; turns in brackets)")
        terminal.say(*_fact_lines(result.facts))
    if result.changed:
        messages = quantity(len(result.messages), "message")
        terminal.say("", f"What would be sent ({messages}; --json has all)")
        _show_messages(terminal, result, model)
    if result.compacted or result.cut_results:
        terminal.say("", _lost_line(result.lost))
        terminal.say(*kept_line(result))


def _fact_lines(facts: "tuple[Fact, ...]") -> Iterator[str]:
    """The facts by kind, in the order in which kinds first come; some of each."""
    from proxy.cli.compaction.dry_run_report import single_line

    order = {kind: index for index, kind in enumerate(dict.fromkeys(fact.kind for fact in facts))}
    for kind, group in groupby(
        sorted(facts, key=lambda fact: order[fact.kind]), lambda fact: fact.kind
    ):
        every = list(group)
        yield f"  {kind} ({len(every)})"
        for fact in every[:_MAX_FACTS_OF_KIND]:
            turns = ",".join(map(str, fact.turns))
            yield f"    [{turns}] {single_line(fact.text, _MAX_TEXT_CHARS)}"
        if len(every) > _MAX_FACTS_OF_KIND:
            yield f"    and {len(every) - _MAX_FACTS_OF_KIND:,} more"


def _show_messages(terminal: Terminal, result: "DryRunResult", model: str) -> None:
    """The messages, of many the first and the last."""
    from proxy.cli.compaction.dry_run_report import single_line
    from proxy.tokens.counter import TokenCounter

    counter, total = TokenCounter(), len(result.messages)
    table = empty_table("", "role", "tokens", "begins", right=("", "tokens"))
    for index, raw in enumerate(result.messages):
        if _MAX_MESSAGES_AT_END <= index < total - _MAX_MESSAGES_AT_END:
            if index == _MAX_MESSAGES_AT_END:
                table.add_row("…", "", "", f"{total - 2 * _MAX_MESSAGES_AT_END:,} more")
            continue
        role, text = _role_and_text(bytes(raw))
        body = b'{"messages":[' + bytes(raw) + b"]}"
        tokens = counter.prompt_tokens(body, "chat/completions", model)
        table.add_row(str(index), role, f"{tokens:,}", single_line(text, _MAX_TEXT_CHARS))
    terminal.show(table)


class _Part(msgspec.Struct):
    type: str = ""
    text: str = ""


class _Function(msgspec.Struct, frozen=True):
    name: str = ""
    arguments: str = ""


class _Call(msgspec.Struct):
    function: _Function = _Function()


class _Message(msgspec.Struct):
    role: str = ""
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None


class _ModelField(msgspec.Struct):
    model: str = ""


_message = msgspec.json.Decoder(_Message).decode
_model_field = msgspec.json.Decoder(_ModelField).decode


def _role_and_text(raw: bytes) -> tuple[str, str]:
    try:
        message = _message(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", raw.decode(errors="replace")
    content = message.content or ""
    texts = [content] if isinstance(content, str) else [one.text or one.type for one in content]
    functions = [one.function for one in message.tool_calls or ()]
    calls = [f"{one.name}({one.arguments})" for one in functions]
    return message.role, " ".join(filter(None, (*texts, *calls)))


def _lost_line(lost: tuple[str, ...]) -> str:
    if not lost:
        return "Lost: nothing. Every value, name, failure and answer still stands."
    from proxy.cli.compaction.dry_run_report import single_line

    shown = ", ".join(single_line(value, _MAX_VALUE_CHARS) for value in lost[:_MAX_LOST_SHOWN])
    more = f" and {len(lost) - _MAX_LOST_SHOWN:,} more" if len(lost) > _MAX_LOST_SHOWN else ""
    count = f"{len(lost):,}{' or more' if len(lost) >= _MAX_LOST_FOUND else ''}"
    return f"Lost, though the caller's own copy still has it ({count}): {shown}{more}."
