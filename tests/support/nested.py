"""A format of a few tags in which tools are in the system block, and thoughts in that of answers."""

from pathlib import Path

import mypt_spec
from mypt_spec import Dialect
from tests.support.tables import GPT2, head, row, special, write_table

GRAMMAR = """start: system? (user answer)+
system: SYSTEM TEXT* (TOOLS TEXT+ TOOLS_END)? END
user: USER TEXT* END
answer: ASSISTANT (THINK TEXT* THINK_END)? TEXT* END
%declare SYSTEM TOOLS TOOLS_END USER ASSISTANT THINK THINK_END END TEXT
"""
BLOCKS = """shape = "messages"

[blocks]
system = "system"
tools = "system/tools"
user = "user"
thought = "assistant/think"
answer = "assistant"
"""


def opener(name: str, *lines: str, loss: int = 0) -> str:
    """Returns the row of a tag that opens the block of its name."""
    return row(name, special(f"<{name.lower()}>"), f'opens = "{name.lower()}"', *lines, loss=loss)


def closer(name: str, *kinds: str, loss: int = 0) -> str:
    """Returns the row of a tag that closes blocks of some kinds."""
    return row(name, special(f"<{name.lower()}>"), f"closes = {[*kinds]}", loss=loss)


def nested(
    folder: Path, more: str = "", *, blocks: str = BLOCKS, grammar: str = GRAMMAR,
    body: str = "tool_lines", answer: str = "", others: str = "",
    system: str = "", rows: str = "", silent: bool = False, spelling: str = "",
) -> Dialect:  # fmt: skip
    """Returns a format of a few tags.

    `more` is in its records.toml, `body` is that of tools, `answer` in the row of the answer,
    `others` in those of questions and thoughts, `system` in that of system messages; `rows` follow. The latter has no tag if `silent`, and the tag of an answer begins with the piece `spelling`.
    """
    usual = [
        opener("SYSTEM", system), opener("TOOLS", f'body = "{body}"'), closer("TOOLS_END", "tools"),
        opener("USER", others), opener("ASSISTANT", answer, loss=1), opener("THINK", others, loss=1),
        closer("THINK_END", "think", loss=1), closer("END", "system", "user", "assistant", loss=1),
    ]  # fmt: skip
    if spelling:
        usual[4] = usual[4].replace("spelling = [", f"spelling = [{spelling}, ")
    if silent:
        usual[0] = usual[0].replace(special("<system>"), "spelling = []")
        del usual[1:3]
    table = head("nested", GPT2, 'turn_opener = "user"') + "\n" + "".join(usual) + rows
    return mypt_spec.load(write_table(folder / "nested", grammar, table, blocks + more))
