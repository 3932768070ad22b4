"""Models, prices and aliases by form: preview with a dry run, set, take back; the file wins."""

import asyncio
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest
from msgspec.structs import asdict

from dashboards.access import Role
from proxy.store.store import Store
from slo.usage import Usage
from tests.fakes.asgi import AsgiConnection
from tests.fakes.board import NOW
from tests.fakes.dashboard import Dashboard
from tests.fakes.ledger_day import book_calls_of_yesterday

#: 500 input tokens at $2.50 and 100 output tokens at $15 a million.
GPT = {"route": "openai/gpt-5.4", "model": "gpt-5.4", "usage": Usage(input=500, output=100)}
COST = 500 * 2_500 + 100 * 15_000
PRICE = {
    "table": "prices",
    "name": "gpt-5.4",
    "since": "2027-01-01",
    "input": "3",
    "output": "20",
    "long": '[{ above = 272_000, input = "6", cache_read = "0.5", output = "30" }]',
}
MODEL = {"table": "models", "name": "house", "like": "gpt-5.4", "fallbacks": "gpt-5.4-mini"}
ALIAS = {"table": "model_aliases", "team": "acme", "alias": "claude-*", "model": "gpt-5.4"}


@pytest.fixture
def dashboard(store: Store, tmp_path: Path) -> Iterator[Dashboard]:
    made = Dashboard(store, tmp_path)
    yield made
    made.close()


def submit(
    dashboard: Dashboard, path: str, fields: dict[str, str], role: Role = Role.ADMIN
) -> AsgiConnection:
    return dashboard.ask_as(role, "POST", f"/admin/policies/{path}", fields)


def text_of(answer: AsgiConnection) -> str:
    text = re.sub(r"<[^>]+>", "", answer.body.decode()).replace("&#34;", '"')
    return re.sub(r"\s+", " ", text.replace("&#39;", "'"))


def input_price(dashboard: Dashboard, at: float) -> int | None:
    tariff = dashboard.reloader.snapshot.catalog.models["gpt-5.4"].routes[0].tariff
    period = None if tariff is None else tariff.period(at)
    return None if period is None else period.sheets[""].rates.input


def test_prices_of_a_later_day_are_tried_on_yesterdays_calls_and_only_previewed(
    dashboard: Dashboard,
) -> None:
    book_calls_of_yesterday(
        dashboard.store._engine, NOW, 4, cost_nanos=COST, team=dashboard.own, **GPT
    )
    text = text_of(submit(dashboard, "preview", PRICE))

    assert "4 attempts would have cost $0.00300 more: $0.0140 instead of $0.0110." in text
    assert '+ { since = 2027-01-01, input = "3", output = "20", long = [' in text
    assert '- input = "2.5"' not in text
    assert "the service tier batch or flex or priority will lose their price" in text
    assert input_price(dashboard, 1_900_000_000.0) == 2_500_000_000


def test_prices_hold_from_their_day_on_and_are_taken_back(dashboard: Dashboard) -> None:
    assert submit(dashboard, "set", PRICE).headers["location"] == "/admin/models#set-policies"
    assert input_price(dashboard, NOW) == 2_500_000_000
    assert input_price(dashboard, 1_900_000_000.0) == 3_000_000_000
    page = text_of(dashboard.ask_as(Role.ADMIN, "GET", "/admin/models"))
    assert "your own file, or set here" in page

    assert submit(dashboard, "undo", {"table": "prices", "name": "gpt-5.4"}).status == 303
    assert input_price(dashboard, 1_900_000_000.0) == 2_500_000_000


def test_prices_without_those_of_long_prompts_are_refused_with_the_fix(
    dashboard: Dashboard,
) -> None:
    short = {key: text for key, text in PRICE.items() if key != "long"}

    assert "restate long" in text_of(submit(dashboard, "set", short))
    assert dashboard.store.policies.all() == []


def present_rates(dashboard: Dashboard, at: float = NOW) -> dict[str, int | None]:
    tariff = dashboard.reloader.snapshot.catalog.models["gpt-5.4-mini"].routes[0].tariff
    period = None if tariff is None else tariff.period(at)
    assert period is not None
    return asdict(period.sheets[""].rates)


def test_prices_for_now_keep_the_rates_and_the_announced_prices_that_they_do_not_restate(
    dashboard: Dashboard,
) -> None:
    before, mini = present_rates(dashboard), {"table": "prices", "name": "gpt-5.4-mini"}
    assert submit(dashboard, "set", {**mini, "since": "2027-03-01", "input": "2"}).status == 303
    assert submit(dashboard, "set", {**mini, "output": "9"}).status == 303

    assert present_rates(dashboard) == {**before, "output": 9_000_000_000}
    later = present_rates(dashboard, 1_900_000_000.0)
    assert later == {**before, "input": 2_000_000_000, "output": 9_000_000_000}


