"""Forms by which people set policies: preview, set, remove, undo."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from starlette.responses import Response

from dashboards.access import Viewer
from proxy.pages.resources.policies.policy_forms import form_inputs, policy_fields, policy_form
from proxy.pages.resources.policies.stored_policies import StoredPoliciesResource
from proxy.pages.site import Pages, form, redirect
from proxy.pages.viewing import FormFields
from slo.policies.toml_text import toml_difference

#: Words for what a page's forms set.
_TITLES: Final = {
    "objectives": "Ceilings and objectives",
    "budgets": "Sinks",
    "reports": "Reports",
    "models": "Models, prices and aliases",
}


async def policy_setup(
    policies: StoredPoliciesResource,
    viewer: Viewer,
    section: str,
    *,
    priced: str = "",
    schedule: Mapping[str, str] = MappingProxyType({}),
) -> Mapping[str, Any] | None:
    """Values for the forms of a page; None for those who may set no policy there.

    Args:
        priced: A model, with whose prices the form of prices is filled.
        schedule: Texts that the form of a scheduled report is filled with.
    """
    forms = [shown for shown in policies.forms(viewer) if shown.section == section]
    if not forms:
        return None
    named = {shown.kind for shown in forms}
    stored = (await policies.list(viewer)).policies
    removed = await policies.removals(viewer)
    return {
        "title": _TITLES[section],
        "forms": {shown.kind: shown for shown in forms},
        "inputs": {shown.kind: form_inputs(shown) for shown in forms},
        "filled": {
            "prices": policies.price_texts(viewer, priced) if priced else {},
            "reports": schedule,
        },
        "stored": None if stored is None else [one for one in stored if one.kind in named],
        "removed": [(kind, entry) for kind, entry in removed if kind in named],
    }


@dataclass(eq=False)
class PolicyPages(Pages):
    """The preview of a policy, and the forms that set, remove and restore one."""

    policies: StoredPoliciesResource

    @form("/policies/preview")
    async def preview_policy(self, viewer: Viewer, fields: FormFields) -> Response:
        """Shows a policy as the file would say it, with its trial."""
        policy = policy_form(fields["table"])
        preview = await self.policies.preview(
            viewer, policy.kind, policy_fields(policy.kind, fields)
        )
        return await self.site.html(
            "policy_preview.html",
            viewer,
            section=policy.section,
            noun=policy.noun,
            name=preview.policy.name,
            preview=preview,
            difference=toml_difference(preview.toml_in_force, preview.toml),
            fields=fields,
            action="/policies/set",
            back=policy.page,
        )

    @form("/policies/set")
    async def set_policy(self, viewer: Viewer, fields: FormFields) -> Response:
        """Sets a policy."""
        policy = policy_form(fields["table"])
        values = policy_fields(policy.kind, fields)
        await self.policies.set(viewer, policy.kind, values, fields.get("seen"))
        return redirect(policy.page)

    @form("/policies/remove")
    async def remove_policy(self, viewer: Viewer, fields: FormFields) -> Response:
        """Removes a policy."""
        policy = policy_form(fields["table"])
        await self.policies.remove(viewer, policy.kind, fields["name"], fields.get("seen"))
        return redirect(policy.page)

    @form("/policies/undo")
    async def undo_policy(self, viewer: Viewer, fields: FormFields) -> Response:
        """Takes the last change of a policy back."""
        policy = policy_form(fields["table"])
        await self.policies.undo(viewer, policy.kind, fields["name"], fields.get("seen"))
        return redirect(policy.page)
