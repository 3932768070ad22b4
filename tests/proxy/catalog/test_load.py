from datetime import date
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.catalog.catalog import Catalog
from proxy.catalog.entries import Route, Upstream
from proxy.catalog.load import load
from slo.price import TokenRates
from slo.toml.problems import InvalidFile, Problem

SHIPPED = """\
default = "openai"
[upstreams.openai]
base_url = "https://api.openai.com/v1"
key_env = "OPENAI_API_KEY"
provider = "openai"
[[models]]
id = "gpt-x"
upstream = "openai"
window = 1000
max_output = 100
regime = "openai-interval"
min_cache_tokens = 10
traits = ["sampling"]
created = 5
retires = 2027-01-14
price = { input = "1", cache_read = "0.1", output = "5" }
"""
AZURE = """\
[upstreams.azure]
kind = "openai"
base_url = "https://example.openai.azure.com/openai/v1/"
key_env = "AZURE_OPENAI_API_KEY"
key_header = "Api-Key"
region = "eu"
asks_usage = false
headers = { "x-team" = "a" }
discount = "0.12"
"""


def problem_lines(user: str) -> list[str]:
    with pytest.raises(InvalidFile) as caught:
        load(SHIPPED, user)
    return str(caught.value).splitlines()


def routes(catalog: Catalog, name: str) -> tuple[Route, ...]:
    model = catalog.find(name)
    assert model is not None
    return model.routes


def test_a_model_of_one_upstream_needs_no_routes() -> None:
    catalog = load(SHIPPED, None)
    (route,) = routes(catalog, "gpt-x")
    assert route.name == "openai/gpt-x"
    assert route.upstream == Upstream(
        name="openai", kind="openai", base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY", provider="openai",
    )  # fmt: skip
    assert (route.model, route.window, route.max_output, route.min_cache_tokens) == (
        "", 1000, 100, 10,
    )  # fmt: skip
    assert (route.regime, route.block, route.traits) == (
        "openai-interval", None, frozenset({"sampling"}),
    )  # fmt: skip
    assert route.tariff is not None
    assert route.tariff.periods[0].sheets[""].rates == TokenRates(
        input=10**9, cache_read=10**8, output=5 * 10**9
    )
    model = catalog.models["gpt-x"]
    assert (model.created, model.retires) == (5, date(2027, 1, 14))
    assert catalog.warnings == ()


def test_a_call_that_names_no_model_goes_to_the_default_at_no_known_price() -> None:
    catalog = load(SHIPPED, AZURE + "\n")
    assert catalog.default == Route(name="openai", upstream=catalog.upstreams["openai"])
    user = 'default = "azure"\n' + AZURE
    assert load(SHIPPED, user).default.upstream.name == "azure"


def test_an_azure_upstream_says_its_key_header_its_region_and_its_discount() -> None:
    user = AZURE + '[[models]]\nid = "gpt-x"\nupstream = "azure"\nmodel = "my-deployment"\n'
    catalog = load(SHIPPED, user)
    (route,) = routes(catalog, "gpt-x")
    assert route.upstream == Upstream(
        name="azure", kind="openai", base_url="https://example.openai.azure.com/openai/v1",
        key_env="AZURE_OPENAI_API_KEY", key_header="api-key", region="eu", asks_usage=False,
        headers={"x-team": "a"},
    )  # fmt: skip
    assert route.model == "my-deployment"
    assert route.window == 1000
    assert route.tariff is not None
    assert route.tariff.discount == Fraction("0.12")


def test_several_routes_inherit_from_their_model_and_say_what_differs() -> None:
    user = AZURE + (
        '[[models]]\nid = "gpt-x"\nwindow = 2000\nroutes = [\n'
        '  { upstream = "azure", model = "eu", discount = "0.2" },\n'
        '  { upstream = "azure", model = "us", price = { input = "2" }, window = 3 },\n'
        '  { upstream = "openai", price = "unknown" },\n]\n'
    )
    first, second, third = routes(load(SHIPPED, user), "gpt-x-2026-01-01")
    assert [route.name for route in (first, second, third)] == [
        "azure/gpt-x#eu", "azure/gpt-x#us", "openai/gpt-x",
    ]  # fmt: skip
    assert first.tariff is not None
    assert second.tariff is not None
    assert first.tariff.discount == Fraction("0.2")
    assert first.tariff.periods[0].sheets[""].rates.output == 5 * 10**9
    assert second.tariff.discount == Fraction("0.12")
    assert second.tariff.periods[0].sheets[""].rates == TokenRates(input=2 * 10**9)
    assert third.tariff is None
    assert [route.window for route in (first, second, third)] == [2000, 3, 2000]


