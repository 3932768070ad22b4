"""Entries that people set, as a catalog file says them."""

import tomllib
from datetime import date
from importlib import resources

import pytest

from proxy.catalog.load import load
from proxy.catalog.page_entries import (
    alias_text,
    model_text,
    read_long_prompts,
    stated_models,
    with_price,
)
from slo.toml.problems import InvalidFile

SHIPPED = resources.files("proxy.catalog").joinpath("models.toml").read_text(encoding="utf8")
#: Text that, bare in a table, would open a table of upstreams.
UPSTREAM = 'above = 1 }]\n[upstreams.evil]\nkind = "openai"\nbase_url = "http://evil"\nx'
TODAY = date(2026, 12, 1)
LONG = [{"above": 272_000, "input": "6", "output": "30"}]


def test_every_shipped_model_is_the_same_once_its_fields_are_written_again() -> None:
    before = load(SHIPPED, None)
    texts = [
        model_text({**fields, "name": name}) for name, fields in _named_fields(SHIPPED).items()
    ]
    after = load(SHIPPED, None, stored="\n".join(texts))

    assert {name: _tariffs(model) for name, model in after.models.items()} == {
        name: _tariffs(model) for name, model in before.models.items()
    }


def _named_fields(text: str) -> dict[str, dict[str, object]]:
    models = stated_models(text, [])
    names = ("price", "discount", "window")
    return {name: {k: v for k, v in one.items() if k in names} for name, one in models.items()}


def _tariffs(model: object) -> list[object]:
    return [route.tariff for route in model.routes]  # type: ignore[attr-defined]


def test_a_change_of_prices_stands_among_the_others_by_its_day() -> None:
    base = {"input": "1", "output": "2", "changes": [{"since": "2027-03-01", "input": "5"}]}
    change = {"since": "2027-01-01", "input": "3", "output": "7"}
    changed = with_price({"name": "m"}, base, change, TODAY)
    again = with_price(
        {"name": "m"}, changed["price"], {"since": "2027-01-01", "input": "4"}, TODAY
    )

    assert again["price"]["changes"] == [
        {"since": "2027-01-01", "input": "4", "output": "7"},
        {"since": "2027-03-01", "input": "5"},
    ]
    assert '  { since = 2027-01-01, input = "4", output = "7" },\n' in model_text(again)


def test_prices_for_now_keep_what_they_do_not_restate_and_later_changes() -> None:
    later = {"since": "2027-03-01", "input": "5"}
    base = {
        "input": "1", "cache_read": "0.1", "output": "2", "since": "2026-01-01",
        "region": {"eu": "1.1"},
        "service": {"batch": {"input": "0.5"}, "flex": "0.5"},
        "changes": [{"since": "2026-06-01", "input": "2", "long": LONG}, later],
    }  # fmt: skip

    assert with_price({"name": "m"}, base, {"output": "9"}, TODAY)["price"] == {
        "input": "2", "cache_read": "0.1", "output": "9", "region": {"eu": "1.1"},
        "service": {"flex": "0.5"}, "long": LONG, "changes": [later],
    }  # fmt: skip


def test_first_prices_of_a_model_are_what_is_stated() -> None:
    rates = {"input": "3", "output": "9"}

    assert with_price({"name": "m"}, {}, rates, TODAY) == {"name": "m", "price": rates}


def test_aliases_of_a_team_stand_in_one_table() -> None:
    aliases = [
        {"team": "acme", "alias": "fast", "model": "a"},
        {"team": "acme", "alias": "claude-*", "model": "b"},
        {"team": "*", "alias": "fast", "model": "c"},
    ]
    assert alias_text(aliases) == (
        '[teams.acme.model_aliases]\nfast = "a"\n"claude-*" = "b"\n\n'
        '[teams."*".model_aliases]\nfast = "c"\n'
    )


def test_a_key_of_a_price_never_becomes_tables_of_its_own() -> None:
    price = {"input": "1", "output": "2", "long": [{UPSTREAM: "m"}], UPSTREAM: {UPSTREAM: "m"}}
    text = model_text({"name": "house", "routes": [{"upstream": "openai"}], "price": price})

    assert tomllib.loads(text).keys() == {"models"}
    with pytest.raises(InvalidFile, match="is not known"):
        load(SHIPPED, None, stored=text)


def test_rates_of_long_prompts_are_read_as_in_the_file() -> None:
    assert read_long_prompts('[{ above = 272_000, input = "6", output = "30" }]') == LONG


@pytest.mark.parametrize("text", ["1", "[", "", '"a"\nb = 1', "[]\nb = 1"])
def test_a_text_that_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(InvalidFile, match="no list of tables"):
        read_long_prompts(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{ above = 1, input = "1", output = "2", upstream = "x" }]', "upstream: is not known"),
        ('[{ above = 1, "a = 1\\n[upstreams.evil]" = "m" }]', "is not known"),
        ("[{ above = 1, input = 2.5 }]", "input"),
        ("[1]", "long"),
        ('[{ input = "1", output = "2" }]', "has no above"),
    ],
)
def test_rates_of_long_prompts_keep_to_the_rules_of_the_file(text: str, words: str) -> None:
    with pytest.raises(InvalidFile, match=words):
        read_long_prompts(text)
