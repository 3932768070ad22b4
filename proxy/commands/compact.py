"""``thriftgate compact FILE``: what would be sent of a conversation, and why."""

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from compaction.facts.fact import Fact
from compaction.policy import Mode, Policy
from proxy.catalog.entries import Catalog, Model
from proxy.commands.terminal import AsJson, Terminal, grid
from proxy.commands.trial import NoConversation, Trial, conversation, trial
from proxy.folding.policies import prices
from proxy.tokens.counter import Counter as Tokens
from proxy.ways import way

_MODEL: Final = "gpt-5.6-terra"
#: Characters of a fact, of a message, and of a lost value that are shown.
_WORDS: Final = 100
_VALUE: Final = 40
#: Facts of a kind, messages at each end, and lost values that are shown.
_FACTS: Final = 6
_MESSAGES: Final = 8
_LOST: Final = 12
#: Lost values that are looked for at most.
_NAMED: Final = 200
#: What the codes of reasons mean to a person.
_WHY: Final = {
    "pays": "enough calls are to be expected for it to pay",
    "banked": "what was saved so far pays for it",
    "forced": "it was asked for, whether it pays or not",
    "window": "it would soon not fit into the model's window",
    "nothing_to_fold": "there is nothing to fold: all of it stays as it came",
    "no_progress": "it would hardly become shorter",
    "below_least": "it is too short to be worth it",
    "below_target": "it is as short as it should become",
    "floor": "what cannot be folded is too long by itself",
    "too_few_calls": "too few calls were made to know how it goes on",
    "cooling_down": "it was folded a short while ago, and stays so for now",
    "too_early": "a larger fold, later, costs less",
    "does_not_pay": "it may end before a fold is paid back",
    "off": "compaction is off",
    "native": "its provider compacts it, so it is left alone",
    "client": "its client asks for a summary itself, so it is left alone",
    "signed": "it holds signed thinking, before which nothing may change",
    "grew": "it would have become longer",
    "invalid": "what came of it would have been refused",
}