def test_prices_that_lose_a_known_rate_are_refused(dashboard: Dashboard) -> None:
    long = '[{ above = 272_000, input = "6", output = "30" }]'
    for path in ("preview", "set"):
        answer = submit(dashboard, path, {**PRICE, "long": long})
        assert answer.status == 400
        assert "state cache_read of prompts over 272,000 tokens, too." in text_of(answer)

    assert dashboard.store.policies.all() == []


def test_rates_of_now_that_move_restate_those_of_long_prompts(dashboard: Dashboard) -> None:
    answer = submit(dashboard, "set", {"table": "prices", "name": "gpt-5.4", "input": "3"})

    assert (answer.status, "restate long" in text_of(answer)) == (400, True)


def test_the_form_of_prices_opens_with_those_of_now_and_changes_nothing_as_it_is(
    dashboard: Dashboard,
) -> None:
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/models").body.decode()
    assert 'href="/admin/models?price=gpt-5.4#set-prices"' in page
    page = dashboard.ask_as(Role.ADMIN, "GET", "/admin/models?price=gpt-5.4").body.decode()
    form = page.partition('<details id="set-prices" open>')[2].partition("</form>")[0]
    texts = dict(re.findall(r'name="(\w+)"(?: maxlength="2000")? value="([^"]*)"', form))
    filled = {key: unescape(text) for key, text in texts.items()}
    before = input_price(dashboard, NOW)

    assert (filled["input"], filled["cache_read"], filled["output"]) == ("2.5", "0.25", "15")
    assert "above = 272000" in filled["long"]
    assert submit(dashboard, "set", filled).status == 303
    assert input_price(dashboard, NOW) == before


@pytest.mark.parametrize("day", ["20270301", "2027-W09-1"])
def test_a_day_in_another_form_of_iso_is_the_same_day(dashboard: Dashboard, day: str) -> None:
    submit(dashboard, "set", {**PRICE, "since": "2027-03-01"})
    assert submit(dashboard, "set", {**PRICE, "since": day, "input": "4"}).status == 303

    (stored,) = dashboard.store.policies.all()
    (change,) = stored.fields["price"]["changes"]
    assert (change["since"], change["input"]) == ("2027-03-01", "4")


def test_a_change_is_taken_back_by_the_kind_of_its_form(dashboard: Dashboard) -> None:
    submit(dashboard, "set", PRICE)

    assert submit(dashboard, "undo", {"table": "prices", "name": "gpt-5.4"}).status == 303
    assert dashboard.store.policies.all() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"since": "soon"}, "write a day"),
        ({"input": "much"}, "input"),
        ({"long": "much"}, "long"),
        ({"long": "1"}, "is no list of tables"),
        ({"name": ""}, "name is missing"),
    ],
)
def test_a_price_with_a_fault_is_refused_in_words(
    dashboard: Dashboard, changes: dict[str, str], words: str
) -> None:
    answer = submit(dashboard, "preview", {**PRICE, **changes})

    assert answer.status == 400
    assert words in text_of(answer)


def test_long_prompts_add_no_upstream_that_gets_a_variable(dashboard: Dashboard) -> None:
    escaped = (
        r'[{ "above = 200_000, input = \"2\", output = \"3\" }]\n[upstreams.evil]\n'
        r"kind = \"openai\"\nbase_url = \"http://169.254.169.254/v1\"\n"
        r"key_env = \"AWS_SECRET_ACCESS_KEY\"\n[[models]]\nid = \"zz\"\n"
        r'routes = [{ upstream = \"evil\", model" = "m" }]'
    )
    for path in ("preview", "set"):
        answer = submit(dashboard, path, {**PRICE, "long": escaped})
        assert answer.status == 400
        assert "is not known" in text_of(answer)

    assert dashboard.store.policies.all() == []
    catalog = dashboard.reloader.snapshot.catalog
    assert ("evil" in catalog.upstreams, "zz" in catalog.models) == (False, False)


