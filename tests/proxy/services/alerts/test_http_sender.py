import asyncio
import logging

import pytest

from proxy.services.alerts.http_sender import (
    DeliveryFailure,
    HttpMessage,
    HttpSender,
    rfc3339,
    without_secrets,
)
from proxy.services.alerts.notices import AppriseNotice
from tests.fakes.server import CLOSE, WAIT, Server, head, serving

OK = [head(200, "content-length: 2"), b"ok"]
MESSAGE = HttpMessage(b'{"a":1}', {"content-type": "application/json"})


def post_to(*answers, deadline=5.0, times=1):
    """The server after a post, and why it was not taken."""

    async def run() -> tuple[Server, DeliveryFailure | None]:
        async with serving(*answers) as server, HttpSender(deadline) as post:
            url, why = f"http://127.0.0.1:{server.port}/T0/xyzzy?k=xyzzy", None
            for _ in range(times):
                why = why or await post.send(url, MESSAGE)
            return server, why

    return asyncio.run(run())


def test_a_message_is_posted_as_it_is():
    server, why = post_to(OK)
    (request,) = server.got

    assert why is None
    assert request.line == "POST /T0/xyzzy?k=xyzzy HTTP/1.1"
    assert request.body == MESSAGE.body
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"] == "thriftgate"


@pytest.mark.parametrize(
    ("status", "is_refused"),
    [(400, True), (413, True), (422, True), (401, False), (404, False), (429, False), (500, False)],
)
def test_a_refusal_is_told_from_a_sink_at_fault(status, is_refused):
    _, why = post_to([head(status, "content-length: 0")])

    assert why is not None
    assert (why.reason, why.is_refused) == (f"it answered {status}", is_refused)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
    [("30", 30.0), ("Wed, 21 Oct 2026", None), ("9" * 9, None), ("-1", None)],
)
def test_a_sink_may_say_when_to_come_back(retry_after, seconds):
    _, why = post_to([head(429, "content-length: 0", f"retry-after: {retry_after}")])

    assert why is not None
    assert why.retry_after == seconds


def test_a_refusals_beginning_is_told_to_whoever_tests_and_not_in_its_words():
    _, why = post_to([head(403, "content-length: 12"), b"token\n is old"[:12]])

    assert why is not None
    assert (why.reason, why.detail) == ("it answered 403", "token is ol")


def test_a_refusal_without_end_is_read_for_its_beginning_alone():
    server, why = post_to([head(500), b"busy " * 10_000, WAIT])

    assert why is not None
    assert why.detail.startswith("busy busy")
    assert len(why.detail) == 200
    assert server.hung_up.is_set()


def test_a_refusal_whose_words_never_come_is_told_by_its_status():
    _, why = post_to([head(500, "content-length: 9"), WAIT], deadline=0.5)

    assert (why.reason, why.detail) == ("it answered 500", "")


def test_a_compressed_refusal_is_told_by_its_status():
    _, why = post_to([head(500, "content-encoding: gzip", "content-length: 3"), b"\x1f\x8b\x08"])

    assert (why.reason, why.detail) == ("it answered 500", "")


URL = "https://ann:p%40ssword@hooks.example/services/T0000/xyzzy-1?token=plugh&k=v1"


@pytest.mark.parametrize(
    "text",
    [
        "not at services/T0000/xyzzy-1",
        f"POST {URL} failed",
        "no such token plugh",
        "PLUGH is wrong",
        "ann:p@ssword is not known",
        "https:\\/\\/hooks.example\\/services\\/T0000\\/xyzzy-1",
        "bad header Bearer s3cr3t",
        "s3cr3t is revoked",
    ],
)
def test_no_part_of_an_address_and_no_token_is_told(text):
    redacted = without_secrets(text, url=URL, headers={"authorization": "Bearer s3cr3t"})

    for secret in ("xyzzy", "T0000", "plugh", "ssword", "s3cr3t"):
        assert secret not in redacted.lower()
    assert "[hidden]" in redacted


def test_a_secret_that_is_cut_off_is_not_told_by_its_beginning():
    url = "https://hooks.example/" + "k" * 5_000
    redacted = without_secrets((url + url)[: 8 * 1024], url=url, headers={})

    assert "kkkkk" not in redacted


def test_a_redirect_is_not_followed():
    server, why = post_to([head(307, "location: /elsewhere", "content-length: 0")])

    assert "redirects are not followed" in why.reason
    assert len(server.got) == 1


def test_a_sink_that_says_nothing_is_waited_for_no_longer_than_the_deadline():
    _, why = post_to([WAIT], deadline=0.1)

    assert why.reason == "it did not answer within 0.1 s"


def test_a_sink_that_answers_without_end_is_not_listened_to():
    server, why = post_to([head(200), b"x" * 100_000, WAIT])

    assert why is None
    assert server.hung_up.is_set()


def test_a_sink_that_hangs_up_or_is_not_there_has_not_taken_it():
    _, hung_up = post_to([CLOSE])

    async def nobody() -> DeliveryFailure | None:
        async with HttpSender() as post:
            return await post.send("http://127.0.0.1:1/xyzzy", MESSAGE)

    assert "cannot be reached" in hung_up.reason
    absent = asyncio.run(nobody())
    assert "cannot be reached" in str(absent)
    assert "xyzzy" not in str(absent)


def test_a_notice_goes_to_its_service():
    async def run(*answers) -> str:
        async with serving(*answers) as server, HttpSender(2) as post:
            apprise_notice = AppriseNotice(title="A title", body="A line", kind="info")
            failure = await post.send(f"json://127.0.0.1:{server.port}/xyzzy", apprise_notice)
            return server.got[0].line if failure is None else failure.reason

    assert asyncio.run(run(OK)).startswith("POST /xyzzy")
    assert asyncio.run(run([CLOSE])) == "the service did not take it"


def test_no_address_is_logged(caplog):
    caplog.set_level(logging.DEBUG)
    post_to(OK)
    post_to([CLOSE])

    assert "xyzzy" not in caplog.text


def test_times_are_stamped_in_utc():
    assert rfc3339(1_790_000_000.25) == "2026-09-21T14:13:20.250Z"
