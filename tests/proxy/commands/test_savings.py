from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.commands.savings import misses, savings
from proxy.receipt import Receipt
from slo.usage import Usage
from tests.fakes.receipts import START, a_receipt
from tests.fakes.typed import Typed, alone

SAVINGS, MISSES = alone(savings), alone(misses)


@pytest.fixture
def typed(tmp_path: Path) -> Typed:
    return Typed(tmp_path, START + 86_400)


def a_call(n: int, **changes: Any) -> Receipt:
    is_control = n % 3 == 0
    fields: dict[str, Any] = {
        "team": "team_0",
        "feature": "",
        "conversation": f"{n}",
        "arm": "control" if is_control else "treated",
        "usage": Usage(input=1000 + n % 17, cache_read=0 if is_control else 1000),
        "cost_nanos": 300_000_000 + n,
    }
    return a_receipt(n, **(fields | changes))


def test_without_planned_calls_there_is_nothing_to_tell(typed: Typed) -> None:
    assert "No planned calls in the last 3 days." in typed.said(SAVINGS, "--days", "3")
    assert "No cache was missed" in typed.said(MISSES)


def test_savings_come_with_their_interval_and_both_hit_rates(typed: Typed) -> None:
    typed.keep(*(a_call(n) for n in range(300)))
    said = typed.said(SAVINGS)

    assert "team_0  (none)" in said
    assert "200      100" in said
    assert "49.8% (49.8% … 49.9%)" in said
    assert "49.8%     0.0%" in said
    assert "59.5" in said
    assert "measured" in said


def test_too_little_is_said_to_be_too_little(typed: Typed) -> None:
    typed.keep(*(a_call(n, feature="chat") for n in range(1, 3)))
    said = typed.said(SAVINGS)

    assert "unknown" in said
    assert "not enough: 0 conversations in the smaller arm; 50 are needed" in said
    assert "none" in said


def test_misses_come_with_their_price_an_example_and_the_mend(typed: Typed) -> None:
    typed.keep(
        a_call(1, miss="diverged", miss_tokens=2_000, miss_nanos=6_000_000),
        a_call(2, miss="of_tomorrow", miss_tokens=5),
    )
    lines = typed.said(MISSES).splitlines()

    assert lines[1].split() == [
        "team_0",
        "(none)",
        "diverged",
        "1",
        "2,000",
        "0.006",
        a_receipt(1).call_id,
    ]
    assert lines[2].split()[2:6] == ["of_tomorrow", "1", "5", "unknown"]
    assert lines[3].startswith("diverged: Move what varies behind")
    assert len(lines) == 4


def test_misses_may_be_one_teams_by_its_name_or_id(typed: Typed) -> None:
    store = typed.open()
    acme = store.teams.create("acme", now=START)
    store.close(5)
    typed.keep(
        a_call(1, miss="diverged", miss_tokens=2_000, team=acme.id),
        a_call(2, miss="expired", miss_tokens=1_000),
    )
    everybodys = typed.said(MISSES)

    assert "team_0" in everybodys
    assert "diverged" in everybodys
    for name in ("acme", acme.id):
        said = typed.said(MISSES, "--team", name)
        assert "diverged" in said
        assert "expired" not in said
    assert "no team named nobody" in typed.refused(MISSES, "--team", "nobody")


def test_the_feature_that_misses_for_most_money_comes_first(typed: Typed) -> None:
    typed.keep(
        a_call(1, feature="a", miss="diverged", miss_tokens=9, miss_nanos=2_000_000),
        a_call(2, feature="b", miss="expired", miss_tokens=9, miss_nanos=1_000_000),
        a_call(4, feature="b", miss="diverged", miss_tokens=9, miss_nanos=1_500_000),
        a_call(5, feature="c", miss="expired", miss_tokens=9),
    )
    rows = [line.split()[1:3] for line in typed.said(MISSES).splitlines()[1:5]]

    assert rows == [["b", "diverged"], ["b", "expired"], ["a", "diverged"], ["c", "expired"]]


def test_on_a_narrow_terminal_ids_and_findings_stay_whole(typed: Typed) -> None:
    typed.width = 80
    missed = a_call(
        1, feature="a-feature-of-a-long-name", miss="diverged", miss_tokens=2_000, miss_nanos=1
    )
    typed.keep(missed)
    misses_said, savings_said = typed.said(MISSES), typed.said(SAVINGS)

    assert f"  example: {missed.call_id}\n" in misses_said
    assert "smaller arm; 50 are needed" in " ".join(savings_said.split())
    assert all(len(line) <= 80 for line in (misses_said + savings_said).splitlines())


def test_as_json_both_are_one_document_each(typed: Typed) -> None:
    assert orjson.loads(typed.said(MISSES, "--json")) == {"days": 30, "misses": []}
    typed.keep(
        *(a_call(n) for n in range(300)),
        a_call(301, miss="expired", miss_tokens=500, miss_nanos=1_500_000_000),
    )
    (saving,) = orjson.loads(typed.said(SAVINGS, "--json"))["savings"]
    (miss,) = orjson.loads(typed.said(MISSES, "--json", "--days", "3"))["misses"]

    assert (saving["team"], saving["feature"], saving["finding"]) == ("team_0", "", "measured")
    assert (miss["reason"], miss["tokens"], miss["cost_usd"]) == ("expired", 500, "1.5")
