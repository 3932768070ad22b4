from collections.abc import Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest

from proxy.commands.alerts import alerts
from proxy.settings import Settings
from slo.alert import resolved
from slo.promises.file import Promises
from slo.promises.sinks import SinkKind
from tests.fakes.alerts import NOW, POISON, a_sink, an_alert, posted
from tests.fakes.server import Server, head, serving
from tests.fakes.standing import standing
from tests.fakes.typed import Typed

HOOK = a_sink(name="hook", url_env="A_TEST_S_URL", secret_env="A_TEST_S_SECRET")


def showing(*sinks):
    promised = Promises(sinks=sinks)
    return lambda terminal: alerts(terminal, Settings, lambda _: promised)


@pytest.fixture
def typed(tmp_path):
    return Typed(tmp_path, NOW)


@contextmanager
def answering(status: int) -> Iterator[Server]:
    @asynccontextmanager
    async def made():
        async with serving([head(status, "content-length: 0")]) as server:
            yield server

    with standing(made) as server:
        yield server


@pytest.fixture
def known(monkeypatch):
    """Says what the test's variables hold."""

    def say(server: Server) -> None:
        monkeypatch.setenv("A_TEST_S_URL", f"http://127.0.0.1:{server.port}/xyzzy")
        monkeypatch.setenv("A_TEST_S_SECRET", "s3cret")

    return say


def test_nothing_wrong_is_said_so(typed):
    assert typed.said(showing()).strip() == "Nothing is wrong."


def test_what_is_wrong_and_what_was_told_is_shown(typed):
    store = typed.open()
    outbox = store.outbox
    least = {"hook": HOOK.at_least}
    outbox.put([an_alert(), resolved(an_alert("over"), NOW)], least, NOW)
    outbox.sent(outbox.due("hook", NOW, 9, 60), NOW, lambda _: None)
    outbox.put([an_alert(POISON, title=f"poison {POISON}")], least, NOW)
    outbox.failed(outbox.due("hook", NOW, 9, 60), "it answered 500", NOW + 9)
    outbox.put([an_alert("refused")], least, NOW)
    outbox.failed(outbox.due("hook", NOW, 9, 60), "it answered 400", None)
    store.close(5)
    said = typed.said(showing(HOOK))

    assert "page      2026-09-21 14:13 UTC  chat-ttft burns its error budget" in said
    assert "hook  2026-09-21 14:13 UTC  open" in said
    assert "hook  2026-09-21 14:13 UTC  resolved" in said
    assert "open, is tried again: it answered 500" in said
    assert "open, was given up: it answered 400" in said
    assert "\x1b" not in said
    assert not any(line.startswith("INJECTED") for line in said.splitlines())


def test_a_test_message_is_sent_and_its_fate_told(typed, known):
    with answering(200) as server:
        known(server)
        said = typed.said(showing(HOOK), "test", "hook")

    assert said.strip() == "The sink hook took the message."
    assert posted(server.got[0])["data"]["alerts"][0]["kind"] == "test"


def test_a_sink_that_takes_no_message_fails_the_test(typed, known):
    with answering(404) as server:
        known(server)
        said = typed.refused(showing(HOOK), "test", "hook")

    assert said == "The sink hook did not take the message: it answered 404."


def test_a_sink_that_is_unknown_or_has_no_address_is_told(typed):
    slack = a_sink(SinkKind.SLACK, name="chat", url_env="NOBODY_SETS_THIS")

    assert "there are: chat." in typed.refused(showing(slack), "test", "hook")
    assert "there are: none." in typed.refused(showing(), "test", "hook")
    assert "NOBODY_SETS_THIS is not set" in typed.refused(showing(slack), "test", "chat")
