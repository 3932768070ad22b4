"""Forms by which administrators set ceilings and objectives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from starlette.responses import Response

from dashboards.access import Action, Viewer
from proxy.pages.policies.policy_forms import POLICY_KINDS, form_inputs, policy_fields
from proxy.pages.policies.stored_policies import StoredPoliciesResource
from proxy.pages.site import Pages, form
from proxy.pages.viewing import FormFields
from slo.policies.toml_text import toml_difference

_BACK = "/objectives#set-policies"


async def stored_policy_values(
    policies: StoredPoliciesResource, viewer: Viewer
) -> Mapping[str, Any]:
    """Values of the page that has the forms; it has none for those who may not set policies."""
    if not (viewer.may(Action.CHANGE_CONFIGURATION) and policies.are_kept):
        return {"inputs": {}}
    return {
        "inputs": {kind: form_inputs(kind) for kind in POLICY_KINDS},
        "stored": (await policies.list(viewer)).policies,
        "removed": await policies.removals(viewer),
    }


@dataclass(eq=False)
class PolicyPages(Pages):
    """The preview of a policy, and the forms that set, remove and restore one."""

    policies: StoredPoliciesResource

    @form("/policies/preview")
    async def preview_policy(self, viewer: Viewer, fields: FormFields) -> Response:
        """Shows a policy as the file would say it, with its trial on yesterday's calls."""
        kind = fields["kind"]
        preview = await self.policies.preview(viewer, kind, policy_fields(kind, fields))
        return await self.site.html(
            "policy_preview.html",
            viewer,
            section="objectives",
            noun=kind.removesuffix("s"),
            name=preview.policy.name,
            preview=preview,
            difference=toml_difference(preview.toml_in_force, preview.toml),
            fields=fields,
            action="/policies/set",
            back=_BACK,
        )

    @form("/policies/set", back=_BACK)
    async def set_policy(self, viewer: Viewer, fields: FormFields) -> None:
        """Sets a policy."""
        kind = fields["kind"]
        await self.policies.set(viewer, kind, policy_fields(kind, fields))

    @form("/policies/remove", back=_BACK)
    async def remove_policy(self, viewer: Viewer, fields: FormFields) -> None:
        """Removes a policy."""
        await self.policies.remove(viewer, fields["kind"], fields["name"])

    @form("/policies/undo", back=_BACK)
    async def undo_policy(self, viewer: Viewer, fields: FormFields) -> None:
        """Takes the last change of a policy back."""
        await self.policies.undo(viewer, fields["kind"], fields["name"])
