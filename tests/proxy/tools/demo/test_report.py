from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from proxy.tools.demo.conversation import Message
from proxy.tools.demo.report import ReportScript, reports

NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)
MODELS = ("gpt-5.6-terra", "gpt-5.5")


def prompt(report: ReportScript, turn: int = 0) -> list[Message]:
    messages: list[Message] = report.body(turn, NOON, [None] * turn)["messages"]
    return messages


def objects(schema: object) -> Iterator[dict[str, Any]]:
    """The schema's objects, however deep."""
    if isinstance(schema, dict):
        if schema.get("type") == "object":
            yield schema
        for part in schema.values():
            yield from objects(part)


def test_the_header_comes_first_and_the_style_after_it() -> None:
    report = reports("2", MODELS)[0]
    content = prompt(report)[0]["content"]
    assert content.startswith(f"Report {report.number}: {report.title}\nDate: 03 November 2026\n")
    assert content.endswith(report.style)


def test_reports_differ_in_their_first_line() -> None:
    lines = [prompt(report)[0]["content"].splitlines()[0] for report in reports("2", MODELS)]
    assert len(set(lines)) == len(lines)


def test_sections_of_a_report_share_all_but_the_user_message() -> None:
    for report in reports("2", MODELS):
        prompts = [prompt(report, turn) for turn in range(report.length)]
        assert len({system["content"] for system, _ in prompts}) == 1
        assert len({user["content"] for _, user in prompts}) == report.length


def test_each_prompt_stands_alone_whatever_was_answered() -> None:
    report = reports("2", MODELS)[0]
    said = {"role": "assistant", "content": "{}"}
    assert report.body(1, NOON, [said]) == report.body(1, NOON, [None])


def test_the_schema_is_one_that_strict_mode_accepts() -> None:
    # Source: OpenAI, structured outputs, 2026-11: every property required, no others allowed.
    form = reports("2", MODELS)[0].body(0, NOON, [])["response_format"]["json_schema"]
    assert form["strict"] is True
    found = list(objects(form["schema"]))
    assert len(found) == 3
    for each in found:
        assert set(each["required"]) == each["properties"].keys()
        assert each["additionalProperties"] is False


def test_a_seed_decides_order_and_numbers() -> None:
    one, other, again = (
        [(report.title, report.number) for report in reports(seed, MODELS)]
        for seed in ("1", "2", "1")
    )
    assert one == again != other


def test_the_models_take_turns() -> None:
    assert [report.model for report in reports("2", MODELS)][:3] == [*MODELS, MODELS[0]]
