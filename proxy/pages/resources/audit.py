"""``/api/v1/audit``: changes that people made, page by page."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Query
from pydantic import BaseModel, Field

from dashboards.access import Action
from dashboards.views.access import AuditPage
from proxy.pages.resources.api import Resource, api_route
from proxy.pages.store_questions import StoreAsker
from proxy.pages.viewing import SignedIn, check_allowed
from proxy.store.store import Store


class AuditQuery(BaseModel):
    """Changes that are wanted; "" in a filter is everything."""

    after: Annotated[str, Field(max_length=64, pattern=r"^[a-z0-9_]*$")] = Field(
        "", description="The `next` of the page before."
    )
    limit: int = Field(50, ge=1, le=200)
    who: Annotated[str, Field(max_length=300)] = Field("", description="Name of a person.")
    team: Annotated[str, Field(max_length=64)] = Field("", description="Id of a team.")


@dataclass(eq=False)
class AuditResource(Resource):
    """The audit log as administrators see it."""

    tag = "audit"

    _store: Store
    _ask: StoreAsker

    @api_route("GET", "/audit", name="list_changes")
    async def list(self, viewer: SignedIn, query: Annotated[AuditQuery, Query()]) -> AuditPage:
        """Changes that people made, the newest first."""
        check_allowed(viewer, Action.SEE_AUDIT_LOG)
        entries = await self._ask.answer(
            "audit",
            lambda: self._store.audit.entries(
                query.limit + 1, before=query.after, who=query.who, team=query.team
            ),
        )
        shown = entries[: query.limit]
        return AuditPage(
            entries=shown,
            next=shown[-1].id if len(entries) > query.limit else None,
        )
