"""The state of replicas, as supervisors and metrics pages tell it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from proxy.engines.profiles import EngineProfile
from proxy.engines.state.replica_report import ProcessState
from proxy.services.engines.replica_monitor import (
    DEADLINE_S,
    ReplicaStatus,
    reports_by_replica,
)
from tests.fakes.engine_pages import PAGE, PlayedPages, report
from tests.fakes.engine_profiles import a_profile
from tests.fakes.virtual_clock import run_in_virtual_time

ATTACHED = 'replicas = ["http://a:1/v1", "http://b:2/v1"]\nserved_name = "m"'


def page(prompt: int, seconds: float, *, cached: int = 0) -> bytes:
    return (
        b"vllm:num_requests_running 0\n"
        b"vllm:prompt_tokens_total %d\nvllm:prompt_tokens_cached_total %d\n"
        b"vllm:request_prefill_time_seconds_sum %f\nvllm:request_prefill_time_seconds_count 1\n"
    ) % (prompt, cached, seconds)


def statuses(pages: PlayedPages, profile: EngineProfile, reads: int = 1) -> list[ReplicaStatus]:
    async def story() -> list[ReplicaStatus]:
        monitor = pages.monitor(profile)
        for _ in range(reads):
            await monitor.read_all()
        return monitor.statuses()

    return run_in_virtual_time(story)


def test_attached_replicas_are_read_with_their_load_and_round_trip():
    pages = PlayedPages()
    pages.takes_s = 0.03
    first, second = statuses(pages, a_profile(ATTACHED))

    assert (first.name, second.name) == ("house:0", "house:1")
    assert first.metrics is not None
    assert first.metrics.value("waiting") == 1
    assert first.is_healthy
    assert first.model == "m"
    assert first.round_trip_s == pytest.approx(0.03)
    assert pages.asked == ["http://a:1/metrics", "http://b:2/metrics"]


def test_a_page_that_hangs_costs_its_deadline_and_harms_no_replica():
    pages = PlayedPages()
    pages.answers["http://a:1/metrics"] = None

    async def story() -> tuple[list[ReplicaStatus], float]:
        loop = asyncio.get_running_loop()
        monitor = pages.monitor(a_profile(ATTACHED))
        await monitor.read_all()
        return monitor.statuses(), loop.time()

    (hung, other), took = run_in_virtual_time(story)

    assert took == pytest.approx(DEADLINE_S)
    assert hung.is_healthy
    assert hung.metrics is None
    assert hung.reason == "its metrics did not come within 1 s"
    assert other.metrics is not None


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            OSError("http://a:1/metrics answered 404"),
            "metrics cannot be read: http://a:1/metrics",
        ),
        (b"vllm:num_requests_running{} many\n", "metrics cannot be read: could not convert"),
        (b"something else\n", "not even its load is known"),
        (b"vllm:num_requests_running 1\n", "its load alone is known"),
    ],
)
def test_a_page_that_says_too_little_leaves_the_replica_healthy_with_a_reason(answer, reason):
    pages = PlayedPages()
    pages.answers["http://a:1/metrics"] = answer
    status = statuses(pages, a_profile(ATTACHED))[0]

    assert status.is_healthy
    assert reason in status.reason


@pytest.mark.parametrize(
    ("answer", "is_seen"),
    [
        (PAGE, True),
        (OSError("http://a:1/metrics answered 404"), False),
        (b"something else\n", False),
        (OSError("http://a:1/metrics answered 502"), False),
        (OSError("no route to host"), False),
        (ConnectionRefusedError(), False),
        (None, False),
    ],
)
def test_a_replica_is_seen_to_run_once_its_page_is_that_of_an_engine(answer, is_seen):
    pages = PlayedPages()
    pages.answers["http://a:1/metrics"] = answer
    status = statuses(pages, a_profile(ATTACHED))[0]

    assert (status.answered_at is not None) is is_seen


def test_a_refused_connection_makes_a_replica_unhealthy_until_it_answers_again():
    pages = PlayedPages()
    profile = a_profile(ATTACHED)

    async def story() -> list[bool]:
        monitor = pages.monitor(profile)
        seen = []
        for answer in (PAGE, ConnectionRefusedError(), PAGE):
            pages.answers["http://a:1/metrics"] = answer
            await monitor.read_all()
            seen.append(monitor.statuses()[0].is_healthy)
        return seen

    assert run_in_virtual_time(story) == [True, False, True]


def test_the_supervisors_word_decides_where_it_runs_the_replica():
    pages = PlayedPages()
    pages.supervise(
        report("8000", ProcessState.READY),
        report("8001", ProcessState.RESTARTING, reason="killed by signal 9"),
    )
    first, second = statuses(pages, a_profile("replicas = 2"))

    assert first.is_healthy
    assert first.process is ProcessState.READY
    assert not second.is_healthy
    assert second.reason == "restarting: killed by signal 9"


def test_stale_state_file_of_a_supervisor_is_ignored():
    pages = PlayedPages()
    pages.supervise(report("8000", ProcessState.STOPPED), is_running=False)
    status = statuses(pages, a_profile(""))[0]

    assert status.is_healthy
    assert status.process is None


def test_a_replica_is_followed_to_the_port_that_a_rolling_change_gave_it():
    reports = [report("8001", ProcessState.READY), report("8007", ProcessState.READY)]
    by_replica = reports_by_replica(a_profile("replicas = 2"), reports)

    assert [report.name for report in by_replica if report] == ["8007", "8001"]


def test_of_an_old_and_a_new_replica_the_ready_one_gets_the_calls():
    reports = [report("8000", ProcessState.DRAINING), report("8009", ProcessState.READY)]
    by_replica = reports_by_replica(a_profile(""), reports)

    assert [report.name for report in by_replica if report] == ["8009"]


def starts(change: Callable[[PlayedPages], None]) -> int:
    """Starts that are noticed when the replica changes so."""
    pages = PlayedPages()
    pages.supervise(report("8000", ProcessState.READY))
    pages.answers["http://127.0.0.1:8000/metrics"] = page(500, 1.0)

    async def story() -> int:
        monitor = pages.monitor(a_profile(""))
        await monitor.read_all()
        change(pages)
        await monitor.read_all()
        return monitor.statuses()[0].starts

    return run_in_virtual_time(story)


def test_a_new_process_is_noticed_as_a_start():
    assert starts(lambda pages: pages.supervise(report("8000", ProcessState.READY, pid=2))) == 1


def test_a_counter_that_fell_is_noticed_as_a_start():
    url = "http://127.0.0.1:8000/metrics"

    assert starts(lambda pages: pages.answers.update({url: page(10, 0.1)})) == 1
    assert starts(lambda pages: pages.answers.update({url: page(900, 2.0)})) == 0


def test_the_prefill_rate_counts_computed_tokens_only():
    pages = PlayedPages()
    url = "http://127.0.0.1:8000/metrics"

    async def story() -> float:
        monitor = pages.monitor(a_profile(""))
        for text in (page(0, 0.0), page(5_000, 2.0, cached=1_000)):
            pages.answers[url] = text
            await monitor.read_all()
        return monitor.statuses()[0].prefill_tokens_per_s

    assert run_in_virtual_time(story) == pytest.approx(2_000)


def test_llamacpp_is_asked_once_for_the_room_of_its_cache():
    pages = PlayedPages()
    pages.answers["http://127.0.0.1:8000/metrics"] = b"llamacpp:requests_processing 0\n"
    pages.answers["http://127.0.0.1:8000/props"] = (
        b'{"default_generation_settings": {"n_ctx": 1024}, "total_slots": 2}'
    )
    status = statuses(pages, a_profile("", engine="llamacpp"), reads=3)[0]

    assert status.cache_tokens == 2_048
    assert pages.asked.count("http://127.0.0.1:8000/props") == 1


def test_the_pages_of_an_engine_with_a_key_are_asked_for_with_it():
    async def story():
        pages = PlayedPages()
        await pages.monitor(a_profile('key_env = "HOUSE_KEY"', engine="llamacpp")).read_all()
        return pages

    pages = run_in_virtual_time(story)

    assert [url.rpartition("/")[2] for url in pages.asked] == ["metrics", "props"]
    assert pages.key_envs == ["HOUSE_KEY", "HOUSE_KEY"]


def test_the_monitor_hands_readings_to_its_listeners():
    pages = PlayedPages()
    seen: list[ReplicaStatus] = []

    async def story() -> None:
        monitor = pages.monitor(a_profile(""))
        monitor.listen(seen.append)
        await monitor.read_all()

    run_in_virtual_time(story)

    assert [(status.name, status.metrics is not None) for status in seen] == [("house:0", True)]


def test_changed_profiles_are_watched_and_what_is_known_of_the_others_stays():
    pages = PlayedPages()
    profile = a_profile(ATTACHED)

    async def story() -> tuple[list[str], bool]:
        monitor = pages.monitor(profile)
        await monitor.read_all()
        more = replace(a_profile("port = 9000"), name="more")
        monitor.update({"house": profile, "more": more})
        stored = monitor.status("house:0")
        return [status.base_url for status in monitor.statuses()], bool(stored and stored.metrics)

    urls, is_kept = run_in_virtual_time(story)

    assert urls == ["http://a:1/v1", "http://b:2/v1", "http://127.0.0.1:9000/v1"]
    assert is_kept


def test_the_monitor_reads_its_replicas_each_second():
    pages = PlayedPages()

    async def story() -> None:
        monitor = pages.monitor(a_profile(""))
        with suppress(TimeoutError):
            async with asyncio.timeout(10.5):
                await monitor.run()

    run_in_virtual_time(story)

    assert len(pages.asked) == 11
