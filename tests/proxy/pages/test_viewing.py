"""Checks of what a viewer may do."""

import pytest

from dashboards.access import Action, Role, Viewer
from proxy.errors import CallerError
from proxy.pages.viewing import check_allowed


def test_an_action_beyond_the_role_is_refused_by_name() -> None:
    viewer = Viewer(name="ann", role=Role.VIEWER, own_teams=frozenset({"team_a"}))
    check_allowed(viewer, Action.SEE_COSTS, "team_a")

    with pytest.raises(CallerError, match="viewer may not change people; ask an admin"):
        check_allowed(viewer, Action.CHANGE_USERS)
    with pytest.raises(CallerError, match="may not see costs of this team"):
        check_allowed(viewer, Action.SEE_COSTS, "team_b")