def test_a_model_served_by_an_own_engine_needs_no_key_and_has_no_price() -> None:
    user = (
        '[upstreams.gpu1]\nbase_url = "http://gpu1:8000/v1"\n'
        '[[models]]\nid = "llama"\nupstream = "gpu1"\nregime = "block-chain"\nblock = 16\n'
    )
    (route,) = routes(load(SHIPPED, user), "llama")
    assert (route.upstream.key_env, route.upstream.kind) == ("", "openai")
    assert (route.tariff, route.block) == (None, 16)


def test_an_alias_is_priced_as_its_model_and_asks_for_it_by_name() -> None:
    catalog = load(SHIPPED, '[[models]]\nid = "cheap"\nlike = "gpt-x"\n')
    (route,) = routes(catalog, "cheap")
    (origin,) = routes(catalog, "gpt-x")
    assert (route.model, route.name) == ("gpt-x", "openai/cheap")
    assert route.tariff == origin.tariff


def test_a_warning_comes_with_the_catalog() -> None:
    user = '[[models]]\nid = "gpt-x"\nprice = { input = "1", output = "5", cache_read = "2" }\n'
    catalog = load(SHIPPED, user)
    assert [str(problem) for problem in catalog.warnings] == [
        (
            "catalog.toml:3: warning: models.gpt-x.price.cache_read: is dearer than input;"
            " check it: reading from a cache is cheaper everywhere"
        )
    ]


def test_problems_carry_the_names_of_the_files() -> None:
    with pytest.raises(InvalidFile) as caught:
        load(SHIPPED, "a = 1", names=("ours.toml", "/etc/thriftgate/yours.toml"))
    assert str(caught.value).startswith("/etc/thriftgate/yours.toml:1: a: is not known")


def test_a_user_file_that_is_no_toml_is_never_passed_over() -> None:
    assert problem_lines("models = [")[0].startswith("catalog.toml:1: is not TOML: ")


def test_a_catalog_needs_a_default() -> None:
    with pytest.raises(InvalidFile, match="has no default"):
        load("", None)


MODEL = '[[models]]\nid = "m"\n'


