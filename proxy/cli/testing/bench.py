"""``thriftgate bench latency``: TTFT, ITL and throughput of any OpenAI-compatible URL."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from proxy.cli.terminal import AsJson, Terminal

if TYPE_CHECKING:
    from proxy.tools.bench.chat_client import BenchTarget
    from proxy.tools.bench.latency_run import LatencyPlan

_T = TypeVar("_T")

_Url = Annotated[
    str,
    typer.Argument(
        metavar="URL", help="Base URL, such as http://127.0.0.1:8000/v1; /v1 may be left out."
    ),
]
_Model = Annotated[str, typer.Option(help="The model to ask; the first one that the URL lists.")]
_KeyEnv = Annotated[
    str,
    typer.Option(
        metavar="NAME", help="Environment variable that holds the key; no key is sent without."
    ),
]
_Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="'NAME: VALUE'", help="Sent with every call; may be repeated."
    ),
]
_ExtraBody = Annotated[
    str, typer.Option(metavar="JSON", help="Fields added to every call, as a JSON object.")
]
_Concurrency = Annotated[
    str, typer.Option(metavar="N,…", help="Callers at once, each number in turn.")
]
_PromptTokens = Annotated[
    str, typer.Option(metavar="N,…", help="Lengths of prompts, in the server's own tokens.")
]
_OutputTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.", min=2)]
_Prefix = Annotated[
    str,
    typer.Option(
        metavar="cold,warm",
        help="cold: prompts are new from their first token on; warm: they share their beginning.",
    ),
]
_SharedPrefix = Annotated[
    float, typer.Option(help="Part of a warm prompt that all share.", min=0.01, max=0.99)
]
_Requests = Annotated[
    int, typer.Option(help="Most measured calls of each combination.", min=1, max=100_000)
]
_Duration = Annotated[
    float, typer.Option(help="Seconds after which a combination starts no further call.", min=0.1)
]
_Warmup = Annotated[
    int, typer.Option(help="Calls of each caller that are not measured.", min=0, max=100)
]
_Timeout = Annotated[float, typer.Option(help="Seconds after which a call fails.", min=0.1)]
_Goodput = Annotated[
    str,
    typer.Option(
        metavar="ttft:MS,itl:MS,e2el:MS", help="Limits; calls within all of them are goodput."
    ),
]
_Plot = Annotated[
    Path | None, typer.Option(metavar="FILE.png", help="Draw the chart; needs the extra [plots].")
]
_Save = Annotated[
    Path | None, typer.Option(metavar="FILE.json", help="Write the JSON document to a file, too.")
]


def bench(terminal: Terminal) -> typer.Typer:
    """The commands that measure servers."""
    commands = typer.Typer(no_args_is_help=True, help="Measure any OpenAI-compatible server.")
    commands.callback()(lambda: None)
    _add_latency(commands, terminal)
    return commands


def _add_latency(commands: typer.Typer, terminal: Terminal) -> None:
    @commands.command("latency")
    def latency(  # noqa: PLR0913 - a command's options
        url: _Url,
        *,
        model: _Model = "",
        key_env: _KeyEnv = "",
        header: _Headers = None,
        extra_body: _ExtraBody = "{}",
        concurrency: _Concurrency = "1,4,16",
        prompt_tokens: _PromptTokens = "128,2048",
        output_tokens: _OutputTokens = 128,
        prefix: _Prefix = "cold,warm",
        shared_prefix: _SharedPrefix = 0.9,
        requests: _Requests = 32,
        duration: _Duration = 30.0,
        warmup: _Warmup = 1,
        timeout: _Timeout = 120.0,
        goodput: _Goodput = "",
        plot: _Plot = None,
        save: _Save = None,
        as_json: AsJson = False,
    ) -> None:
        """Measure TTFT, ITL and tokens/s of an OpenAI-compatible URL, cold and warm.

        It streams chat completions by a number of callers at once, for each combination of
        callers, prompt length and prefix. Calls that a server charges for are charged for.
        """
        options = _LatencyOptions(
            url, model, key_env, header or [], extra_body, concurrency, prompt_tokens,
            output_tokens, prefix, shared_prefix, requests, duration, warmup, timeout, goodput,
        )  # fmt: skip
        _measure_latency(terminal, options, plot=plot, save=save, as_json=as_json)


class _LatencyOptions(NamedTuple):
    """The options of a run, as they were typed."""

    url: str
    model: str
    key_env: str
    headers: list[str]
    extra_body: str
    concurrency: str
    prompt_tokens: str
    output_tokens: int
    prefix: str
    shared_prefix: float
    requests: int
    duration: float
    warmup: int
    timeout: float
    goodput: str

    def target(self) -> BenchTarget:
        """The server that is measured."""
        from proxy.tools.bench.chat_client import BenchTarget, base_url

        return BenchTarget(
            base_url=_option("URL", base_url, self.url),
            key_env=self.key_env,
            headers=dict(_option("--header", _header, option) for option in self.headers),
            extra_body=_option("--extra-body", _json_object, self.extra_body),
            timeout_s=self.timeout,
        )

    def plan(self) -> LatencyPlan:
        """The calls of the run, with prompts that no other run has."""
        from proxy.tools.bench.latency_run import LatencyPlan
        from proxy.tools.bench.latency_summary import parse_goodput
        from proxy.tools.bench.prompts import PrefixState

        return LatencyPlan(
            model=self.model,
            concurrency=_option("--concurrency", _numbers, self.concurrency),
            prompt_tokens=_option("--prompt-tokens", _numbers, self.prompt_tokens),
            prefixes=_option(
                "--prefix", lambda text: tuple(map(PrefixState, text.split(","))), self.prefix
            ),
            output_tokens=self.output_tokens,
            calls=self.requests,
            seconds=self.duration,
            warmup=self.warmup,
            shared_share=self.shared_prefix,
            limits_ms=_option("--goodput", parse_goodput, self.goodput),
            seed=secrets.token_hex(4),
        )


def _measure_latency(
    terminal: Terminal,
    options: _LatencyOptions,
    *,
    plot: Path | None,
    save: Path | None,
    as_json: bool,
) -> None:
    from proxy.cli.testing.latency_measurement import LatencyMeasurement
    from proxy.errors import OperatorError
    from proxy.tools.bench.latency_chart import check_extra

    try:
        measured = LatencyMeasurement(terminal, options.target(), options.plan())
        if plot is not None:
            check_extra()
        measured.run()
    except OperatorError as error:
        terminal.fail(str(error))
    measured.show(plot=plot, save=save, as_json=as_json)


def _option(name: str, parse: Callable[[str], _T], text: str) -> _T:
    """The parsed text of an option; ends the command with the reason where it is wrong."""
    try:
        return parse(text)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r}: {error}.", param_hint=name) from error


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if not all(number > 0 for number in numbers):
        raise ValueError("numbers above 0 with commas between them")
    return tuple(dict.fromkeys(numbers))


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not (name.strip() and colon):
        raise ValueError("a name, a colon and a value")
    return name.strip().lower(), value.strip()


def _json_object(text: str) -> dict[str, Any]:
    import msgspec

    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise ValueError(f"no JSON object ({error})") from error
