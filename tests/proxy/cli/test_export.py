from pathlib import Path

import orjson
import pytest

from proxy.cli.export import export
from proxy.store.sql import ledger
from proxy.tools.replay.lines import parse_line
from tests.fakes.cli_runner import CommandRunner, single_command
from tests.fakes.receipts import START, a_receipt

EXPORT = single_command(export)
PROMPT = '{"model":"m","messages":[{"role":"user","content":"Good morning."}]}'


@pytest.fixture
def typed(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, START + 60)


def test_what_is_exported_is_what_replay_reads(typed: CommandRunner) -> None:
    typed.keep(a_receipt(1, prompt=PROMPT), a_receipt(2))
    kept, unkept = map(orjson.loads, typed.said(EXPORT).splitlines())

    read = parse_line(orjson.dumps(kept))
    assert (read.at, read.key, read.feature) == (START + 1, "key_1", "support")
    assert orjson.loads(read.body)["messages"][0]["content"] == "Good morning."
    assert "prompt" not in unkept


def test_every_attempt_is_there_once_in_order_however_many(
    typed: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "_RECEIPTS_PER_READ", 3)
    receipts = [a_receipt(n) for n in range(7)]
    first = receipts[2]
    again = a_receipt(2, attempt=1)
    typed.keep(*receipts[:2], a_receipt(2, final=False), again, *receipts[3:])
    found = [orjson.loads(each) for each in typed.said(EXPORT).splitlines()]

    assert [each["call_id"] for each in found] == sorted(
        [*(each.call_id for each in receipts), first.call_id]
    )
    assert [each.get("attempt", 0) for each in found if each["call_id"] == first.call_id] == [0, 1]


def test_a_teams_calls_of_some_days_alone(typed: CommandRunner) -> None:
    typed.now = START + 90_000
    store = typed.open()
    team = store.teams.create("acme", now=START)
    store.close(5)
    typed.keep(a_receipt(1), a_receipt(2, team=team.id), a_receipt(80_000, team=team.id))

    assert len(typed.said(EXPORT).splitlines()) == 3
    assert len(typed.said(EXPORT, "--team", "acme").splitlines()) == 2
    assert len(typed.said(EXPORT, "--days", "1").splitlines()) == 1
    assert "no team named nobody" in typed.refused(EXPORT, "--team", "nobody")