def test_a_model_that_is_set_can_be_asked_for_and_keeps_its_prices(dashboard: Dashboard) -> None:
    assert submit(dashboard, "set", MODEL).status == 303
    rates = {"input": "1", "output": "2", "long": PRICE["long"]}
    assert submit(dashboard, "set", {"table": "prices", "name": "house", **rates}).status == 303
    assert submit(dashboard, "set", {**MODEL, "fallbacks": "gpt-5.6-luna"}).status == 303

    house = dashboard.reloader.snapshot.catalog.models["house"]
    assert house.fallbacks == ("gpt-5.6-luna",)
    assert house.routes[0].tariff is not None
    assert house.routes[0].tariff.periods[0].sheets[""].rates.input == 1_000_000_000


def test_a_model_on_an_upstream_that_is_not_there_is_refused(dashboard: Dashboard) -> None:
    answer = submit(dashboard, "set", {**MODEL, "routes": "nowhere/x"})

    assert answer.status == 400
    assert "nowhere" in text_of(answer)
    assert "house" not in dashboard.reloader.snapshot.catalog.models


def test_an_alias_holds_for_its_team_and_goes_with_its_removal(dashboard: Dashboard) -> None:
    preview = text_of(submit(dashboard, "preview", ALIAS))
    assert "+ [teams.acme.model_aliases]" in preview
    assert '+ "claude-*" = "gpt-5.4"' in preview

    submit(dashboard, "set", ALIAS)
    catalog = dashboard.reloader.snapshot.catalog
    assert catalog.for_team("acme").aliases.target("claude-fable-5") == "gpt-5.4"

    submit(dashboard, "remove", {"table": "model_aliases", "name": "claude-* of acme"})
    assert dashboard.reloader.snapshot.catalog.team_aliases == {}


def test_a_price_that_cannot_hold_is_not_in_force_and_is_named_with_the_reason(
    dashboard: Dashboard,
) -> None:
    faulty = {"input": "7", "output": "9", "changes": [{"since": "2027-01-01", "long": "x"}]}
    fields = {"name": "gpt-5.4", "price": faulty}
    dashboard.store.policies.set("models", fields, "ann", 1.0)
    asyncio.run(dashboard.reloader.adopt_overlay())
    assert submit(dashboard, "set", MODEL).status == 303, "others can be set all the same"

    page = text_of(dashboard.ask_as(Role.ADMIN, "GET", "/admin/models"))
    assert "not in force: price.changes[0].long is the string" in page
    settings = text_of(dashboard.ask_as(Role.ADMIN, "GET", "/admin/settings"))
    assert "The model gpt-5.4, set on a page, is not in force: price.changes[0]" in settings


def test_a_model_whose_name_no_problem_could_name_is_refused(dashboard: Dashboard) -> None:
    answer = submit(dashboard, "set", {**MODEL, "name": "our model"})

    assert (answer.status, "without spaces" in text_of(answer)) == (400, True)


def test_the_preview_of_an_alias_says_which_others_end_and_whose_model_changes(
    dashboard: Dashboard,
) -> None:
    for model, count in (("claude-a", 3), ("gpt-5.4-mini", 2)):
        book_calls_of_yesterday(
            dashboard.store._engine, NOW, count, team=dashboard.own, model=model
        )
    own = next(one.name for one in dashboard.store.teams.all() if one.id == dashboard.own)
    everyone = {"table": "model_aliases", "alias": "claude-*", "model": "gpt-5.4"}
    text = text_of(submit(dashboard, "preview", everyone))
    assert (
        "another model would have answered: 3: 3 of claude-a by gpt-5.4 instead of claude-a."
        in text
    )

    submit(dashboard, "set", everyone)
    text = text_of(submit(dashboard, "preview", {**ALIAS, "team": own, "alias": "fast"}))
    assert f"These end for {own}, unless you set them for it, too: claude-*." in text
    assert (
        "another model would have answered: 3: 3 of claude-a by claude-a instead of gpt-5.4."
        in text
    )


def test_an_alias_of_an_unknown_model_is_refused(dashboard: Dashboard) -> None:
    assert submit(dashboard, "set", {**ALIAS, "model": "nothing"}).status == 400
    assert submit(dashboard, "set", {**ALIAS, "alias": ""}).status == 400
    assert dashboard.store.policies.all() == []


@pytest.mark.parametrize("role", [Role.VIEWER, Role.TEAM_ADMIN, Role.FINANCE])
def test_others_than_administrators_change_no_catalog(dashboard: Dashboard, role: Role) -> None:
    for fields in (PRICE, MODEL, ALIAS):
        for path in ("preview", "set", "remove", "undo"):
            assert submit(dashboard, path, fields, role).status == 403

    assert "set-prices" not in dashboard.ask_as(role, "GET", "/admin/models").body.decode()
    assert dashboard.store.policies.all() == []
