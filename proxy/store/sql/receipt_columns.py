"""The columns of a receipt in the table ``calls``, made of the fields of ``Receipt``.

::

    Receipt's fields ─┬─ columns of the schema ─ names of an insert
                      ├─ receipt ─▶ row
                      └─ row ─▶ receipt

The type of a field decides the type of its column: text for str, whole microseconds for float
seconds, 1 and 0 for bool. Fields up to ``notes`` are null only where they are None; later fields
are null where they hold their default.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final, Literal

import msgspec

from proxy.records.prompt_segments import PromptSegments
from proxy.records.receipt import Outcome, PhasesFrom, Receipt, ServedBy
from proxy.store.sql.timestamps import micros, seconds
from slo.usage import Usage

SqlType = Literal["text", "integer", "bigint"]

#: Token buckets: columns of their own, null together where a call used no tokens.
_BUCKETS: Final = Usage.__struct_fields__

_LAST_FIELD_WITHOUT_NULLS: Final = "notes"
_SMALL_NUMBERS: Final = frozenset({"attempt", "status", "layout"})
_COLUMN_NAMES: Final = {"user": "user_hash"}
#: Tokens, nano-dollars (a million dollars) or microseconds of one call.
_MAX_COUNT: Final = 1 << 50

_encode_json = msgspec.json.Encoder().encode
_decode_tags = msgspec.json.Decoder(dict[str, str]).decode


@dataclass(frozen=True, slots=True)
class ReceiptColumn:
    """A column of ``calls``.

    Attributes:
        field: The receipt's field; "" for a bucket of its usage.
        is_nullable: True if it is null where the field has its default.
        write: Returns the column's value of the field's; None where they are the same.
        read: The same, back from a value that is not null.
    """

    name: str
    field: str
    sql_type: SqlType
    is_nullable: bool
    default: object = None
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


def _json_text(value: object) -> str:
    return _encode_json(value).decode()


def _notes_json(notes: tuple[str, ...]) -> str:
    return _json_text(notes) if notes else "[]"


def _tags_json(tags: tuple[tuple[str, str], ...]) -> str:
    return _json_text(dict(tags))


def _tags_of_json(text: str) -> tuple[tuple[str, str], ...]:
    return tuple(_decode_tags(text).items())


_FORMS: Final[Mapping[Any, tuple[SqlType, Any, Any]]] = {
    str: ("text", None, None),
    bool: ("integer", int, bool),
    int: ("bigint", None, None),
    int | None: ("bigint", None, None),
    float: ("bigint", micros, seconds),
    float | None: ("bigint", micros, seconds),
    Outcome: ("text", attrgetter("value"), Outcome),
    PhasesFrom: ("text", attrgetter("value"), PhasesFrom),
    ServedBy: ("text", attrgetter("value"), ServedBy),
    tuple[str, ...]: ("text", _notes_json, msgspec.json.Decoder(tuple[str, ...]).decode),
    tuple[tuple[str, str], ...]: ("text", _tags_json, _tags_of_json),
    PromptSegments | None: ("text", _json_text, msgspec.json.Decoder(PromptSegments).decode),
}
"""Type of the column of a field by the field's type, and how values are written and read."""


def _column(field: msgspec.structs.FieldInfo, *, is_late: bool) -> ReceiptColumn:
    name = _COLUMN_NAMES.get(field.name, field.name)
    sql_type, write, read = _FORMS[field.type]
    return ReceiptColumn(
        name=name,
        field=field.name,
        sql_type="integer" if name in _SMALL_NUMBERS else sql_type,
        is_nullable=is_late or field.default is None,
        default=field.default,
        write=write,
        read=read,
    )


def _columns() -> tuple[ReceiptColumn, ...]:
    fields = msgspec.structs.fields(Receipt)
    names = [field.name for field in fields]
    last = names.index(_LAST_FIELD_WITHOUT_NULLS)
    columns: list[ReceiptColumn] = []
    for place, field in enumerate(fields):
        if field.name == "usage":
            columns += (
                ReceiptColumn(bucket, "", "bigint", is_nullable=True) for bucket in _BUCKETS
            )
        elif field.name != "prompt":  # it has a table of its own
            columns.append(_column(field, is_late=place > last))
    return tuple(columns)


RECEIPT_COLUMNS: Final = _columns()
COLUMNS: Final = tuple(column.name for column in RECEIPT_COLUMNS)
"""The names of a row's values, in order."""

_ALWAYS_WRITTEN: Final = tuple(
    (place, column.write)
    for place, column in enumerate(RECEIPT_COLUMNS)
    if column.write is not None and not column.is_nullable
)
_NULLABLE: Final = tuple(
    (place, column.default, column.write)
    for place, column in enumerate(RECEIPT_COLUMNS)
    if column.is_nullable and (column.write is not None or column.default is not None)
)
_FIELDS: Final = tuple((column.field, column.read) for column in RECEIPT_COLUMNS)
_USAGE: Final = Receipt.__struct_fields__.index("usage")
_PROMPT: Final = Receipt.__struct_fields__.index("prompt")
_USAGE_END: Final = _USAGE + len(_BUCKETS)
_NO_USAGE: Final = (None,) * len(_BUCKETS)
_counts_of: Final = itemgetter(
    *(
        place
        for place, column in enumerate(RECEIPT_COLUMNS)
        if column.sql_type == "bigint" and column.name != "started"
    )
)


def row_from_receipt(receipt: Receipt) -> tuple[Any, ...]:
    """The values of a receipt in the order of ``COLUMNS``.

    Raises:
        OverflowError: A number is beyond anything one call can be; summed, it would spoil the
            rollups.
    """
    values = msgspec.structs.astuple(receipt)
    usage = _NO_USAGE if receipt.usage is None else msgspec.structs.astuple(receipt.usage)
    row = [*values[:_USAGE], *usage, *values[_USAGE + 1 : _PROMPT], *values[_PROMPT + 1 :]]
    for place, write in _ALWAYS_WRITTEN:
        row[place] = write(row[place])
    for place, default, write_known in _NULLABLE:
        value = row[place]
        if value == default:
            row[place] = None
        elif write_known is not None:
            row[place] = write_known(value)
    counts = [count for count in _counts_of(row) if count is not None]
    if max(counts) >= _MAX_COUNT or min(counts) <= -_MAX_COUNT:
        count = max(counts, key=abs)
        raise OverflowError(f"{count} cannot be a number of tokens, dollars or seconds")
    return tuple(row)


def receipt_from_row(values: Sequence[Any], prompt: str | None = None) -> Receipt:
    """The receipt in a row of ``COLUMNS``; seconds come back in whole microseconds."""
    named = {
        field: value if read is None else read(value)
        for (field, read), value in zip(_FIELDS, values, strict=True)
        if field and value is not None
    }
    buckets = values[_USAGE:_USAGE_END]
    usage = None if buckets[0] is None else Usage(**dict(zip(_BUCKETS, buckets, strict=True)))
    return Receipt(**named, usage=usage, prompt=prompt)
