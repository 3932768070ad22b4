"""``thriftgate answers``: purges answers that gateways may give again."""

from __future__ import annotations

from typing import Annotated

import typer

from proxy.cli.terminal import TeamName, Terminal


def answers(terminal: Terminal) -> typer.Typer:
    """The group of commands about kept answers."""
    commands = typer.Typer(no_args_is_help=True, help="Purge answers that may be given again.")
    commands.callback()(lambda: None)

    @commands.command("purge")
    def purge(
        team: TeamName,
        *,
        feature: Annotated[
            str | None, typer.Option(help='Those of a feature; "" for calls that name none.')
        ] = None,
        tag: Annotated[str | None, typer.Option(help="Those with a tag.")] = None,
        key: Annotated[
            str | None, typer.Option(help="The one with the key in `x-thriftgate-cache`.")
        ] = None,
    ) -> None:
        """Purge a team's answers: all of them, or those of one feature, tag or key.

        Running gateways follow within seconds. Answers under way now are not kept, either.
        """
        from proxy.fast_path.answer_cache.answer_purges import AnswerPurge, PurgeScope

        scopes = {PurgeScope.FEATURE: feature, PurgeScope.TAG: tag, PurgeScope.KEY: key}
        named = [(scope, name) for scope, name in scopes.items() if name is not None]
        if len(named) > 1:
            terminal.fail("Name one of --feature, --tag and --key; without any, all are purged.")
        scope, name = named[0] if named else (PurgeScope.TEAM, "")
        with terminal.store() as opened:
            team_id = terminal.team(opened, team)
            purge = AnswerPurge(team=team_id, scope=scope, name=name, purged_at=terminal.now())
            stored = opened.answer_purges.add(purge, terminal.author)
        is_all = stored.scope is PurgeScope.TEAM
        which = "all answers" if is_all else f'the answers of {stored.scope} "{stored.name}"'
        terminal.say(f"Team {team}: {which} are purged; running gateways follow within seconds.")

    return commands