_File = Annotated[
    Path,
    typer.Argument(
        help='JSON: {"messages": […], "tools": […]}, other fields of a chat allowed; - for stdin.',
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Fold whether it pays or not.")]
_Mode = Annotated[Mode, typer.Option(help="How far to go; no model is asked here.")]
_Keep = Annotated[int, typer.Option(help="The last turns that stay as they came.", min=1)]
_Target = Annotated[
    int, typer.Option(help="Tokens to come down to; 0 for as far as facts go.", min=0)
]
_ModelName = Annotated[str, typer.Option(help="Whose prices and tokens count.")]


def compact(commands: typer.Typer, terminal: Terminal, catalog: Callable[[], Catalog]) -> None:
    """Add the command to a command line.

    Args:
        commands: The command line.
        terminal: Where it speaks.
        catalog: The models whose prices may be asked for.
    """
    usual = Policy()

    @commands.command("compact")
    def compact_command(  # noqa: PLR0913 - a person's options
        file: _File,
        *,
        force: _Force = False,
        mode: _Mode = usual.mode,
        keep_turns: _Keep = usual.keep_turns,
        target_tokens: _Target = usual.target,
        model: _ModelName = _MODEL,
        as_json: AsJson = False,
    ) -> None:
        """What would be sent of a conversation, the facts in it, and why; nothing is sent."""
        chosen = _model(catalog(), model)
        route = chosen.routes[0]
        policy = Policy(
            mode=mode,
            prices=prices(way(route, chosen.id, terminal.now())),
            keep_turns=keep_turns,
            target=target_tokens,
            window=route.window or 0,
            force=force,
            once=force,
        )
        try:
            said = conversation(_read(terminal, file))
        except NoConversation as why:
            terminal.fail(f"{_named(file)} {why}.")
        known_as = route.model or chosen.id
        found = trial(said, policy, model=chosen.id, upstream_model=known_as)
        if as_json:
            terminal.document(found)
        else:
            _show(terminal, found, len(said.messages), known_as)


def _read(terminal: Terminal, file: Path) -> bytes:
    """The file's bytes.

    Raises:
        typer.BadParameter: If there is no such file.
    """
    if str(file) == "-":
        return typer.get_binary_stream("stdin").read()
    if not file.is_file():
        raise typer.BadParameter(f"there is no file {str(file)!r}", param_hint="FILE")
    try:
        return file.read_bytes()
    except OSError as error:
        terminal.fail(f"{file} cannot be read: {error.strerror}.")


def _named(file: Path) -> str:
    return "What was typed" if str(file) == "-" else str(file)


def _model(known: Catalog, name: str) -> Model:
    """The model of that name.

    Raises:
        typer.BadParameter: If there is none.
    """
    found = known.find(name)
    if found is None:
        near = ", ".join(get_close_matches(name, known.models)) or "none is like it"
        raise typer.BadParameter(f"there is no model {name!r}; near: {near}", param_hint="--model")
    return found


def _show(terminal: Terminal, found: Trial, came: int, model: str) -> None:
    """Show a person what came of it."""
    terminal.say(*_head(found, came))
    if found.facts:
        terminal.say("", f"Facts ({len(found.facts)}; turns in brackets)")
        terminal.say(*_facts(found.facts))
    if found.changed:
        terminal.say("", f"What would be sent ({len(found.messages)} messages; --json has all)")
        _table(terminal, found, model)
    if found.folded:
        terminal.say("", _lost(found.lost))


def _head(found: Trial, came: int) -> Iterator[str]:
    before, after = found.tokens_before, found.tokens_after
    share = f" ({after / before - 1:+.1%})".replace("-", "−") if before != after else ""  # noqa: RUF001
    yield f"{found.model}: {before:,} → {after:,} tokens{share}, tools included."
    why = _WHY.get(found.reason, _plain(found.reason.replace("_", " "), _WORDS))
    if found.mode == Mode.TRIM and found.changed:
        why = "trim goes no further"
    if found.folded:
        yield f"Folded: facts stand for {found.folded_messages} of {came} messages; {why}."
    elif found.changed:
        yield f"Not folded: {why}. Only tool results are said shorter, without loss."
    else:
        yield f"Not folded: {why}. It would be sent as it came."
    if found.break_even is not None:
        yield f"N* = {found.break_even:.1f}: so many calls, this one included, pay a fold back."


def _facts(facts: tuple[Fact, ...]) -> Iterator[str]:
    """The facts by kind, in the order in which kinds first come; some of each."""
    order = {kind: at for at, kind in enumerate(dict.fromkeys(fact.kind for fact in facts))}
    for kind, group in groupby(
        sorted(facts, key=lambda fact: order[fact.kind]), lambda fact: fact.kind
    ):
        every = list(group)
        yield f"  {kind} ({len(every)})"
        for fact in every[:_FACTS]:
            turns = ",".join(map(str, fact.turns))
            yield f"    [{turns}] {_plain(fact.text, _WORDS)}"
        if len(every) > _FACTS:
            yield f"    and {len(every) - _FACTS:,} more"


def _table(terminal: Terminal, found: Trial, model: str) -> None:
    """The messages, of many the first and the last."""
    counter, total = Tokens(), len(found.messages)
    table = grid("", "role", "tokens", "begins", right=("", "tokens"))
    for at, raw in enumerate(found.messages):
        if _MESSAGES <= at < total - _MESSAGES:
            if at == _MESSAGES:
                table.add_row("…", "", "", f"{total - 2 * _MESSAGES:,} more")
            continue
        role, text = _said(bytes(raw))
        body = b'{"messages":[' + bytes(raw) + b"]}"
        tokens = counter.prompt_tokens(body, "chat/completions", model)
        table.add_row(str(at), role, f"{tokens:,}", _plain(text, _WORDS))
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


_message = msgspec.json.Decoder(_Message).decode


def _said(raw: bytes) -> tuple[str, str]:
    """Who says a message, and what."""
    try:
        message = _message(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return "", raw.decode(errors="replace")
    content = message.content or ""
    texts = [content] if isinstance(content, str) else [one.text or one.type for one in content]
    made = [one.function for one in message.tool_calls or ()]
    calls = [f"{one.name}({one.arguments})" for one in made]
    return message.role, " ".join(filter(None, (*texts, *calls)))


def _lost(lost: tuple[str, ...]) -> str:
    if not lost:
        return "Lost: no id, amount, date or path of the folded messages."
    shown = ", ".join(_plain(each, _VALUE) for each in lost[:_LOST])
    more = f" and {len(lost) - _LOST:,} more" if len(lost) > _LOST else ""
    count = f"{len(lost):,}{' or more' if len(lost) >= _NAMED else ''}"
    return f"Lost, though the caller's own copy still has it ({count}): {shown}{more}."


def _plain(text: str, most: int) -> str:
    """The text on one line, cut, and without what would move a terminal's cursor."""
    line = " ".join(text[: 4 * most].split())
    line = "".join(each if each.isprintable() else "�" for each in line)
    return line if len(line) <= most else line[: most - 1] + "…"
