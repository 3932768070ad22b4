"""The formats in which a view leaves the process that reads the ledger: JSON, HTML or the view.

::

    readers ─ build(readers, question) ─ view ─ finish(view) ─▶ JSON, HTML, or the view itself

A view that is encoded there costs the gateway's process no more than passing its bytes on. So
nothing in this folder imports the web framework, which that process has no use for.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from dashboards import pages
from proxy.store.sql.views.readers import Readers

Q = TypeVar("Q")
V = TypeVar("V")
T = TypeVar("T")

#: By the kind of view; there are few.
_ADAPTERS: Final[dict[type[Any], TypeAdapter[Any]]] = {}


def read_view(
    readers: Readers, build: Callable[[Readers, Q], V], question: Q, finish: Callable[[V], T]
) -> T:
    """A view in the form that is asked for; all but the readers can be pickled.

    Args:
        readers: Readers of the database.
        question: Its other argument.
        finish: Brings it into its form.
    """
    return finish(build(readers, question))


def view_itself(view: V) -> V:
    """The view itself; for a page that puts several together, which must be small ones."""
    return view


def json_bytes(view: object) -> bytes:
    """The view as the API answers with it."""
    kind = type(view)
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind].dump_json(view)


def page_around(template: str, **values: object) -> Callable[[object], bytes]:
    """Renders a page around a view.

    Args:
        template: Name of its template, which calls the view ``shown``.
        values: Other values that it shows; they can be pickled.
    """
    return partial(_render, template, values)


def _render(template: str, values: dict[str, object], view: object) -> bytes:
    return pages.render(template, {**values, "shown": view}).encode()
