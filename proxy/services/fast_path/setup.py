"""Sets up the fast path of a running gateway: texts, kept answers, and the small model first."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from proxy.app_context import AppContext
from proxy.calls.ports import Dependencies
from proxy.records.receipt import Receipt
from proxy.services.fast_path.answer_setup import StoredPurges, running_answers
from proxy.services.fast_path.contexts import ContextResolver, build_contexts
from proxy.services.fast_path.similar_answer_cache import SimilarAnswerCache
from proxy.services.fast_path.small_first import SmallFirstRouting, running_small_first
from proxy.upstream.port import Transport


@dataclass(frozen=True, slots=True, kw_only=True)
class FastPath:
    """The parts of the fast path; all but the contexts are None without a policies file.

    Attributes:
        contexts: Puts stored texts and fetched pages into calls.
        answers: Gives equal or similar calls the answer given before, and purges such answers.
        small_first: Sends calls to a small model first.
    """

    contexts: ContextResolver
    answers: StoredPurges | None
    small_first: SmallFirstRouting | None

    def join(self, deps: Dependencies) -> Dependencies:
        """The dependencies of calls with the fast path among them."""
        answers = None if self.answers is None else SimilarAnswerCache(self.answers.cache)
        return replace(deps, contexts=self.contexts, answers=answers, small_first=self.small_first)

    def use(self, deps: Dependencies) -> None:
        """Make the gateway's own calls with these dependencies from now on."""
        if self.small_first is not None:
            self.small_first.use(deps)


@asynccontextmanager
async def running_fast_path(
    context: AppContext,
    transport: Transport,
    listen: Callable[[Callable[[Receipt], None]], None],
    ticks: Callable[[], float],
) -> AsyncIterator[FastPath]:
    """Runs the fast path, which follows the policies.

    Args:
        listen: Has each receipt handed to a receiver.
        ticks: Seconds of a clock that goes forward.
    """
    contexts = build_contexts(context, transport, ticks)
    async with (
        running_small_first(context, listen, ticks) as small_first,
        running_answers(context) as answers,
    ):
        yield FastPath(contexts=contexts, answers=answers, small_first=small_first)
