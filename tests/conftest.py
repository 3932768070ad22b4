"""Settings that all tests share: Hypothesis finds the same examples each time, without deadlines.

Garbage is not collected while tests are, and what is there then is never looked through:
15,000 tests and all modules stay to the end, and to look through them takes a second each time.
"""

import asyncio
import gc
import inspect
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import USUAL

pytest.register_assert_rewrite(
    "tests.fakes",
    "tests.proxy.services.planning.planning_fixtures",
    "tests.proxy.prefix.planning_requests",
    "tests.proxy.api.server_fixtures",
    "tests.proxy.api.served_calls",
    "tests.proxy.cli.typed_commands",
    "tests.proxy.providers.anthropic.messages_bodies",
    "tests.proxy.store.redis.leasing_processes",
    "tests.slo.breaker_steps",
)

#: The same examples each time, so more of them would find no more on the next run. Others, and
#: many: make test ARGS=--hypothesis-profile=thorough
settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    max_examples=USUAL,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough", deadline=None, max_examples=20 * USUAL, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("house")

#: Files whose tests take long, one by one or together, or wait: they are run first.
_FIRST = (
    "tests/proxy/cli/",
    "tests/proxy/services/budgets/",
    "tests/proxy/store/",
    "tests/proxy/tools/",
    "tests/slo/controller/",
    "tests/slo/test_prometheus",
    "tests/slo/test_reservation_sizing",
    "tests/test_house",
)

gc.disable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put short files last: `make test` hands out whole files, and workers then end together."""
    items.sort(key=lambda item: -item.nodeid.startswith(_FIRST))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an async test in a loop of its own; where it is so marked, waiting takes no time.

    Tests with async fixtures are marked for anyio, which runs both in one loop.
    """
    is_async = inspect.iscoroutinefunction(pyfuncitem.obj)
    if not is_async or pyfuncitem.get_closest_marker("anyio") is not None:
        return None
    from tests.fakes.clock import InstantLoop  # noqa: PLC0415 - its asserts are rewritten above

    is_instant = pyfuncitem.get_closest_marker("instant_time") is not None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    usual = InstantLoop if is_instant else None
    factory: Any = pyfuncitem.funcargs.get("loop_factory", usual)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Leave out the keywords of what passed: to send them to `make test` takes 5 s in all."""
    report = yield
    if report.passed:
        report.keywords = {}
    return report


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)  # looking takes 3 % of all time at the gateway's own 5,000
    gc.enable()


def pytest_unconfigure() -> None:
    """Look for garbage once more; pytest does so five times, and Python when it ends."""
    gc.collect()
    gc.freeze()
