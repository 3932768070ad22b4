import pytest

from proxy.pages.health import router
from tests.fakes.pages import page


@pytest.mark.parametrize(
    ("troubles", "status", "word"), [([], 200, "ready"), (["The disk is full."], 503, "not ready")]
)
def test_readiness_says_what_is_not_ready(troubles, status, word):
    pages = router(lambda: troubles, list, lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        status,
        {"status": word, "troubles": troubles},
    )


def test_a_process_that_answers_lives_whatever_else_is_wrong():
    pages = router(lambda: ["all is lost"], list, lambda: b"")

    assert page(pages, "/healthz", headers={"authorization": ""})[:2] == (200, {"status": "ok"})


def test_metrics_are_told_as_they_are():
    status, text, headers = page(router(list, list, lambda: b"up 1\n"), "/metrics")

    assert (status, text) == (200, b"up 1\n")
    assert headers["content-type"].startswith("text/plain; version=0.0.4")


def test_notes_stand_beside_readiness_and_change_nothing_of_it():
    pages = router(list, lambda: ["The reload failed."], lambda: b"")

    assert page(pages, "/readyz", headers={"authorization": ""})[:2] == (
        200,
        {"status": "ready", "troubles": [], "notes": ["The reload failed."]},
    )