@pytest.mark.parametrize(
    ("user", "problem"),
    [
        ('default = "azur"\n' + AZURE, 'default: names "azur", which is not known; did you mean'),
        ("modles = 1", "modles: is not known; did you mean models?"),
        ("[upstreams.a]\n", "upstreams.a.base_url: is missing; write base_url"),
        (
            '[upstreams.a]\nbase_url = "gpu1:8000/v1"',
            "upstreams.a.base_url: is no http:// or https:// address",
        ),
        (
            '[upstreams.openai]\nkind = "opnai"',
            'upstreams.openai.kind: names "opnai", which is not known; did you mean openai?',
        ),
        (
            "[upstreams.openai]\nkey = 'sk-1'",
            "upstreams.openai.key: is not known; did you mean key_env?",
        ),
        ('[upstreams.openai]\ndiscount = "12"', "upstreams.openai.discount: is over 1"),
        ("[upstreams.openai]\nheaders.a = 1", 'upstreams.openai.headers.a: is 1; write a "string"'),
        (MODEL, 'models.m: has no upstream; write upstream = "openai" or another'),
        (
            MODEL + 'upstream = "opanai"',
            'models.m.upstream: names "opanai", which is not known; did you mean openai?',
        ),
        (MODEL + 'upstrem = "openai"', "models.m.upstrem: is not known; did you mean upstream?"),
        (
            MODEL + 'upstream = "openai"\nroutes = [{ upstream = "openai" }]',
            "models.m: has both upstream and routes; keep one",
        ),
        (MODEL + "routes = []", 'models.m.routes: is empty; write [{ upstream = "…" }]'),
        (MODEL + "routes = [1]", "models.m.routes[0]: is 1; write a { table }"),
        (
            MODEL + 'routes = [{ upstream = "openai" }, { upstream = "openai" }]',
            "models.m: has the route openai/m twice; remove one",
        ),
        (MODEL + 'routes = [{ upstream = "openai", id = "x" }]', ".id: is not known"),
        (MODEL + 'regime = "implicitly"', 'models.m.regime: names "implicitly"'),
        (
            MODEL + 'regime = "block-chain"',
            "models.m: has a block-chain without block; write block = 16",
        ),
        (MODEL + 'traits = ["samplin"]', 'models.m.traits[0]: names "samplin"'),
        (
            MODEL + 'can = ["tool"]',
            'models.m.can[0]: names "tool", which is not known; did you',
        ),
        (
            MODEL + 'prompt_cache_retention = "48h"',
            'names "48h", which is not kn',
        ),
        (MODEL + 'price = "2.50"', 'models.m.price: is no price; write a table, { input = "2.50"'),
        (MODEL + "price.input = 2.5", "models.m.price.input: is 2.5, not a decimal string; write"),
        (MODEL + 'discount = "12"', "models.m.discount: is over 1"),
        (MODEL + "window = -1", "models.m.window: is -1; write a whole number of 0 or more"),
        (MODEL + 'retires = "soon"', 'models.m.retires: is the string "soon"; write a day'),
    ],
)
def test_each_mistake_in_a_catalog_is_reported_with_its_fix(user: str, problem: str) -> None:
    if "models.m.discount" in problem:
        user += '\nprice.input = "1"'
    assert any(line.startswith("catalog.toml:") and problem in line for line in problem_lines(user))


def test_problems_of_a_catalog_are_reported_together_and_each_once() -> None:
    lines = problem_lines(
        'default = "azur"\n'
        '[[models]]\nid = "a"\nupstream = "openai"\n'
        "routes = [{ price = { input = 1.5 } }, {}]\n"
        'window = "x"\n'
    )
    assert len(lines) == len(set(lines))
    assert {int(line.split(":")[1]) for line in lines} == {1, 2, 5, 6}


KEYS = (
    "default", "upstreams", "upstreams.openai", "upstreams.openai.kind", "upstreams.openai.headers",
    "upstreams.new", "models",
)  # fmt: skip
FIELDS = (
    "id", "like", "upstream", "model", "routes", "window", "regime", "block", "traits", "discount",
    "created", "retires", "price", "price.input", "price.long", "price.service",
    "price.service.batch", "price.region", "price.fast", "price.off_peak", "price.off_peak.peak",
    "price.since", "price.changes",
)  # fmt: skip
VALUES = st.sampled_from(
    ["0", "1", "-1", "1.5", "nan", '"1"', '""', '"gpt-x"', '"openai"', "true", "[]", "{}", "[1]",
     "[{}]", "[[]]", "2026-01-01", "2026-01-01T00:00:00", "{ a = 1 }", "[{ since = 2026-01-01 }]",
     '[{ above = 1, input = "1" }]', '{ input = "1", long = [{ above = 1 }] }']
)  # fmt: skip


@given(
    st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=2),
    st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=5),
)
def test_any_catalog_file_is_read_or_reported_with_its_mistakes(
    top: dict[str, str], fields: dict[str, str]
) -> None:
    user = "\n".join(f"{key} = {value}" for key, value in top.items())
    user += '\n[[models]]\nid = "m"\n' if "id" not in fields else "\n[[models]]\n"
    user += "\n".join(f"{key} = {value}" for key, value in fields.items())
    assert all(problem.line <= user.count("\n") + 1 for problem in problems_of(user))


def problems_of(user: str) -> tuple[Problem, ...]:
    """All that is said about a user's file, whether it can be used or not."""
    try:
        return load(SHIPPED, user).warnings
    except InvalidFile as error:
        return error.problems


def test_an_upstream_bills_abandoned_answers_unless_the_catalog_says_that_it_stops() -> None:
    assert load(SHIPPED, AZURE).upstreams["azure"].bills_abandoned
    assert not load(SHIPPED, AZURE + "bills_abandoned = false\n").upstreams["azure"].bills_abandoned


