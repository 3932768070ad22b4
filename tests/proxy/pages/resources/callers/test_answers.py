"""The page by which a team purges answers that may be given again."""

from typing import Any

import pytest

from proxy.errors import Unready
from proxy.fast_path.answer_cache.answer_purges import PurgeScope
from proxy.pages.resources.callers.answers import answers_router
from proxy.records.call import Key
from proxy.store.errors import StoreError
from tests.fakes.pages import authenticate, page
from tests.fakes.refusals import refusing


class FakePurges:
    def __init__(self, *, is_away: bool = False) -> None:
        self.purged: list[tuple[str, PurgeScope, str]] = []
        self._is_away = is_away

    async def purge(self, key: Key, scope: PurgeScope, name: str) -> int:
        if self._is_away:
            raise StoreError("away")
        self.purged.append((key.team, scope, name))
        return 3


def delete(query: str = "", purges: FakePurges | None = None, **head: Any) -> Any:
    routes = answers_router((purges or FakePurges()).purge, authenticate)
    return page(routes, "/v1/thriftgate/answers", "DELETE", query=query, **head)


@pytest.mark.parametrize(
    ("query", "scope", "name"),
    [
        ("", "team", ""),
        ("feature=faq", "feature", "faq"),
        ("feature=", "feature", ""),
        ("tag=kb/7", "tag", "kb/7"),
        ("key=ab12", "key", "ab12"),
    ],
)
def test_a_team_purges_by_feature_tag_or_key_or_all_of_it(query, scope, name):
    purges = FakePurges()
    status, content, _ = delete(query, purges)

    assert (status, content) == (200, {"scope": scope, "name": name, "purged_here": 3})
    assert purges.purged == [("team_1", PurgeScope(scope), name)]


def test_a_purge_by_two_names_is_refused():
    with refusing(400, match="Name one of feature, tag and key"):
        delete("feature=faq&tag=kb")


def test_a_purge_that_others_cannot_learn_of_says_so():
    with pytest.raises(Unready, match="other processes do not know"):
        delete("tag=kb", FakePurges(is_away=True))


def test_a_purge_needs_a_key():
    with refusing(401):
        delete("tag=kb", headers={"authorization": "Bearer tg-2"})
