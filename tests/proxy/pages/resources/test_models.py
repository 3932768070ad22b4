"""Models with the prices of now, and engines as gateways see them."""

import asyncio
from pathlib import Path

from dashboards.access import Role, Viewer
from proxy.configuration import read_catalog
from proxy.engines.state.traffic_file import (
    EngineTraffic,
    PrefixReuse,
    ReplicaTraffic,
    SettingReport,
    SpeculationReport,
    TrafficFile,
    WarmingReport,
)
from proxy.pages.resources.models import ModelsResource
from proxy.settings import Settings
from tests.fakes.board import NOW

BOB = Viewer(name="bob", role=Role.VIEWER)


def resource(folder: Path) -> ModelsResource:
    catalog = read_catalog(Settings())
    return ModelsResource(
        lambda: catalog,
        lambda route: "" if route.upstream.name == "anthropic" else "no key",
        folder,
        lambda: NOW,
    )


def test_a_model_has_the_standard_prices_of_now(tmp_path: Path) -> None:
    result = {model.id: model for model in asyncio.run(resource(tmp_path).models(BOB))}

    (sonnet, *_) = (model for name, model in result.items() if name.startswith("claude-sonnet"))
    route = sonnet.routes[0]
    assert route.is_priced
    assert route.can_answer
    assert route.input
    assert route.cache_read
    assert route.cache_read < route.input < route.cache_writes["5 min"] < route.cache_writes["1 h"]
    first = next(iter(result.values())).routes[0]
    assert (first.can_answer, first.obstacle) == (False, "no key")


def test_variable_of_a_missing_key_is_named_to_those_who_may_set_it(tmp_path: Path) -> None:
    def obstacles(viewer: Viewer) -> set[str]:
        shown = asyncio.run(resource(tmp_path).models(viewer))
        return {route.obstacle for model in shown for route in model.routes}

    assert obstacles(BOB) == {"", "no key"}
    assert "no key: set OPENAI_API_KEY" in obstacles(Viewer(name="ann", role=Role.ADMIN))


def test_a_price_says_whose_file_it_is_of_and_how_long_it_holds(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(
        '[[models]]\nid = "house"\nupstream = "openai"\n'
        'price = { input = "1", output = "2", changes = [{ since = 2030-01-01, input = "3" }] }\n'
        '[[models]]\nid = "claude-sonnet-5-6"\nupstream = "anthropic"\n'
    )
    catalog = read_catalog(Settings(catalog=file))
    models = ModelsResource(lambda: catalog, lambda _route: "", tmp_path, lambda: NOW)
    result = {model.id: model.routes[0] for model in asyncio.run(models.models(BOB))}
    shipped = next(model for name, model in result.items() if name.startswith("claude-sonnet"))

    assert (result["house"].price_source, result["house"].until) == ("own", 1_893_456_000.0)
    assert (shipped.price_source, shipped.assumed_price_of) == ("shipped", "")
    newest = result["claude-sonnet-5-6"]
    assert (newest.price_source, newest.assumed_price_of) == ("assumed", "claude-sonnet-5-5")
    assert newest.input == result["claude-sonnet-5-5"].input


def test_engines_are_those_of_gateways_that_run(tmp_path: Path) -> None:
    replica = ReplicaTraffic(
        name="local:0",
        profile="local",
        model="tiny",
        base_url="http://127.0.0.1:1",
        is_healthy=True,
        reuse=PrefixReuse(prompt_tokens=100, available=80, captured=70, delivered=60),
    )
    TrafficFile(tmp_path, 7).write(EngineTraffic(pid=7, at=NOW, replicas=(replica,)))
    TrafficFile(tmp_path, 8).write(EngineTraffic(pid=8, at=NOW - 999, replicas=(replica,)))

    (engine,) = asyncio.run(resource(tmp_path).engines(BOB))
    assert (engine.gateway, engine.name, engine.delivered) == (7, "local:0", 60)


def test_warming_is_of_each_gateway_and_the_advice_on_speculation_of_each_profile(
    tmp_path: Path,
) -> None:
    settings = (SettingReport(setting="ngram:4", acceptance=0.6, measured=1.4),)
    advice = SpeculationReport(
        profile="local", recommended="ngram:4", reason="it pays", settings=settings
    )
    warming = WarmingReport(profile="local", kind="typed", used_calls=3, used_tokens=900)
    for pid in (7, 8):
        TrafficFile(tmp_path, pid).write(
            EngineTraffic(pid=pid, at=NOW, warming=(warming,), speculation=(advice,))
        )

    result = asyncio.run(resource(tmp_path).warming(BOB))
    assert [(model.gateway, model.used_calls, model.used_tokens) for model in result] == [
        (7, 3, 900),
        (8, 3, 900),
    ]
    (shown,) = asyncio.run(resource(tmp_path).speculation(BOB))
    assert (shown.recommended, shown.settings[0].measured) == ("ngram:4", 1.4)
