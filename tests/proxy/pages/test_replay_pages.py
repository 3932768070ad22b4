"""The page that replays a log, before a replay that is set."""

import asyncio
import sys
from dataclasses import dataclass, field

import pytest
from fastapi import FastAPI
from starlette.requests import Request

from dashboards.access import Role, Viewer
from dashboards.views.replay import (
    CostCurve,
    CostCurves,
    FeatureRow,
    ReplayReport,
    ReusedRow,
    SavingStep,
    WayRow,
)
from proxy.errors import CallerError, Unready
from proxy.pages import replay_pages
from proxy.pages.replay_pages import ReplayPages, ReplayProcess
from proxy.pages.site import Site
from tests.fakes.asgi import AsgiConnection, answer_of_app, scope
from tests.fakes.board import NOW
from tests.fakes.tool_logs import own_form

EVIL = "<script>alert(1)</script>"
WAYS = ("as sent", "without layouts", "by default", "compacted")


def way(name: str, nanos: int | None) -> WayRow:
    return WayRow(
        name=name,
        nanos=nanos,
        change=-0.5,
        hit_rate=0.71,
        input_tokens=117_717,
        cache_read_tokens=83_968,
        cache_write_tokens=0,
        output_tokens=1,
        refused=0,
    )


REPORT = ReplayReport(
    headline="60 calls cost $0.28.",
    calls=60,
    features=(FeatureRow(feature=EVIL, calls=45, nanos=260_000_000, changes=(0.0, -0.72, None)),),
    actions=(SavingStep(what=f"Move {EVIL}.", commands=("thriftgate serve", EVIL)),),
    ways=(*(way(name, 280_000_000) for name in WAYS), way("at least", None)),
    remarks=(f"No layout for {EVIL}.",),
    curves=CostCurves(calls=(60,), ways=tuple(CostCurve(name=n, nanos=(7,)) for n in WAYS)),
    reuse_summary="Answer cache, ttl 1h: 9 of 60 calls (15.0 %) would be hits.",
    reused=(
        ReusedRow(
            feature=EVIL, calls=45, repeating=12, hits=9, nanos=70, equal=20, equal_nanos=None
        ),
    ),
)


@dataclass
class FakeReplay:
    """Answers with one report, and remembers what it replayed."""

    report: ReplayReport = REPORT
    logs: list[bytes] = field(default_factory=list)

    async def replay(self, log: bytes) -> ReplayReport:
        self.logs.append(log)
        return self.report


def upload(log: bytes, name: str = "calls.jsonl") -> bytes:
    head = f'--b\r\nContent-Disposition: form-data; name="log"; filename="{name}"\r\n\r\n'
    return head.encode() + log + b"\r\n--b--\r\n"


def ask(replay: FakeReplay, sent: bytes = b"", **headers: str) -> AsgiConnection:
    async def viewer(_request: Request) -> Viewer:
        return Viewer(name="ann", role=Role.VIEWER)

    app = FastAPI()
    app.include_router(ReplayPages(Site(viewer, lambda: NOW), replay.replay).router())
    all_headers = {"content-type": "multipart/form-data; boundary=b", **headers}
    head = scope("/admin/replay", "POST" if sent else "GET", all_headers)
    return asyncio.run(answer_of_app(app, head, AsgiConnection([sent])))


def test_the_form_takes_a_file_without_any_script() -> None:
    html = ask(FakeReplay()).body.decode()

    assert '<form class="upload" method="post" enctype="multipart/form-data"' in html
    assert '<input type="file" name="log" required>' in html
    assert "What to do" not in html
    assert "Equal calls" not in html


def test_equal_calls_of_the_log_are_shown_by_feature() -> None:
    html = ask(FakeReplay(), upload(b"x")).body.decode()

    assert "9 of 60 calls (15.0 %) would be hits." in html
    assert '<td data-name="Equal in all" class="number">20</td>' in html
    assert EVIL not in html


