"""The catalog and policies that settings name: read, checked against each other, or refused."""

from pathlib import Path

import pytest

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Model
from proxy.configuration import read_catalog, read_policies, read_snapshot
from proxy.settings import Settings
from slo.toml.problems import InvalidFile
from tests.fakes.call_dependencies import route

ONE = """
[[budgets]]
name = "day"
scope = "team"
unit = "usd"
window = "day"
limit = "5"
"""


def settings_with(folder: Path, text: str = ONE) -> Settings:
    (folder / "policies.toml").write_text(text)
    return Settings(folder=folder, policies=folder / "policies.toml")


def test_mistakes_in_policies_name_their_lines(tmp_path):
    with pytest.raises(InvalidFile, match=r"policies\.toml:7: budgets\.day\.limit"):
        read_policies(settings_with(tmp_path, ONE.replace('"5"', '"0"')))
    with pytest.raises(InvalidFile, match=r"policies\.toml:1: is not TOML"):
        read_policies(settings_with(tmp_path, "[[budgets]"))


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


def test_models_that_the_catalog_lacks_are_named_with_line_and_fix(tmp_path):
    settings = settings_with(tmp_path, MOVING)
    catalog = Catalog(
        models={"small": Model(id="small", routes=(route(),))}, upstreams={}, default=route()
    )
    with pytest.raises(InvalidFile) as bad:
        read_policies(settings, catalog)

    file, o = settings.policies, "objectives.o.ladder"
    assert str(bad.value).splitlines() == [
        f"{file}:8: {o}[0]: names elsewher, which the catalog has not; did you mean elsewhere?",
        f"{file}:9: {o}[1]: names smal, which the catalog has not; did you mean small?",
        (
            f"{file}:11: {o}[3]: names x, which the catalog has not;"
            " write a model's public name, or add it to the catalog"
        ),
        (
            f"{file}:24: ceilings.c.cheaper[1]: names smal, which the catalog has not;"
            " did you mean small?"
        ),
    ]
    assert len(read_policies(settings).objectives) == 2
    assert read_policies(settings_with(tmp_path), catalog) == read_policies(settings_with(tmp_path))


def test_a_policy_file_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_policies(Settings(policies=tmp_path / "none.toml"))


HOUSE = """
[engines.house]
engine = "vllm"
served_name = "house-llm"
replicas = ["http://gpu1:8000/v1", "http://gpu2:8000/v1"]
"""


def with_engines(folder: Path, text: str) -> Settings:
    (folder / "engines.toml").write_text(text)
    return Settings(folder=folder, engines=folder / "engines.toml")


def test_engines_are_read_with_the_catalog_and_calls_can_ask_for_their_models(tmp_path):
    snapshot = read_snapshot(with_engines(tmp_path, HOUSE))

    assert [route.upstream.name for route in snapshot.catalog.models["house-llm"].routes] == [
        "house:0",
        "house:1",
    ]
    assert list(snapshot.engines) == ["house"]
    assert "house:0" in snapshot.upstreams_with_keys


def test_mistakes_in_the_engines_file_name_their_lines(tmp_path):
    with pytest.raises(InvalidFile, match=r"engines\.toml:3: engines\.house\.engine"):
        read_catalog(with_engines(tmp_path, HOUSE.replace("vllm", "vlm")))
