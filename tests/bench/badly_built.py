"""Replay lines of recorded conversations that were made to be built badly.

The words, the users and (for lmcache) the times are recorded; what is made is the build: the first
lines of every system text hold the time of the call, the user and a directory, tools are shuffled
with every call, and conversations are laid over each other in time, as they would be in one
feature's traffic. τ-bench's clock starts at the moment its policy names; AgentDojo's is any.
Calls without recorded times follow each other after 2 to 20 seconds.

With ``--mended`` the same words stand in a good order, from the first call on and without any
label: the rules, what varies between conversations, the conversation, the time; tools sorted. How
that is read as it is sent shows what this order does in a regime; another may do a little more.

With ``--native`` the calls are those that a client of Anthropic's API would make.

Usage: python -m tests.bench.badly_built KIND PATH [--gap 30] [--most N] [--seed S] [--mended]
[--native] > FILE
KIND is tau, agentdojo or lmcache; PATH is the set's file or folder.
"""

import argparse
import sys
from itertools import islice
from pathlib import Path

import orjson

from proxy.calls.translation.translation import prepare
from proxy.catalog.entries import Route
from proxy.configuration import read_catalog
from proxy.settings import read
from tests.fakes.badly_built import Line, lines
from tests.fakes.call_dependencies import call
from tests.fakes.recorded import KINDS

#: The model whose API the native calls are made in.
_CLAUDE = "claude-sonnet-5-5"
#: Between the lines above and the rules.
_RULES = "\n\n"


def main() -> None:
    """Write the lines to standard output."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("path", type=Path)
    parser.add_argument("--gap", type=float, default=30.0, help="seconds between two beginnings")
    parser.add_argument("--most", type=int, help="conversations to take")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--mended", action="store_true", help="the same words in a good order")
    parser.add_argument("--native", action="store_true", help="calls in Anthropic's API")
    options = parser.parse_args()
    claude = read_catalog(read({})).models[_CLAUDE].routes[0]
    them = islice(KINDS[options.kind](options.path), options.most)
    for line in lines(them, gap=options.gap, seed=options.seed):
        conversation = with_good_order(line) if options.mended else line
        if options.native:
            conversation = in_messages_form(conversation, claude)
        sys.stdout.buffer.write(orjson.dumps(conversation) + b"\n")


def with_good_order(line: Line) -> Line:
    """A line with its words in a good order: what changes with every call comes last."""
    body = line["body"]
    first, *rest = body["messages"]
    above, _, rules = first["content"].partition(_RULES)
    time, _, own = above.partition("\n")
    messages = [
        {**first, "content": f"{rules}{_RULES}{own}"},
        *rest,
        {"role": "system", "content": time},
    ]
    tools = sorted(body.get("tools", ()), key=lambda tool: str(tool["function"]["name"]))
    return {**line, "body": {**body, "messages": messages, **({"tools": tools} if tools else {})}}


def in_messages_form(line: Line, claude: Route) -> Line:
    """A line whose call is one of Anthropic's API."""
    body = prepare(call(orjson.dumps(line["body"])), claude).body
    return {**line, "url": "/v1/messages", "body": orjson.loads(body)}


if __name__ == "__main__":
    main()
