"""Probes and Prometheus are answered without a key."""

import pytest

from proxy.pages.health import health_router
from tests.fakes.pages import page


@pytest.mark.parametrize(
    ("troubles", "status", "word"), [([], 200, "ready"), (["The disk is full."], 503, "not ready")]
)
def test_readyz_says_what_is_not_ready(troubles, status, word):
    pages = health_router(lambda: troubles, list, lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        status,
        {"status": word, "troubles": troubles},
    )


def test_healthz_is_ok_while_the_process_answers():
    pages = health_router(lambda: ["all is lost"], list, lambda: b"")

    assert page(pages, "/healthz", headers={"authorization": ""})[:2] == (200, {"status": "ok"})


def test_the_metrics_page_returns_the_text_of_prometheus():
    status, text, headers = page(health_router(list, list, lambda: b"up 1\n"), "/metrics")

    assert (status, text) == (200, b"up 1\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


def test_readyz_shows_notes_that_do_not_make_it_fail():
    pages = health_router(list, lambda: ["The reload failed."], lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        200,
        {"status": "ready", "troubles": [], "notes": ["The reload failed."]},
    )
