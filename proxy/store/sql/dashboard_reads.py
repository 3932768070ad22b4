"""Reads of the ledger for pages alone, apart from what calls and commands use.

All of them sum in the database: rows that come back are as many as a page shows, however many
calls there are.
"""

from collections.abc import Callable
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from sqlalchemy import Engine

from proxy.store.sql.cache_sums import CacheReader
from proxy.store.sql.call_pages import CallPages
from proxy.store.sql.latency_histograms import LatencyReader
from proxy.store.sql.savings import Savings
from proxy.store.sql.savings_sums import SavingsReader
from proxy.store.sql.spend_series import SpendSeries

P = ParamSpec("P")
T = TypeVar("T")

_READERS: Final = (SpendSeries, SavingsReader, Savings, CacheReader, LatencyReader, CallPages)


class DashboardReads(Protocol):
    """Runs methods of the readers of pages, such as ``SpendSeries.spend_over_time``."""

    def read(
        self, method: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The method's result; blocks.

        Args:
            method: A method of one of the readers, unbound.
            args: Its arguments.
            kwargs: Its arguments by name.

        Raises:
            SQLAlchemyError: The database does not answer.
            TimeoutError: It did not in time.
        """
        ...


class LocalReads:
    """Runs the readers' methods in this process.

    Args:
        engine: Engine of connections that only read.
    """

    def __init__(self, engine: Engine) -> None:
        self._readers = {reader.__name__: reader(engine) for reader in _READERS}

    def read(
        self, method: Callable[Concatenate[Any, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """The method's result; the arguments are those of ``DashboardReads.read``."""
        name, _, _ = method.__qualname__.partition(".")
        return method(self._readers[name], *args, **kwargs)
