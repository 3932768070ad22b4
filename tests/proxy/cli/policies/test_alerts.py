from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from proxy.cli.policies.alerts import alerts
from proxy.settings import Settings
from slo.alert import Severity, resolve_alert
from slo.policies.file import Policies
from slo.policies.sinks import SinkKind
from tests.fakes.alerts import NOW, POISON, a_sink, an_alert, json_of_post
from tests.fakes.background_loop import running_in_thread
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.server import Server, head, serving

HOOK = a_sink(name="hook", url_env="A_TEST_S_URL", secret_env="A_TEST_S_SECRET")


def alerts_command(*sinks):
    promised = Policies(sinks=sinks)
    return lambda terminal: alerts(terminal, Settings, lambda _: promised)


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


@contextmanager
def answering(status: int, body: bytes = b"") -> Iterator[Server]:
    @asynccontextmanager
    async def made():
        async with serving([head(status, f"content-length: {len(body)}"), body]) as server:
            yield server

    with running_in_thread(made) as server:
        yield server


@pytest.fixture
def set_variables(monkeypatch):
    """Says what the test's variables hold."""

    def say(server: Server) -> None:
        monkeypatch.setenv("A_TEST_S_URL", f"http://127.0.0.1:{server.port}/xyzzy")
        monkeypatch.setenv("A_TEST_S_SECRET", "s3cret")

    return say


def test_no_open_alert_is_reported_as_nothing_wrong(runner):
    assert runner.said(alerts_command()).strip() == "Nothing is wrong."


def test_open_alerts_and_their_deliveries_are_shown(runner):
    store = runner.open()
    outbox = store.outbox
    least = {"hook": HOOK.at_least}
    outbox.add([an_alert(), an_alert("over")], least, NOW)
    outbox.mark_sent(outbox.claim_due("hook", NOW, 9, 60), NOW, lambda _: None)
    outbox.add([resolve_alert(an_alert("over"), NOW)], least, NOW)
    outbox.mark_sent(outbox.claim_due("hook", NOW, 9, 60), NOW, lambda _: None)
    outbox.add([an_alert(POISON, title=f"poison {POISON}")], least, NOW)
    outbox.mark_failed(outbox.claim_due("hook", NOW, 9, 60), "it answered 500", NOW + 9)
    outbox.add([an_alert("refused")], least, NOW)
    outbox.mark_failed(outbox.claim_due("hook", NOW, 9, 60), "it answered 400", None)
    store.close(5)
    output = runner.said(alerts_command(HOOK))

    assert "page      2026-09-21 14:13 UTC  chat-ttft burns its error budget" in output
    assert "hook  2026-09-21 14:13 UTC  open" in output
    assert "hook  2026-09-21 14:13 UTC  resolved" in output
    assert "open, is tried again: it answered 500" in output
    assert "open, was given up: it answered 400" in output
    assert "\x1b" not in output
    assert not any(line.startswith("INJECTED") for line in output.splitlines())


def test_the_most_urgent_alerts_are_shown_and_the_others_counted(runner):
    notes = [
        an_alert(f"note {n}", severity=Severity.NOTE, title=f"note {n}", began=NOW)
        for n in range(60)
    ]
    store = runner.open()
    store.outbox.add([an_alert(title="old and urgent", began=NOW - 9_000), *notes], {}, NOW)
    store.close(5)
    output = runner.said(alerts_command())

    assert output.index("old and urgent") < output.index("note ")
    assert "11 more are open" in output


def test_a_test_arrives_as_an_alert_that_goes_on_and_says_that_it_is_one(runner, set_variables):
    with answering(200) as server:
        set_variables(server)
        output = runner.said(alerts_command(HOOK), "test", "hook")
    posted = json_of_post(server.got[0])
    (alert,) = posted["data"]["alerts"]

    assert output.startswith("The sink hook took the message")
    assert (posted["type"], posted["data"]["phase"]) == ("thriftgate.alerts.open", "open")
    assert (alert["kind"], alert["ended"], alert["severity"]) == ("test", None, "ticket")
    assert alert["title"].startswith("TEST: ")
    assert "thriftgate alerts test" in alert["fix"]


@pytest.mark.parametrize("severity", list(Severity))
def test_a_test_is_as_urgent_as_the_sink_wants_alerts_to_be(runner, set_variables, severity):
    pager = a_sink(
        name="pager", url_env="A_TEST_S_URL", secret_env="A_TEST_S_SECRET", at_least=severity
    )
    with answering(200) as server:
        set_variables(server)
        runner.said(alerts_command(pager), "test", "pager")

    assert json_of_post(server.got[0])["data"]["severity"] == severity.value


def test_an_alertmanager_is_notified_of_a_test_that_has_not_ended(runner, set_variables):
    manager = a_sink(SinkKind.ALERTMANAGER, name="manager", url_env="A_TEST_S_URL")
    with answering(200) as server:
        set_variables(server)
        runner.said(alerts_command(manager), "test", "manager")
    (alert,) = json_of_post(server.got[0])

    assert alert["labels"]["alertname"] == "ThriftgateTest"
    assert alert["endsAt"] > alert["startsAt"]


def test_people_on_slack_see_at_once_that_it_is_a_test(runner, set_variables):
    chat = a_sink(SinkKind.SLACK, name="chat", url_env="A_TEST_S_URL")
    with answering(200) as server:
        set_variables(server)
        runner.said(alerts_command(chat), "test", "chat")

    assert json_of_post(server.got[0])["text"].startswith("Ticket: TEST: this is a test")


def test_a_sink_that_takes_no_message_fails_the_test(runner, set_variables):
    with answering(404) as server:
        set_variables(server)
        error = runner.error_of(alerts_command(HOOK), "test", "hook")

    assert error == "The sink hook did not take the message: it answered 404."


def test_the_sinks_answer_is_shown_without_the_secrets_of_its_address(runner, set_variables):
    answer = b'{"error": "no hook at http://127.0.0.1/xyzzy (xyzzy)"}' + b" more" * 100
    with answering(404, answer) as server:
        set_variables(server)
        error = runner.error_of(alerts_command(HOOK), "test", "hook")

    assert "it answered 404. It was said: " in error
    assert '{"error": "no hook at [hidden] ([hidden])"} more more' in error
    assert "xyzzy" not in error
    assert len(error) < 300


def test_of_a_sink_that_cannot_be_reached_the_networks_words_are_told(runner, monkeypatch):
    monkeypatch.setenv("A_TEST_S_URL", "http://127.0.0.1:1/xyzzy")
    monkeypatch.setenv("A_TEST_S_SECRET", "s3cret")
    error = runner.error_of(alerts_command(HOOK), "test", "hook")

    assert "it cannot be reached (ConnectError). It was said: " in error
    assert "xyzzy" not in error


def test_a_sink_that_is_unknown_or_has_no_address_is_told(runner):
    slack = a_sink(SinkKind.SLACK, name="chat", url_env="NOBODY_SETS_THIS")

    assert "there are: chat." in runner.error_of(alerts_command(slack), "test", "hook")
    assert "there are: none." in runner.error_of(alerts_command(), "test", "hook")
    assert "NOBODY_SETS_THIS is not set" in runner.error_of(alerts_command(slack), "test", "chat")