OTHERS = """\
[[models]]
id = "small"
upstream = "openai"
price = { input = "1", output = "5" }
[[models]]
id = "long"
upstream = "openai"
price = { input = "1", output = "5" }
"""


def test_a_model_says_who_answers_in_its_place() -> None:
    user = OTHERS + '[[models]]\nid = "gpt-x"\nfallbacks = ["small"]\nwhen_too_long = ["long"]\n'
    model = load(SHIPPED, user).models["gpt-x"]

    assert (model.fallbacks, model.when_too_long) == (("small",), ("long",))
    assert model.routes[0].window == 1000


def test_model_that_names_no_fallbacks_has_none() -> None:
    model = load(SHIPPED, None).models["gpt-x"]

    assert (model.fallbacks, model.when_too_long) == ((), ())


@pytest.mark.parametrize("key", ["fallbacks", "when_too_long"])
@pytest.mark.parametrize(
    ("names", "problem"),
    [('["gpt-x"]', "is the model itself"), ('["smal"]', "smal"), ('"small"', "array")],
)
def test_fallback_of_a_model_is_another_model_of_the_catalog(
    key: str, names: str, problem: str
) -> None:
    (entry_problem,) = problem_lines(OTHERS + f'[[models]]\nid = "gpt-x"\n{key} = {names}\n')

    assert problem in entry_problem
    assert "catalog.toml:9" in entry_problem or "catalog.toml:11" in entry_problem


@pytest.mark.parametrize(
    ("line", "can"),
    [("", None), ("can = []", frozenset()), ('can = ["vision", "tools"]', {"tools", "vision"})],
)
def test_abilities_of_a_model_are_known_only_where_the_catalog_names_them(
    line: str, can: object
) -> None:
    user = f'[[models]]\nid = "own"\nupstream = "openai"\nprice = {{ input = "1" }}\n{line}\n'

    assert routes(load(SHIPPED, user), "own")[0].can == can


def test_a_route_may_do_less_than_its_model() -> None:
    user = """\
[[models]]
id = "own"
price = { input = "1", output = "5" }
can = ["tools", "schema"]
[[models.routes]]
upstream = "openai"
[[models.routes]]
upstream = "openai"
model = "plain"
can = []
"""
    assert [route_.can for route_ in routes(load(SHIPPED, user), "own")] == [
        frozenset({"tools", "schema"}), frozenset(),
    ]  # fmt: skip


def test_an_upstream_adapts_only_where_the_catalog_says_so() -> None:
    known_upstreams = load(SHIPPED, AZURE + "adapts = true\n").upstreams

    assert (known_upstreams["azure"].adapts, known_upstreams["openai"].adapts) == (True, False)


def test_prompt_cache_retention_of_openai_is_overridden_and_is_not_azures() -> None:
    shipped = SHIPPED.replace("created = 5", 'prompt_cache_retention = "24h"\ncreated = 5')
    own = """\
provider = "azure"
[[models]]
id = "gpt-x"
routes = [{ upstream = "azure" }, { upstream = "openai" }]
[[models]]
id = "zdr"
like = "gpt-x"
upstream = "openai"
prompt_cache_retention = "in_memory"
[[models]]
id = "asked"
like = "gpt-x"
upstream = "azure"
prompt_cache_retention = "24h"
"""
    catalog = load(shipped, AZURE + own)
    retentions = {
        name: [route.prompt_cache_retention for route in routes(catalog, name)]
        for name in ("gpt-x", "zdr", "asked")
    }
    assert retentions == {"gpt-x": ["", "24h"], "zdr": ["in_memory"], "asked": ["24h"]}


@pytest.mark.parametrize("table", ["[upstreams.evil]", 'default = "azure"', "[[families]]"])
def test_entries_of_pages_are_models_and_aliases_alone(table: str) -> None:
    entries = '[teams.a.model_aliases]\nfast = "house"\n[[models]]\nid = "house"\nlike = "gpt-x"\n'

    assert load(SHIPPED, AZURE, stored=entries).team_aliases["a"].targets == {"fast": "house"}
    with pytest.raises(InvalidFile, match=r"pages:1: .* is not known"):
        load(SHIPPED, AZURE, stored=f"{table}\n{entries}")
