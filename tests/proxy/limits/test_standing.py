import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.registry import Collector

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.limits.standing import NotAlone, check_counters, counters, promised, standing
from proxy.settings import Settings
from proxy.store.store import Store
from slo.promises.table import BadPromises
from tests.fakes.around import Heard, around
from tests.fakes.desk import route

ONE = """
[[budgets]]
name = "day"
scope = "team"
unit = "usd"
window = "day"
limit = "5"
"""


def chosen(folder: Path, text: str = ONE, **fields: Any) -> Settings:
    (folder / "promises.toml").write_text(text)
    return Settings(folder=folder, promises=folder / "promises.toml", **fields)


def stood(folder: Path, *settings: Settings) -> tuple[list[Any], list[Collector]]:
    """What stands after each of these gateways began on one database."""
    heard = Heard()

    async def run() -> list[Any]:
        async with AsyncExitStack() as stack:
            found = []
            for number, each in enumerate(settings):
                opened = Store.open(f"sqlite:///{folder}/thriftgate.db", folder / f"{number}")
                stack.callback(opened.close, 5)
                here = around(each, opened, heard)
                found.append(await stack.enter_async_context(standing(here)))
            return found

    return asyncio.run(run()), heard.published


def test_without_promises_nothing_stands(tmp_path):
    assert stood(tmp_path, Settings(folder=tmp_path)) == ([None], [])
    assert stood(tmp_path, chosen(tmp_path, "")) == ([None], [])


def test_with_budgets_it_says_where_they_are_counted(tmp_path, caplog):
    caplog.set_level(logging.INFO, "thriftgate.budgets")
    (admission,), published = stood(tmp_path, chosen(tmp_path))

    assert admission is not None
    assert admission.counters.is_shared is False
    assert len(published) == 1
    assert "1 budgets, counted in this process alone" in caplog.text


def test_a_second_gateway_that_counts_for_itself_is_refused(tmp_path):
    settings = chosen(tmp_path)

    with pytest.raises(NotAlone, match="THRIFTGATE_PRIVATE_BUDGETS"):
        stood(tmp_path, settings, settings)


def test_a_second_gateway_may_count_for_itself_where_that_is_meant(tmp_path):
    found, _ = stood(tmp_path, chosen(tmp_path), chosen(tmp_path, private_budgets=True))

    assert all(each is not None for each in found)


def test_mistakes_are_told_with_their_lines(tmp_path):
    with pytest.raises(BadPromises, match=r"promises\.toml:7: budgets\.day\.limit"):
        promised(chosen(tmp_path, ONE.replace('"5"', '"0"')))
    with pytest.raises(BadPromises, match=r"promises\.toml:1: is not TOML"):
        promised(chosen(tmp_path, "[[budgets]"))


MOVING = """
[[objectives]]
name = "o"
metric = "errors"
at_most = "1%"
enforce = "degrade"
ladder = [
  "elsewher",
  "smal",
  "small-2026-01-31",
  "x",
  "cache-only",
  "shed",
]

[[objectives]]
name = "watched"
metric = "errors"
at_most = "1%"

[[ceilings]]
name = "c"
limit = "1"
cheaper = ["small", "smal"]
"""


def test_models_that_the_catalog_has_not_are_told_with_line_and_mend(tmp_path):
    found = chosen(tmp_path, MOVING)
    known = Catalog(
        models={"small": Model(id="small", routes=(route(),))}, upstreams={}, default=route()
    )
    with pytest.raises(BadPromises) as bad:
        promised(found, known)

    file, o = found.promises, "objectives.o.ladder"
    assert str(bad.value).splitlines() == [
        f"{file}:8: {o}: names elsewher, which the catalog has not; did you mean elsewhere?",
        f"{file}:9: {o}: names smal, which the catalog has not; did you mean small?",
        (
            f"{file}:11: {o}: names x, which the catalog has not;"
            " write a model's public name, or add it to the catalog"
        ),
        (
            f"{file}:24: ceilings.c.cheaper: names smal, which the catalog has not;"
            " did you mean small?"
        ),
    ]
    assert len(promised(found).objectives) == 2
    assert promised(chosen(tmp_path), known) == promised(chosen(tmp_path))


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        promised(Settings(promises=tmp_path / "none.toml"))


def test_a_redis_that_is_none_is_an_error():
    with pytest.raises(ValueError, match="redis://"):
        check_counters(Settings(redis_url="cache:6379"))
    check_counters(Settings(redis_url="redis://cache:6379/0"))
    check_counters(Settings())


def test_counters_are_shared_where_redis_is_named(tmp_path):
    opened = Store.open(f"sqlite:///{tmp_path}/thriftgate.db", tmp_path / "journal")
    try:
        assert counters(Settings(redis_url="redis://cache:6379/0"), opened).is_shared
        assert not counters(Settings(), opened).is_shared
    finally:
        opened.close(5)


def test_ceilings_stand_also_without_budgets(tmp_path):
    text = '[[ceilings]]\nname = "small"\nlimit = "0.01"\n'
    (entry,), published = stood(tmp_path, chosen(tmp_path, text))

    assert entry is not None
    assert len(published) == 1
