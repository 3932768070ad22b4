"""Tables of commands, each described once: printed for people, and as rows of a JSON document.

In a document money is US dollars as a decimal text, with every digit that is known, and null where
no price is. Moments are ISO 8601 in UTC, rates are parts of one, and field names stay.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Generic, NamedTuple, TypeVar

from rich.table import Table
from rich.text import Text

from proxy.cli.terminal import empty_table, feature_name, format_time
from proxy.records.amounts import column
from proxy.records.receipt import dollars

Document = dict[str, Any]
_Row_contra = TypeVar("_Row_contra", contravariant=True)
_Row = TypeVar("_Row")


def usd(nanos: int | None) -> str | None:
    """Nano-dollars as US dollars in full; None for what is not known."""
    if nanos is None:
        return None
    return f"-{dollars(-nanos)}" if nanos < 0 else dollars(nanos)


def iso_time(seconds: float) -> str | None:
    """A moment in seconds since the epoch as ISO 8601; None for 0."""
    if not seconds:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def rate(part: int, whole: int) -> float | None:
    """Part ÷ whole; None where there is no whole."""
    return part / whole if whole else None


class Form(NamedTuple):
    """The way in which the values of a column are shown, and written in a document.

    Attributes:
        cells: Returns the texts of all values of a column, which may depend on each other.
    """

    cells: Callable[[Sequence[Any]], Iterable[str]]
    to_json: Callable[[Any], Any] = lambda value: value
    is_right: bool = True


def each_by(
    text: Callable[[Any], str],
    to_json: Callable[[Any], Any] = lambda value: value,
    *,
    is_right: bool = True,
) -> Form:
    """A form that shows each value by itself."""
    return Form(lambda values: map(text, values), to_json, is_right)


TEXT: Final = each_by(str, is_right=False)
FEATURE: Final = each_by(feature_name, is_right=False)
COUNT: Final = each_by("{:,}".format)
MONEY: Final = Form(column, usd)
SHARE: Final = each_by(lambda part: "none" if part is None else f"{part:.1%}")
TIME: Final = each_by(format_time, iso_time, is_right=False)


@dataclass(frozen=True, slots=True)
class TableColumn(Generic[_Row_contra]):
    """A column of a table.

    Attributes:
        key: Its field in a document; "" where it is in the table alone.
        title: Its head in the table; "" where it is in the document alone.
        of: Returns its value of a row; None for the attribute that the key names.
    """

    key: str
    title: str = ""
    form: Form = TEXT
    of: Callable[[_Row_contra], Any] | None = None

    def value(self, row: _Row_contra) -> Any:  # noqa: ANN401 - of any column
        """The value of a row."""
        return getattr(row, self.key) if self.of is None else self.of(row)


def with_team(
    names: Mapping[str, str],
    *columns: TableColumn[_Row],
    team: Callable[[Any], str] = lambda row: row.team,
) -> tuple[TableColumn[_Row], ...]:
    """The columns behind those of a team's name, by the names of teams, and its id."""
    return (
        TableColumn("team", "team", of=lambda row: names.get(team(row), team(row))),
        TableColumn("team_id", of=team),
        *columns,
    )


def documents(columns: Sequence[TableColumn[_Row]], rows: Iterable[_Row]) -> list[Document]:
    """A document for each row."""
    written = [column for column in columns if column.key]
    return [
        {column.key: column.form.to_json(column.value(row)) for column in written} for row in rows
    ]


def text_table(columns: Sequence[TableColumn[_Row]], rows: Sequence[_Row]) -> Table:
    """The table of the rows."""
    shown = [column for column in columns if column.title]
    right = tuple(column.title for column in shown if column.form.is_right)
    table = empty_table(*(column.title for column in shown), right=right)
    cells = [column.form.cells([column.value(row) for row in rows]) for column in shown]
    for texts in zip(*cells, strict=True):
        table.add_row(*map(Text, texts))
    return table
