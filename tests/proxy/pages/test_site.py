"""Files that pages load, and pages over the wire."""

import gzip
from pathlib import Path

from dashboards import pages
from tests.fakes.admin_browser import Browser

STATIC = Path(pages.__file__).parent / "static"


def test_scripts_and_stylesheets_are_sent_compressed() -> None:
    for name in ("charts.js", "charts.css"):
        answer = Browser().get(f"/static/{name}", accept_encoding="gzip")
        assert (answer.status, answer.headers["content-encoding"]) == (200, "gzip")
        assert gzip.decompress(answer.body) == (STATIC / name).read_bytes()


def test_an_own_file_is_asked_for_again_and_not_sent_twice() -> None:
    browser = Browser()
    first = browser.get("/static/admin.css")
    assert (first.status, first.headers["cache-control"]) == (200, "public, no-cache")

    again = browser.get("/static/admin.css", if_none_match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")


def test_site_serves_no_other_file() -> None:
    for name in ("nothing.js", "../pages.py", "..%2fpages.py", "%2e%2e/pages.py"):
        assert Browser().get(f"/static/{name}").status == 404


def test_page_goes_compressed_to_a_browser_that_takes_that() -> None:
    browser = Browser()
    browser.sign_in()
    plain = browser.get("/replay")
    zipped = browser.get("/replay", accept_encoding="gzip, br")

    assert "content-encoding" not in plain.headers
    assert zipped.headers["content-encoding"] == "gzip"
    assert zipped.headers["content-length"] == str(len(zipped.body))
    assert plain.headers["vary"] == zipped.headers["vary"] == "accept-encoding"
    assert gzip.decompress(zipped.body) == plain.body


def test_answer_to_a_form_is_not_compressed_for_it_may_show_a_new_secret() -> None:
    browser = Browser()
    browser.sign_in()
    answer = browser.post("/replay", b"x=1", accept_encoding="gzip")

    assert answer.headers["content-type"].startswith("text/html")
    assert "content-encoding" not in answer.headers
