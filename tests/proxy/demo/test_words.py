import ast
import shlex
from io import StringIO
from typing import Any

import orjson
import pytest
from rich.console import Console

from proxy.demo import words
from proxy.demo.result import Result
from proxy.demo.traffic import Sent
from slo.usage import Usage
from tests.proxy.demo.scripts import Says, plan
from tests.proxy.demo.test_spending import a_spend

URL, KEY = "http://127.0.0.1:8080/v1", "tg-key"


def a_sent(**changes: Any) -> Sent:
    (planned,) = plan(Says("Hello!"))
    return Sent(**{"planned": planned, "call_id": "call_1", **changes})


def a_result(*sent: Sent, **changes: Any) -> Result:
    fields: dict[str, Any] = {
        "sent": sent,
        "seconds": 2.0,
        "rows": (a_spend(),),
        "total": (a_spend(team=None),),
        "names": {"team_1": "acme"},
        "ledger_calls": len(sent),
        "lacking": (),
    }
    return Result(**(fields | changes))


def said(result: Result) -> str:
    out = StringIO()
    words.outcome(Console(file=out, width=80), result)
    return out.getvalue()


def test_the_outcome_says_that_the_upstream_is_simulated() -> None:
    text = said(a_result(a_sent(ttft=0.05)))

    assert "simulated" in text
    assert "1 calls were answered, 1 are there, each exactly once" in text
    assert "after 50 ms" in text


def test_a_low_hit_rate_is_explained() -> None:
    low = a_spend(team=None, usage=Usage(input=100))

    assert "Hit rate: " in said(a_result(a_sent(), total=(low,)))
    assert "Hit rate: " not in said(a_result(a_sent()))


def test_what_the_ledger_lacks_is_named() -> None:
    assert "call_7" in said(a_result(a_sent(), lacking=("call_7",)))


def test_some_errors_are_shown_and_the_rest_counted() -> None:
    text = said(a_result(*(a_sent(error=f"broken [{n}]") for n in range(8))))

    assert text.count("Failed: ") == 5
    assert "and 3 more failed" in text
    assert "broken [0]" in text


def test_nothing_sent_is_said_without_a_rate() -> None:
    assert "0 calls in 0.0 s, 0 a second." in said(a_result(seconds=0.0, total=()))


def test_no_line_is_longer_than_a_terminal() -> None:
    out = StringIO()
    words.opening(Console(file=out, width=80), 200, URL)
    lines = [*out.getvalue().splitlines(), *said(a_result(a_sent(ttft=0.1))).splitlines()]

    assert max(map(len, lines)) <= 88


def test_the_curl_line_is_one_shell_command_with_a_json_body() -> None:
    curl, _ = words.commands(URL, KEY)
    program, *arguments = shlex.split(curl)

    assert program == "curl"
    assert f"{URL}/chat/completions" in arguments
    assert f"Authorization: Bearer {KEY}" in arguments
    assert orjson.loads(arguments[-1])["messages"]
    assert "\n" not in curl


def test_the_snippet_is_python() -> None:
    _, snippet = words.commands(URL, KEY)

    assert ast.parse(snippet).body
    assert KEY in snippet


@pytest.mark.parametrize("width", [40, 80])
def test_commands_are_printed_unbroken(width: int) -> None:
    out = StringIO()
    words.invitation(Console(file=out, width=width), URL, KEY, "folder")
    curl, snippet = words.commands(URL, KEY)

    assert curl in out.getvalue()
    assert snippet in out.getvalue()
