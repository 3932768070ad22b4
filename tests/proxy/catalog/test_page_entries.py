"""Entries that people set, as a catalog file says them."""

from importlib import resources

import pytest

from proxy.catalog.load import load
from proxy.catalog.page_entries import (
    alias_text,
    model_text,
    read_array,
    stated_models,
    with_price,
)
from slo.toml.problems import InvalidFile

SHIPPED = resources.files("proxy.catalog").joinpath("models.toml").read_text(encoding="utf8")
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
    models = stated_models([text])
    names = ("price", "discount", "window")
    return {name: {k: v for k, v in one.items() if k in names} for name, one in models.items()}


def _tariffs(model: object) -> list[object]:
    return [route.tariff for route in model.routes]  # type: ignore[attr-defined]


def test_a_change_of_prices_stands_among_the_others_by_its_day() -> None:
    base = {"input": "1", "output": "2", "changes": [{"since": "2027-03-01", "input": "5"}]}
    changed = with_price({"name": "m"}, base, {"since": "2027-01-01", "input": "3"})
    again = with_price({"name": "m"}, changed["price"], {"since": "2027-01-01", "input": "4"})

    assert [(one["since"], one["input"]) for one in again["price"]["changes"]] == [
        ("2027-01-01", "4"), ("2027-03-01", "5"),
    ]  # fmt: skip
    assert '  { since = 2027-01-01, input = "4" },\n' in model_text(again)


def test_prices_for_always_replace_the_rates_and_keep_the_factors() -> None:
    base = {"input": "1", "since": "2026-01-01", "region": {"eu": "1.1"}, "changes": []}

    assert with_price({"name": "m"}, base, {"input": "3", "output": "9"})["price"] == {
        "input": "3", "output": "9", "region": {"eu": "1.1"},
    }  # fmt: skip


def test_aliases_of_a_team_stand_in_one_table() -> None:
    aliases = [
        {"team": "acme", "alias": "fast", "model": "a"},
        {"team": "acme", "alias": "claude-*", "model": "b"},
        {"team": "*", "alias": "fast", "model": "c"},
    ]
    assert alias_text(aliases) == (
        '[teams."acme".model_aliases]\n"fast" = "a"\n"claude-*" = "b"\n\n'
        '[teams."*".model_aliases]\n"fast" = "c"\n'
    )


def test_an_array_is_read_as_in_the_file() -> None:
    text = '[{ above = 272_000, input = "6", output = "30" }]'

    assert read_array(text, "long") == LONG


@pytest.mark.parametrize("text", ["1", "[", "", '"a"\nb = 1'])
def test_a_text_that_is_no_array_is_refused(text: str) -> None:
    with pytest.raises(InvalidFile, match="no list of tables"):
        read_array(text, "long")
