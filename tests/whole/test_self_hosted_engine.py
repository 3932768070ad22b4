"""Real engines behind the gateway: speculation and cached prefixes in receipts, and their death."""

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

import httpx2
import pytest

from proxy.cli.engines.engine_processes import supervision_ports
from proxy.engines.state.replica_report import ProcessState
from proxy.records.receipt import Outcome, PhasesFrom
from proxy.tools.engine_demo.measure import SYSTEM, conversation, long_system
from proxy.tools.engine_demo.profiles import DRAFTED, NGRAM, PLAIN
from proxy.tools.engine_demo.session import engine_demo_session
from tests.fakes.background_loop import running_in_thread
from tests.fakes.tiny_engine import needs_wheel

pytestmark = [needs_wheel, pytest.mark.xdist_group("self_hosted_engine")]
QUESTION = "Which plans are there?"
_NOW = datetime(2026, 11, 26, tzinfo=UTC)
_PATIENCE_S = 60.0


def real_machine():
    return supervision_ports(_NOW.timestamp)


@pytest.fixture(scope="module")
def engine_session():
    """Three engines and a gateway, for all tests of this file."""
    with running_in_thread(
        lambda: engine_demo_session(now=_NOW, port=0, price_per_hour="0.10", ports=real_machine)
    ) as session:
        yield session


@pytest.fixture
def ask(engine_session):
    """Sends a call through the gateway: its status, its text as it came, and its receipt."""

    def send(model, messages, *, on_text=lambda: None, **fields):
        body = {"model": model, "messages": messages, "stream": True, "temperature": 0, **fields}
        headers = {"authorization": f"Bearer {engine_session.key}"}
        url = f"{engine_session.base_url}/chat/completions"
        with httpx2.stream("POST", url, json=body, headers=headers, timeout=_PATIENCE_S) as answer:
            text = ""
            for piece in answer.iter_text():
                text += piece
                on_text()
        return answer.status_code, text, receipt(answer.headers["x-request-id"])

    def receipt(call_id):
        store = engine_session.gateway.store
        assert store.drain.flush(20)
        return next(attempt for attempt in store.ledger.attempts(call_id) if attempt.final)

    return send


def engine(engine_session, name):
    port = str(engine_session.profiles[name].port)
    return next(report for report in engine_session.reports() if report.name == port)


def wait_until(condition):
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kill(engine_session, name):
    """Kill an engine; a function that waits until it was started again."""
    pid = engine(engine_session, name).pid
    os.kill(pid, signal.SIGKILL)

    def has_restarted():
        report = engine(engine_session, name)
        return report.state is ProcessState.READY and report.pid not in {0, pid}

    return lambda: wait_until(has_restarted)


def test_the_receipt_of_an_engine_with_a_draft_model_has_its_acceptance_and_phases(ask):
    status, text, receipt = ask(DRAFTED, conversation(SYSTEM, QUESTION))

    assert status == 200
    assert text.endswith("data: [DONE]\n\n")
    assert receipt.usage.generated_tokens > 20
    assert receipt.draft_tokens >= receipt.accepted_tokens > 0.4 * receipt.draft_tokens
    assert receipt.phases_from is PhasesFrom.BOTH
    assert 0 < receipt.decode < receipt.duration


def test_the_committed_model_answers_as_its_text_says(ask):
    _, text, _ = ask(PLAIN, conversation(SYSTEM, "Can I get a refund for a label I did not use?"))
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
    answer = "".join(delta.get("content") or "" for delta in deltas)

    assert answer.startswith("Yes. A label without a scan can be refunded for 28 days")
    assert answer.endswith("the sum then appears as balance.")


def test_the_receipt_of_an_engine_with_ngrams_counts_what_a_repeated_answer_accepts(ask):
    messages = conversation(SYSTEM, QUESTION)
    answer = (
        "Starter is free with up to 50 labels a month. Team costs a monthly fee and has members,"
        " roles and exports. Works adds several pick-up addresses, the API and volume prices."
    )
    again = [*messages, {"role": "assistant", "content": answer}, messages[-1]]
    _, _, receipt = ask(NGRAM, again)

    assert receipt.draft_tokens >= receipt.accepted_tokens > 0.4 * receipt.draft_tokens


def test_the_receipt_of_an_engine_counts_the_prefix_that_it_had_cached(ask):
    system = long_system("of this test")
    _, _, cold = ask(PLAIN, conversation(system, "Hello!"), max_tokens=2)
    _, _, warm = ask(PLAIN, conversation(system, QUESTION), max_tokens=2)

    assert cold.usage.cache_read < 100
    assert warm.usage.cache_read > 0.9 * warm.usage.prompt_tokens > 1_000
    assert warm.prefill < cold.prefill


def test_an_engine_killed_while_it_streams_breaks_the_call_and_is_started_again(
    engine_session, ask
):
    restarted: list[Callable[[], None]] = []

    def kill_once():
        if not restarted:
            restarted.append(kill(engine_session, PLAIN))

    messages = conversation(SYSTEM, QUESTION)
    status, text, receipt = ask(
        PLAIN, messages, on_text=kill_once, max_tokens=2_000, ignore_eos=True
    )
    restarted[0]()

    assert status == 200
    assert '"error"' in text
    assert receipt.outcome is Outcome.BROKEN
    assert receipt.estimated
    assert 0 < receipt.usage.generated_tokens < 2_000
    assert ask(PLAIN, messages, max_tokens=4)[2].outcome is Outcome.ANSWERED


def test_an_engine_killed_while_it_reads_a_prompt_fails_the_call_and_is_started_again(
    engine_session, ask
):
    restarted: list[Callable[[], None]] = []

    def kill_soon():
        wait_until(lambda: is_busy(engine_session, PLAIN))
        restarted.append(kill(engine_session, PLAIN))

    killer = threading.Thread(target=kill_soon)
    killer.start()
    status, _, receipt = ask(PLAIN, conversation(long_system("that fails"), QUESTION))
    killer.join()
    restarted[0]()

    assert status >= 500
    assert receipt.outcome is Outcome.FAILED
    assert ask(PLAIN, conversation(SYSTEM, QUESTION), max_tokens=4)[0] == 200


def is_busy(engine_session, name):
    """True while the engine works on a call."""
    metrics = httpx2.get(engine(engine_session, name).metrics_url, timeout=10).text
    return "llamacpp:requests_processing 1" in metrics
