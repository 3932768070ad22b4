"""Models, prices and aliases that people set on pages, as the text of a catalog file."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any, Final, cast

from proxy.catalog import layers, prices
from proxy.catalog.entries import TOP_FIELDS
from proxy.catalog.load import parse_shipped
from slo.price import NO_DISCOUNT
from slo.toml.fields import keys
from slo.toml.nodes import Node, parse_toml
from slo.toml.problems import InvalidFile, Problem
from slo.toml.table_reader import TableReader
from slo.toml.values import toml_key, toml_line, toml_value

Fields = Mapping[str, Any]
"""The fields of an entry as JSON has them: dates are texts."""

#: Fields that hold dates.
_DATES: Final = frozenset({"since", "holidays", "retires"})
_LONG: Final = "long"


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
        line = toml_line(alias["alias"], alias["model"])
        teams.setdefault(alias["team"], []).append(line)
    tables = [
        "\n".join([f"[teams.{toml_key(team)}.model_aliases]", *lines, ""])
        for team, lines in teams.items()
    ]
    return "\n".join(tables)


def with_price(fields: Fields, base: Fields, change: Fields, today: date) -> Fields:
    """The entry of a model with other prices, from a day on or at once.

    Args:
        fields: The entry so far.
        base: Its prices until now; what a change does not restate stays.
        change: Rates, and ``since`` where they hold from a day on.
    """
    changes = list(base.get("changes", ()))
    if not base:
        price = change
    elif "since" in change:
        same_day = [one for one in changes if one["since"] == change["since"]]
        others = [one for one in changes if one not in same_day]
        merged = {key: value for one in (*same_day, change) for key, value in one.items()}
        ordered = sorted([*others, merged], key=lambda one: str(one["since"]))
        price = {**base, "changes": ordered}
    else:
        later = [one for one in changes if not _has_begun(one, today)]
        price = {**present_price(base, today), **change, **({"changes": later} if later else {})}
    return {**fields, "price": price}


def present_price(base: Fields, today: date) -> Fields:
    """The prices of a day as one table: what a change does not restate stays.

    Service tiers with rates of their own end where the standard rates move, as in a file.
    """
    price = {key: value for key, value in base.items() if key not in {"since", "changes"}}
    for change in base.get("changes", ()):
        if _has_begun(change, today):
            moves = not change.keys().isdisjoint(prices.RATES)
            tiers = price.get("service", {}).items()
            service = {
                tier: rates for tier, rates in tiers if not (moves and isinstance(rates, Mapping))
            }
            price = {**price, **change, "service": {**service, **change.get("service", {})}}
    return {key: value for key, value in price.items() if key != "since" and value != {}}


def _has_begun(change: Fields, today: date) -> bool:
    return str(change["since"])[:10] <= today.isoformat()


def stated_models(shipped: str, texts: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The fields of each model of these catalog files, the later ones over the earlier."""
    problems: list[Problem] = []
    trees = [parse_shipped(shipped), *(parse_toml(text, "") for text in texts)]
    files = [TableReader(tree, keys(TOP_FIELDS), problems) for tree in trees]
    return {name: plain_value(node) for name, node in layers.models(files).items()}


def plain_value(node: Node) -> Any:  # noqa: ANN401 - whatever TOML can say
    """A value as JSON has it."""
    if isinstance(node.value, dict):
        return {key: plain_value(inner) for key, inner in node.value.items()}
    if isinstance(node.value, list):
        return [plain_value(inner) for inner in node.value]
    return node.value.isoformat() if isinstance(node.value, date) else node.value


def read_long_prompts(text: str) -> Sequence[Fields]:
    """The rates of long prompts, which people write as in the file.

    Raises:
        InvalidFile: They are none, or break its rules.
    """
    tree = None
    with suppress(InvalidFile):
        tree = parse_toml(f"{_LONG} = {text}", _LONG)
    if (
        tree is None
        or tree.value.keys() != {_LONG}
        or not isinstance(tree.value[_LONG].value, list)
    ):
        fix = 'write [{ above = 200_000, input = "2.50", output = "15" }]'
        problem = Problem(file=_LONG, line=1, where=_LONG, what="is no list of tables", fix=fix)
        raise InvalidFile([problem])
    problems: list[Problem] = []
    prices.tariff(tree, NO_DISCOUNT, problems)
    if any(not problem.warning for problem in problems):
        raise InvalidFile(problems)
    return cast(Sequence[Fields], plain_value(tree.value[_LONG]))


def _line(key: str, value: object) -> str:
    plain = _with_dates(key, value)
    if isinstance(plain, list) and plain and isinstance(plain[0], Mapping):
        return "\n".join([f"{toml_key(key)} = [", *(f"  {toml_value(one)}," for one in plain), "]"])
    return toml_line(key, plain)


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
