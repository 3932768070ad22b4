"""Sends notices through Apprise: e-mail, PagerDuty, Teams and a hundred more services.

Apprise is a library whose calls block, so each notice is sent in a thread, with a deadline. It is
the extra ``[alerts]``, loaded only where a sink needs it. A sink's URL is its secret:
Apprise and what it sends with log URLs, so their loggers are silent here.

Source: https://github.com/caronc/apprise, Apprise.notify and AppriseAsset (2.2.0).
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import msgspec

from proxy.errors import how_to_install
from slo.alert import Alert, Severity, alert_lines

if TYPE_CHECKING:
    from apprise import Apprise

#: Threads that send; a service that hangs holds one until Apprise gives it up.
_MAX_THREADS: Final = 8
_LOGGERS: Final = ("apprise", "requests", "urllib3")
#: Apprise's type for each severity; what ended is a success.
_KINDS: Final = {Severity.PAGE: "failure", Severity.TICKET: "warning", Severity.NOTE: "info"}


class AppriseNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A notice as Apprise takes it.

    Attributes:
        title: The same when it begins and when it ends: services close by it what they opened.
        kind: ``failure``, ``warning``, ``info`` or ``success``, as Apprise has them.
    """

    title: str
    body: str
    kind: str


class AppriseSender:
    """Sends notices, each in a thread; closed by its opener.

    Args:
        deadline: Seconds that one notice may take.
    """

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="notices")
        self._busy: set[str] = set()

    async def send(self, url: str, notice: AppriseNotice) -> str:
        """Send a notice; why it was not taken, without the URL, or "" if it was."""
        if url in self._busy:
            return "it still works on the notice before"
        if len(self._busy) >= _MAX_THREADS:
            return f"{_MAX_THREADS} other sinks hang"
        self._busy.add(url)
        loop = asyncio.get_running_loop()
        work = loop.run_in_executor(self._threads, _send_blocking, url, notice, self._deadline)

        def over(done: asyncio.Future[bool]) -> None:
            self._busy.discard(url)
            if not done.cancelled():
                done.exception()  # it is looked at, also where no task waits any more

        work.add_done_callback(over)
        try:
            async with asyncio.timeout(self._deadline):
                is_taken = await asyncio.shield(work)
        except TimeoutError:
            return f"it did not answer within {self._deadline:g} s"
        return "" if is_taken else "the service did not take it"

    def close(self) -> None:
        """Send no more; what is under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def notice(alert: Alert, gateway_url: str = "") -> AppriseNotice:
    """Builds the notice of one alert.

    Callers' text may stand in it, so nothing in it becomes a mention.

    Args:
        gateway_url: URL at which browsers reach the gateway; "" where it is unknown.
    """
    ended = ["Resolved."] if not alert.is_open else []
    return AppriseNotice(
        title=_plain(alert.title),
        body=_plain("\n".join([*ended, *alert_lines(alert, gateway_url)])),
        kind=_KINDS[alert.severity] if alert.is_open else "success",
    )


def why_not(url: str, find: Callable[[str], object | None] = find_spec) -> str:
    """Reason that no notice can be sent to such a URL, without the URL; "" if it can.

    Args:
        url: A sink's; what is said follows the name of the variable that holds it.
        find: Finds a package by its name; None where it is not installed.
    """
    if find("apprise") is None:
        return f"is for the package apprise, which is missing: {how_to_install('alerts')}"
    return "" if _service(url) else "holds no URL that Apprise understands"


def _send_blocking(url: str, notice: AppriseNotice, seconds: float) -> bool:
    """True if every service of the URL took the notice; blocks."""
    from apprise import NotifyFormat, NotifyType  # noqa: PLC0415 - an extra

    service = _service(url)
    return service is not None and bool(
        service.notify(
            notice.body,
            title=notice.title,
            notify_type=NotifyType(notice.kind),
            body_format=NotifyFormat.TEXT,
            timeout=seconds,
        )
    )


def _service(url: str) -> "Apprise | None":
    """The service that the URL names; None where Apprise does not understand it."""
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415 - an extra

    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    # One thread for all, and nothing on the disk.
    asset = AppriseAsset(
        storage_mode="memory", app_id="Thriftgate", app_desc="Thriftgate", async_mode=False
    )
    service = Apprise(asset=asset)
    return service if service.add(url) and len(service) else None


def _plain(text: str) -> str:
    return text.replace("@", "@\u200b").replace("<!", "<\u200b!")
