import ast
import shlex
from io import StringIO
from typing import Any

import orjson
import pytest
from rich.console import Console

from proxy.records.feature_mode import LayoutScope
from proxy.tools.demo import messages
from proxy.tools.demo.baseline import CallTotals, CostBaseline
from proxy.tools.demo.result import DemoResult
from proxy.tools.demo.traffic import DemoCall
from tests.proxy.cli.reports.test_spending import a_spend
from tests.proxy.tools.demo.scripts import Says, plan

URL, KEY = "http://127.0.0.1:8080/v1", "tg-key"


def a_sent(**changes: Any) -> DemoCall:
    (planned,) = plan(Says("Hello!"))
    return DemoCall(**{"planned": planned, "call_id": "call_1", **changes})


def a_result(*demo_calls: DemoCall, **changes: Any) -> DemoResult:
    fields: dict[str, Any] = {
        "calls": demo_calls,
        "seconds": 2.0,
        "rows": (a_spend(),),
        "total": (a_spend(team=None),),
        "names": {"team_1": "acme"},
        "ledger_calls": len(demo_calls),
        "lacking": (),
    }
    return DemoResult(**(fields | changes))


def said(result: DemoResult) -> str:
    out = StringIO()
    messages.outcome(Console(file=out, width=80), result)
    return out.getvalue()


def test_the_outcome_says_that_the_upstream_is_simulated() -> None:
    text = said(a_result(a_sent(ttft=0.05)))

    assert "simulated" in text
    assert "1 call was answered, 1 is there, each exactly once" in text
    assert "after 50 ms" in text


def comparison_lines(**changes: Any) -> list[list[str]]:
    """The words of each line of the comparison."""
    sums = {"acme": CallTotals(prompt=4000, read=400, nanos=5_000_000_000)}
    applied = {"acme": CallTotals(prompt=4000, read=3000, nanos=1_000_000_000)}
    fields = {
        "otherwise": CostBaseline(sums, applied),
        "proposed": (LayoutScope("acme", "chat", "gpt"),),
    }
    text = said(a_result(a_sent(), **(fields | changes)))
    return [line.split() for line in text.splitlines()]


def test_a_teams_cost_stands_beside_its_direct_cost() -> None:
    lines = comparison_lines()

    assert ["acme", "1,200", "directly", "10.0%", "$5.00"] in lines
    assert ["through", "Thriftgate", "25.0%", "$2.50", "50", "%", "less"] in lines
    assert ["all", "1,200", "directly", "10.0%", "$5.00"] in lines
    assert lines[-1][-6:] == ["$2.50", "through", "Thriftgate", "(50", "%", "less)."]


def test_layouts_are_not_spoken_of_where_none_was_learned() -> None:
    words = [word for line in comparison_lines(proposed=()) for word in line]

    assert "through" in words
    assert "layouts" not in words


def test_a_higher_cost_is_reported_too_and_an_unknown_price_is_unknown() -> None:
    cheap, unknown = (
        CostBaseline({"acme": CallTotals(4000, 0, nanos)}) for nanos in (2_000_000_000, None)
    )

    assert ["through", "Thriftgate", "25.0%", "$2.50", "25", "%", "more"] in comparison_lines(
        otherwise=cheap, proposed=()
    )
    assert ["acme", "1,200", "directly", "0.0%", "unknown"] in comparison_lines(
        otherwise=unknown, proposed=()
    )
    assert ["through", "Thriftgate", "25.0%", "$2.50"] in comparison_lines(
        otherwise=unknown, proposed=()
    )


def test_a_features_cost_is_shown_by_the_order_of_its_prompts_per_1000_calls() -> None:
    orders = CostBaseline(
        {"variable first": CallTotals(4000, 0, 10_000_000, calls=2)},
        {"variable first": CallTotals(4000, 3000, 4_000_000, calls=2)},
    )
    lines = comparison_lines(orders=orders)

    assert ["variable", "first", "0.0%", "$5.00", "75.0%", "$2.00", "60", "%", "less"] in lines
    assert not any("variable" in line for line in comparison_lines())


def test_orders_come_first_and_the_last_two_are_said_to_have_marks_of_their_author() -> None:
    orders = CostBaseline(
        {order: CallTotals(4000, 0, 10_000_000, calls=2) for order in ("variable first", "other")},
        {order: CallTotals(4000, 0, 10_200_000, calls=2) for order in ("variable first", "other")},
    )
    text = " ".join(said(a_result(a_sent(), orders=orders)).split())

    assert text.index("built in three orders") < text.index("All three teams")
    assert "2 % more" in text
    assert "marks that stand elsewhere may cost a percent or two" in text


def test_without_an_answer_nothing_is_compared() -> None:
    assert "directly" not in said(a_result(a_sent()))


def test_the_invitation_asks_about_a_layout_where_one_is_proposed() -> None:
    out = StringIO()
    result = a_result(proposed=(LayoutScope("acme", "support chat", "gpt"),))
    messages.invitation(Console(file=out, width=40), URL, KEY, "folder", result)

    command = "thriftgate layout show acme 'support chat' --family gpt\n"
    assert f"THRIFTGATE_FOLDER=folder {command}" in out.getvalue()
    assert "export" not in out.getvalue()
    assert "thriftgate replay YOUR_LOG.jsonl" in out.getvalue().splitlines()


def test_calls_missing_from_the_ledger_are_named() -> None:
    assert "call_7" in said(a_result(a_sent(), lacking=("call_7",)))


def test_demo_shows_some_errors_and_counts_the_rest() -> None:
    text = said(a_result(*(a_sent(error=f"broken [{n}]") for n in range(8))))

    assert text.count("Failed: ") == 5
    assert "and 3 more failed" in text
    assert "broken [0]" in text


def test_a_demo_without_calls_shows_no_rate() -> None:
    assert "0 calls in 0.0 s, 0 a second." in said(a_result(seconds=0.0, total=()))


def test_no_line_is_longer_than_a_terminal() -> None:
    out = StringIO()
    messages.opening(Console(file=out, width=80), 200, URL)
    lines = [*out.getvalue().splitlines(), *said(a_result(a_sent(ttft=0.1))).splitlines()]

    assert max(map(len, lines)) <= 90


def test_the_curl_line_is_one_shell_command_with_a_json_body() -> None:
    curl, _ = messages.commands(URL, KEY)
    program, *arguments = shlex.split(curl)

    assert program == "curl"
    assert f"{URL}/chat/completions" in arguments
    assert f"Authorization: Bearer {KEY}" in arguments
    assert orjson.loads(arguments[-1])["messages"]
    assert "\n" not in curl


def test_the_snippet_is_python() -> None:
    _, snippet = messages.commands(URL, KEY)

    assert ast.parse(snippet).body
    assert KEY in snippet


@pytest.mark.parametrize("width", [40, 80])
def test_commands_are_printed_unbroken(width: int) -> None:
    out = StringIO()
    messages.invitation(Console(file=out, width=width), URL, KEY, "folder", a_result())
    curl, snippet = messages.commands(URL, KEY)

    assert curl in out.getvalue()
    assert snippet in out.getvalue()


def test_the_dashboard_comes_last_with_a_command_for_another_link() -> None:
    out = StringIO()
    url = "http://127.0.0.1:9301/admin/sign-in?code=abc"
    messages.dashboard(Console(file=out, width=40), url, "folder")

    lines = out.getvalue().splitlines()
    assert url in lines
    assert lines[-2].endswith("THRIFTGATE_FOLDER=folder THRIFTGATE_PORT=9301 thriftgate admin link")