def test_the_result_stands_first_then_features_steps_plot_and_table() -> None:
    replay = FakeReplay()
    answer = ask(replay, upload(b"\x1f\x8b\r\n--c\r\n\r\n{}"))

    html = answer.body.decode()
    assert answer.status == 200
    assert replay.logs == [b"\x1f\x8b\r\n--c\r\n\r\n{}"]
    order = ["calls.jsonl", "60 calls cost $0.28.", "By feature", "What to do", "thriftgate serve"]
    places = [
        html.index(text) for text in (*order, 'class="curves"', "All calls, in each way", "Remarks")
    ]
    assert places == sorted(places)
    assert html.count("<polyline") == 4
    assert '<td data-name="By default" class="number">−72 %</td>' in html  # noqa: RUF001
    assert '<td data-name="Cost" class="number">?</td>' in html


def test_names_of_a_log_and_of_its_file_are_text() -> None:
    html = ask(FakeReplay(), upload(b"{}", name=EVIL)).body.decode()

    assert EVIL not in html
    assert html.count("&lt;script&gt;") == 6


@pytest.mark.parametrize(
    ("sent", "headers", "status"),
    [
        (upload(b"{}", name=""), {}, 422),
        (b"log=x", {"content-type": "application/x-www-form-urlencoded"}, 400),
        (b"--b\r\n\r\nx\r\n--b--", {}, 400),
        (b'--b\r\nfilename="x"\r\n\r\n', {}, 400),
        (upload(b"x" * replay_pages.MAX_LOG_BYTES), {}, 413),
        (upload(b"{}"), {"sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_only_uploads_of_our_own_page_are_replayed(
    sent: bytes, headers: dict[str, str], status: int
) -> None:
    replay = FakeReplay()

    assert ask(replay, sent, **headers).status == status
    assert replay.logs == []


def test_a_log_without_a_call_says_so() -> None:
    nothing = ReplayReport(
        headline="No call could be replayed.",
        calls=0,
        features=(),
        actions=(),
        ways=(),
        remarks=("3 records skipped, first line 1: it is not JSON.",),
        curves=None,
    )
    html = ask(FakeReplay(nothing), upload(b"x")).body.decode()

    assert "No call could be replayed." in html
    assert "first line 1: it is not JSON" in html
    assert "What to do" not in html


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_gateways_own_command_replays_the_log() -> None:
    report = asyncio.run(ReplayProcess(timeout_s=900).replay(own_form(20)))

    assert report.calls == 20
    assert report.headline.startswith("20 calls cost $")
    assert report.curves is not None


def test_a_log_without_a_call_is_a_report() -> None:
    report = asyncio.run(ReplayProcess(timeout_s=900).replay(b"junk\n" * 3))

    assert report.calls == 0
    assert report.remarks[0] == "3 records skipped, first line 1: it is not JSON."


def test_a_damaged_file_is_told_in_its_own_words() -> None:
    with pytest.raises(CallerError, match="standard input: its gzip data is damaged") as caught:
        asyncio.run(ReplayProcess(timeout_s=900).replay(b"\x1f\x8b" + b"nothing" * 10))

    assert caught.value.status == 422


def test_a_process_that_writes_no_report_is_an_error() -> None:
    with pytest.raises(CallerError, match="the replay failed"):
        asyncio.run(ReplayProcess(python("print(7)")).replay(b"{}"))


def test_a_process_beyond_its_deadline_is_ended() -> None:
    code = "import sys, time; sys.stdin.read(); time.sleep(600)"
    with pytest.raises(CallerError, match=r"more than 0\.2 s.*thriftgate replay FILE"):
        asyncio.run(ReplayProcess(python(code), timeout_s=0.2).replay(b"{}"))


def test_a_process_has_a_low_priority_and_bounded_memory() -> None:
    code = (
        "import os, resource, sys; sys.stdin.read(); sys.exit("
        "f'{os.nice(0)} {resource.getrlimit(resource.RLIMIT_AS)[0] >> 30}')"
    )
    with pytest.raises(CallerError, match=r": 10 2$"):
        asyncio.run(ReplayProcess(python(code)).replay(b"{}"))


def test_one_log_is_replayed_at_a_time() -> None:
    async def both() -> list[object]:
        process = ReplayProcess(python("import sys; sys.stdin.read(); print(7)"))
        tasks = (process.replay(b"{}"), process.replay(b"{}"))
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    first, second = asyncio.run(both())

    assert isinstance(first, CallerError)
    assert isinstance(second, Unready)
    assert second.retry_after == 10.0
