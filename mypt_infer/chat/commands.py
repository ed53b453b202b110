"""Defines the commands of a chat: what begins with a slash."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mypt_cli.run import message_of
from mypt_cli.words import counted
from mypt_infer.chat.session import Session, source_of
from mypt_infer.controller.transcript import trainable


class Command(NamedTuple):
    """A command: its name, what may follow it, what it does for the help, and the function."""

    name: str
    argument: str
    summary: str
    run: Callable[[Session, str], None]


def run(session: Session, line: str) -> bool:
    """Runs a command; returns whether the chat continues."""
    name, _, argument = line.partition(" ")
    if name in ("/quit", "/exit"):
        return False
    command = next((c for c in COMMANDS if c.name == name), None)
    if name == "/help":
        session.screen.say(help_text())
        return True
    if command is None:
        hint = "/help shows all. With a space before it, a text may begin with a slash"
        session.screen.say(f"no command {name}; {hint}")
        return True
    try:
        command.run(session, argument.strip())
    except (OSError, ValueError) as error:
        session.screen.say(f"{name}: {message_of(error)}", "bold red")
    return True


def help_text() -> str:
    """Returns what /help shows."""
    rows = [(f"{c.name} {c.argument}".rstrip(), c.summary) for c in COMMANDS]
    rows.append(("/quit", "leave (or Ctrl-D, or Ctrl-C twice)"))
    width = max(len(usage) for usage, _ in rows)
    lines = "\n".join(f"{usage:{width}}  {summary}" for usage, summary in rows)
    return (
        f"{lines}\n"
        "Alt-Enter begins a new line of a text, and so does Enter after a backslash.\n"
        "Ctrl-C ends a turn; what was said stays, and the history is legal."
    )


# What was said and found


def _show(session: Session, argument: str) -> None:
    screen = session.screen
    if not argument:
        screen.steps()
        return
    detail = _pick(screen.details, argument)
    usage = f"/show takes a number from 1 to {len(screen.details)}"
    screen.say(usage if detail is None else detail)


def _open(session: Session, argument: str) -> None:
    screen, engine = session.screen, session.engine
    note = _pick(screen.notes, argument)
    if note is None:
        screen.say(f"/open takes a number from 1 to {len(screen.notes)}")
        return
    doc, chunk = source_of(engine, note)
    if doc is None or engine is None:
        screen.say(f"{note}: the workspace has no such chunk or document")
        return
    screen.say(f"{doc.title}  ({doc.path})", "bold")
    text = chunk.text if chunk is not None else engine.get_doc_text(doc.doc_id) or ""
    screen.say(text.strip("\n"))


def _tools(session: Session, argument: str) -> None:
    tools = session.controller.tools
    session.screen.say(tools.usage if len(tools) else "no tools: start with --workspace DIR")


def _mask(session: Session, argument: str) -> None:
    from mypt_view.items import Item
    from mypt_view.terminal import Terminal

    screen, history = session.screen, session.controller.history
    d = history.dialect
    ids, left_out = trainable(history)
    for number, reason in left_out:
        screen.say(f"turn {number} is not trained: {reason}")
    episode, findings = d.parse_ids(ids)
    if episode is None:
        screen.say("nothing was said yet" if not history.ids else "nothing of it is trained")
        return
    findings += d.validate(episode)
    item = Item("the history", d, episode, tuple(d.segments(episode)), tuple(findings))
    Terminal(screen.stream).show(item, "mask")


def _why(session: Session, argument: str) -> None:
    screen, history = session.screen, session.controller.history
    end = session.controller.last_end
    if end is None:
        screen.say("no turn has ended yet")
        return
    counts: Counter[str] = Counter()
    for origin, number in history.origins:
        counts[origin] += number
    explanation = f": {end.message}" if end.message else ""
    screen.say(f"the last turn ended with {end.reason!r}{explanation}")
    numbers = ", ".join(f"{number} {origin}" for origin, number in counts.items())
    screen.say(f"ids in the history: {numbers}")
    hidden = f"; {history.first} turns are dropped" if history.first else ""
    screen.say(f"the model sees {len(history)} ids{hidden}")
    tokenizer = history.dialect.tokenizer
    for dropped in history.dropped:
        ids = [i for i in dropped.ids if i in tokenizer.ordinary or i in tokenizer.special.values()]
        screen.say(f"taken off at {dropped.at}: {tokenizer.decode(ids)!r}")


def _pick(items: list[str], number: str) -> str | None:
    plain = number.isascii() and number.isdigit() and len(number) < 7
    return items[int(number) - 1] if plain and 1 <= int(number) <= len(items) else None


# What happens next


def _undo(session: Session, argument: str) -> None:
    question = session.undo()
    first_line = question.splitlines()[0][:60] if question else "the last turn"
    session.screen.say(f"taken back: {first_line!r}; {counted(session.turns, 'turn')} left")


def _edit(session: Session, argument: str) -> None:
    question = session.question
    if not argument:
        if session.prompt is None:
            raise ValueError("it takes the text to say instead of the last one")
        text = session.prompt.edit(question)
        if text is None or not text.strip():
            session.screen.say("nothing was changed")
            return
        argument = text
    session.undo()
    session.turn(argument)


def _system(session: Session, argument: str) -> None:
    if not argument:
        session.screen.say(session.setup.prompt or "there is none")
        return
    session.begin(session.setup.prompted(argument))
    session.screen.say("a new conversation, with that system prompt")


def _reset(session: Session, argument: str) -> None:
    session.begin()
    session.screen.say("a new conversation")


def _load(session: Session, argument: str) -> None:
    if not argument:
        raise ValueError("it takes the name of a file, or FILE:N for its line N")
    session.load(argument)


def _save(session: Session, argument: str) -> None:
    if not argument:
        session.screen.say("/save takes the name of a file")
        return
    session.screen.say(session.save(Path(argument).expanduser()))


COMMANDS = (
    Command("/show", "[N]", "what was thought, called and found last; with N in full", _show),
    Command("/open", "N", "the place of a reference", _open),
    Command("/undo", "", "take the last turn back", _undo),
    Command("/retry", "", "ask the last question again", lambda s, _: s.turn(s.undo())),
    Command("/edit", "[TEXT]", "change the last question, and ask it again", _edit),
    Command("/system", "[TEXT]", "show the system prompt, or start over with another", _system),
    Command("/reset", "", "begin a new conversation", _reset),
    Command("/save", "FILE", "add the conversation to a file of JSONL", _save),
    Command("/load", "FILE", "continue the last conversation of a file, or FILE:N", _load),
    Command("/tools", "", "the tools", _tools),
    Command("/why", "", "how the last turn ended, and who wrote what", _why),
    Command("/mask", "", "the conversation, trained and masked", _mask),
)  # fmt: skip
NAMES = (*(command.name for command in COMMANDS), "/help", "/quit")
