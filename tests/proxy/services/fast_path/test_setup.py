"""The fast path follows the policies, and is small without a policies file."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from proxy.services.fast_path.setup import FastPath, running_fast_path
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.settings import Settings
from proxy.store.store import Store
from tests.fakes.app_context import AppContextCalls, fake_app_context
from tests.fakes.call_dependencies import fake_dependencies
from tests.fakes.upstream import FakeTransport


def fast_path_of(
    folder: Path, policies: str | None, listen: Callable[[Any], None]
) -> tuple[FastPath, AppContextCalls]:
    calls = AppContextCalls()
    if policies is not None:
        (folder / "policies.toml").write_text(policies, encoding="utf8")
    path = None if policies is None else folder / "policies.toml"
    settings = Settings(folder=folder, policies=path)
    store = Store.open(f"sqlite:///{folder / 'thriftgate.db'}", folder / "journal")

    async def run() -> FastPath:
        context = fake_app_context(settings, store, calls)
        transport: Any = FakeTransport([])
        async with running_fast_path(context, transport, listen, lambda: 0.0) as fast_path:
            fast_path.use(fake_dependencies(transport)[0])
            return fast_path

    try:
        return asyncio.run(run()), calls
    finally:
        store.close(1)


def test_without_a_policies_file_only_texts_are_resolved(tmp_path):
    heard: list[Any] = []
    fast_path, calls = fast_path_of(tmp_path, None, heard.append)

    assert (fast_path.answers, fast_path.small_first) == (None, None)
    assert len(calls.followed) == 1
    assert heard == []


def test_with_a_policies_file_each_part_follows_it_and_receipts_are_heard(tmp_path):
    heard: list[Any] = []
    fast_path, calls = fast_path_of(tmp_path, "", heard.append)

    assert fast_path.answers is not None
    assert fast_path.small_first is not None
    assert len(calls.followed) == 3
    assert heard == [fast_path.small_first.observe]


@pytest.mark.parametrize("policies", [None, ""])
def test_calls_get_each_part_that_runs(tmp_path, policies):
    fast_path, _ = fast_path_of(tmp_path, policies, lambda _: None)

    transport: Any = FakeTransport([])
    deps = fast_path.join(fake_dependencies(transport)[0])
    fast_path.use(deps)

    assert deps.contexts is fast_path.contexts
    assert isinstance(deps.answers, SimilarAnswerCache) == (fast_path.answers is not None)
    assert deps.small_first is fast_path.small_first


def test_leaving_the_fast_path_ends_its_comparisons(tmp_path):
    fast_path, _ = fast_path_of(tmp_path, "", lambda _: None)
    small_first: Any = fast_path.small_first
    given_up: list[str] = []
    late: Any = SimpleNamespace(give_up=lambda: given_up.append("late"))

    small_first._comparisons.add(late)

    assert given_up == ["late"]
