"""Models, prices and aliases that people set on pages, as the text of a catalog file."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, Final

from proxy.catalog import layers
from proxy.catalog.entries import TOP_FIELDS
from proxy.catalog.prices import RATES
from slo.toml.fields import keys
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader
from slo.toml.values import toml_value

Fields = Mapping[str, Any]
"""The fields of an entry as JSON has them: dates are texts."""

#: Fields that hold dates.
_DATES: Final = frozenset({"since", "holidays", "retires"})
#: Parts of a price that a new price in its place replaces.
_REPLACED: Final = frozenset({*RATES, "long", "since", "changes"})


def model_text(fields: Fields) -> str:
    """The ``[[models]]`` table of a model, its prices below it."""
    values = {"id": fields["name"], **{k: v for k, v in fields.items() if k != "name"}}
    price = values.pop("price", None)
    lines = ["[[models]]", *(_line(key, value) for key, value in values.items())]
    if isinstance(price, Mapping):
        lines += ["", "[models.price]", *(_line(key, value) for key, value in price.items())]
    return "\n".join([*lines, ""])


def alias_text(aliases: Iterable[Fields]) -> str:
    """The tables of these aliases, by team."""
    teams: dict[str, list[str]] = {}
    for alias in aliases:
        line = f"{toml_value(alias['alias'])} = {toml_value(alias['model'])}"
        teams.setdefault(alias["team"], []).append(line)
    tables = [
        "\n".join([f"[teams.{toml_value(team)}.model_aliases]", *lines, ""])
        for team, lines in teams.items()
    ]
    return "\n".join(tables)


def with_price(fields: Fields, base: Fields, change: Fields) -> Fields:
    """The entry of a model with other prices, from a day on or always.

    Args:
        fields: The entry so far.
        base: Its prices until now; what a change does not restate stays.
        change: Rates, and ``since`` where they hold from a day on.
    """
    if not base or "since" not in change:
        unchanged = {key: value for key, value in base.items() if key not in _REPLACED}
        return {**fields, "price": {**change, **unchanged}}
    changes = [one for one in base.get("changes", ()) if one["since"] != change["since"]]
    changes = sorted([*changes, change], key=lambda one: str(one["since"]))
    return {**fields, "price": {**base, "changes": changes}}


def stated_models(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The fields of each model of these catalog files, the later ones over the earlier."""
    problems: list[Problem] = []
    files = [TableReader(parse_toml(text, ""), keys(TOP_FIELDS), problems) for text in texts]
    return {name: plain_value(node) for name, node in layers.models(files).items()}


def plain_value(node: Node) -> Any:  # noqa: ANN401 - whatever TOML can say
    """A value as JSON has it."""
    if isinstance(node.value, dict):
        return {key: plain_value(inner) for key, inner in node.value.items()}
    if isinstance(node.value, list):
        return [plain_value(inner) for inner in node.value]
    return node.value.isoformat() if isinstance(node.value, date) else node.value


def read_array(text: str, key: str) -> Any:  # noqa: ANN401 - whatever TOML can say
    """An array that people write as in the file.

    Raises:
        InvalidFile: It is none.
    """
    value = None
    with suppress(InvalidFile):
        value = plain_value(parse_toml(f"{key} = {text}", key).value[key])
    if not isinstance(value, list):
        fix = 'write [{ above = 200_000, input = "2.50", output = "15" }]'
        problem = Problem(file=key, line=1, where=key, what="is no list of tables", fix=fix)
        raise InvalidFile([problem])
    return value


def _line(key: str, value: object) -> str:
    plain = _with_dates(key, value)
    if isinstance(plain, list) and plain and isinstance(plain[0], Mapping):
        return "\n".join([f"{key} = [", *(f"  {toml_value(one)}," for one in plain), "]"])
    return f"{key} = {toml_value(plain)}"


def _with_dates(key: str, value: Any) -> Any:  # noqa: ANN401 - whatever TOML can say
    """The value with dates where its texts are some."""
    if isinstance(value, Mapping):
        return {inner: _with_dates(inner, each) for inner, each in value.items()}
    if isinstance(value, list):
        return [_with_dates(key, each) for each in value]
    if key in _DATES and isinstance(value, str):
        for kind in (date, datetime):
            try:
                return kind.fromisoformat(value)
            except ValueError:
                continue
    return value
