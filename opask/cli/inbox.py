"""`opask inbox`: what waits for an operator, listed, shown, answered, skipped and forgotten from a shell or a script."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from opask.cli import UsageError
from opask.cli.operators import read_answers
from opask.cli.stopping import Stopping
from opask.cli.table import Colour, definitions, is_coloured, paragraph, table, width
from opask.inert import inert_line, shorten

if TYPE_CHECKING:
    from opask.inbox import Entry, OperatorReply, RefusedError, SqliteStore
    from opask.questions import Answer, Question

__all__ = ["configure", "run"]

HELP = "show the questions that wait for you, and answer them"
EXAMPLE = 'opask inbox answer q_1a2b3c "PostgreSQL"'

_LONGEST_AGE: Final = timedelta(days=100_000)
_TITLE_LENGTH: Final = 60
_ID_LENGTH: Final = 60  # of a host's own; the bridge's are shorter
_COLOURS: dict[str, Colour] = {
    "pending": "yellow",
    "answered": "yellow",
    "delivered": "green",
    "undelivered": "red",
    "orphaned": "red",
}
_FORMS: Final = (
    "an option's label or its number, `--text` for words of your own; of several questions one ANSWER each, `-` to "
    "skip one"
)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    common = argparse.ArgumentParser(add_help=False)
    for each, default in ((parser, None), (common, argparse.SUPPRESS)):
        each.add_argument(
            "--inbox", type=Path, metavar="FILE", default=default, help="the inbox (default: your own)"
        )
        each.add_argument(
            "--json",
            action="store_true",
            default=False if default is None else default,
            help="print JSON",
        )
    commands = parser.add_subparsers(dest="action", metavar="ACTION")

    def action(name: str, what: str, example: str, *, of_one: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(name, parents=[common], help=what, epilog=f"example: {example}")
        if of_one:
            made.add_argument(
                "id", metavar="ID", help="the question's id, or a beginning of it that no other has"
            )
        return made

    listing = action(
        "list", "list what is open, or all", "opask inbox list --all --limit 20 --json", of_one=False
    )
    listing.add_argument("--all", action="store_true", help="also what is over")
    listing.add_argument("--session", metavar="ID", help="of this session alone")
    listing.add_argument("--limit", type=_count, metavar="N", help="the youngest N of them")

    action("show", "show one question whole", "opask inbox show q_1a2b3c")

    answering = action("answer", "answer a question", EXAMPLE)
    answering.add_argument("answers", metavar="ANSWER", nargs="*", help=_FORMS)
    answering.add_argument("--text", metavar="WORDS", help="your own words, alone or beside what is chosen")
    answering.add_argument(
        "--answers",
        dest="script",
        metavar="JSON|@FILE",
        help="an object from question text to label, list of labels, words of your own, or null",
    )

    action("skip", "let the agent go on without an answer", "opask inbox skip q_1a2b3c")

    pruning = action(
        "prune", "forget what has been over for long", "opask inbox prune --older-than 90", of_one=False
    )
    pruning.add_argument(
        "--older-than",
        type=_days,
        required=True,
        metavar="DAYS",
        help="forget the questions that were over, and the conversations that had ended, so long ago; what is open stays",
    )


def _count(value: str) -> int:
    if value.isdecimal() and int(value[:9]) > 0:
        return int(value[:9])
    raise argparse.ArgumentTypeError(f"{value!r} is no number above 0")


def _days(value: str) -> timedelta:
    with suppress(ValueError, OverflowError):
        if timedelta(0) <= (age := timedelta(days=float(value))) <= _LONGEST_AGE:
            return age
    raise argparse.ArgumentTypeError(
        f"{value!r} is no number of days from 0 to {_LONGEST_AGE.days}, such as 90 or 0.5"
    )


def run(args: argparse.Namespace) -> int:
    """Do what is asked for.

    Returns:
        0 where it is done, 1 where the inbox refused it.

    Raises:
        OpaskError: the inbox cannot be opened, or the arguments do not fit the question.
    """
    import anyio

    if args.action is None:
        return _full_screen(args)
    return anyio.run(_run, args, backend="asyncio")


def _full_screen(args: argparse.Namespace) -> int:
    import anyio

    if args.json:
        raise UsageError("--json goes with an action: opask inbox list --json")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("the full screen needs a terminal; name an action: opask inbox list")
    if os.environ.get("TERM", "") in {"", "dumb", "unknown"}:
        raise UsageError(
            "this terminal cannot show a full screen (see TERM); name an action: opask inbox list"
        )
    try:
        from opask.surfaces.fullscreen import InboxApp
    except ImportError:
        raise UsageError(
            "the full screen needs Textual: install opask[tui], or name an action, such as opask inbox list"
        ) from None

    async def show() -> int:
        stopping = Stopping()
        async with _store(args) as store, anyio.create_task_group() as tasks:
            app = InboxApp(store)
            stopping.first = app.exit
            tasks.start_soon(stopping.watch)
            await app.run_async()
            tasks.cancel_scope.cancel()
        if app.fault is not None:
            raise app.fault
        if stopping.by is not None:
            return 128 + stopping.by
        return app.return_code or 0

    return anyio.run(show, backend="asyncio")


def _store(args: argparse.Namespace) -> SqliteStore:
    from opask.inbox import SqliteStore, default_path

    if args.inbox is not None and args.action is not None and not args.inbox.exists():
        raise UsageError(
            f"--inbox {args.inbox}: there is no such file; name the one that the run or the server uses"
        )
    return SqliteStore(args.inbox or default_path())


async def _run(args: argparse.Namespace) -> int:
    from opask.inbox import RefusedError

    async with _store(args) as store:
        if args.action == "list":
            return await _list(store, args)
        if args.action == "prune":
            return await _prune(store, args)
        entry = await _found(store, args.id)
        if args.action == "show":
            _show(entry, as_json=args.json)
            return 0
        reply = _reply(args, entry)
        try:
            _show_decided(await store.resolve(entry.id, reply), as_json=args.json)
        except RefusedError as refusal:
            return _refused(refusal, args, reply)
    return 0


async def _prune(store: SqliteStore, args: argparse.Namespace) -> int:
    before = datetime.now(UTC) - args.older_than
    forgotten = await store.prune(before)
    if args.json:
        print(json.dumps({"forgotten": forgotten, "before": before.isoformat()}))
    else:
        what = "1 question is" if forgotten == 1 else f"{forgotten} questions are"
        print(f"{what} forgotten: what was over before {before.astimezone():%Y-%m-%d %H:%M}.")
    return 0


async def _found(store: SqliteStore, beginning: str) -> Entry:
    """Return the ask of an id, or of the only id that begins so."""
    from opask.inbox import UnknownAskError

    try:
        return await store.entry(beginning)
    except UnknownAskError as unknown:
        fitting = [entry for entry in await store.entries() if entry.id.startswith(beginning) and beginning]
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UsageError(
                f"{len(fitting)} questions have an id that begins with {shorten(beginning, 40)!r}; give more of it"
            ) from None
        raise UsageError(f"{unknown}; `opask inbox list --all` has those that there are") from None


# -- answering -------------------------------------------------------------------------------------------------------


def _reply(args: argparse.Namespace, entry: Entry) -> OperatorReply:
    from opask.errors import AnswerError
    from opask.outcomes import Answered, Skipped
    from opask.questions import check_answers
    from opask.wire import answers_from_wire

    by = f"cli:{_user()}"
    if args.action == "skip":
        return Skipped(by)
    questions = entry.ask.questions
    if args.script is not None and (args.answers or args.text is not None):
        raise UsageError("--answers is all the answers; leave out the ANSWER and --text")
    try:
        if args.script is not None:
            answers = answers_from_wire(questions, read_answers(args.script))
        else:
            answers = _answers(questions, args.answers, args.text)
        if any(answer is not None for answer in answers):
            check_answers(questions, answers)
    except AnswerError as error:
        raise UsageError(f"{error}; `opask inbox show {inert_line(entry.id)}` has the question") from None
    if all(answer is None for answer in answers):
        raise UsageError(
            f"that answers nothing; `opask inbox skip {inert_line(entry.id)}` skips the question"
        )
    return Answered(answers, by)


def _answers(
    questions: Sequence[Question], words: Sequence[str], text: str | None
) -> tuple[Answer | None, ...]:
    """Read ANSWERs: all for the one question, or one for each of several."""
    from opask.errors import AnswerError
    from opask.questions import Answer

    if len(questions) == 1:
        return (Answer(tuple(_position(questions[0], word) for word in words), text),)
    if text is not None:
        raise AnswerError("--text goes with a single question; use --answers for several")
    if len(words) != len(questions):
        raise AnswerError(f"{len(questions)} questions need {len(questions)} ANSWERs, `-` to skip one")
    return tuple(
        None if word == "-" else Answer((_position(question, word),))
        for question, word in zip(questions, words, strict=True)
    )


def _position(question: Question, word: str) -> int:
    from opask.errors import AnswerError

    labels = [option.label for option in question.options]
    fitting = [at for at, label in enumerate(labels) if label == word]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting and word.isdecimal() and 1 <= int(word[:9]) <= len(labels):
        return int(word[:9]) - 1
    if fitting:
        raise AnswerError(f"{len(fitting)} options are {shorten(word, 40)!r}; give the number of one")
    listed = ", ".join(f"{at} {shorten(label, 40)}" for at, label in enumerate(labels, 1))
    raise AnswerError(
        f"there is no option {shorten(word, 40)!r}"
        + (f" (there is {listed})" if listed else "")
        + "; --text sends your own words"
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def _refused(refusal: RefusedError, args: argparse.Namespace, reply: OperatorReply) -> int:
    from opask.inbox import TooLateError, entry_to_json, follow_up
    from opask.outcomes import Answered

    late = isinstance(refusal, TooLateError) and isinstance(reply, Answered) and refusal.entry is not None
    prompt = follow_up(refusal.entry.ask, reply.answers) if late else None  # type: ignore[union-attr]
    if args.json:
        entry = None if refusal.entry is None else entry_to_json(refusal.entry)
        _print({"refused": refusal.code, "reason": str(refusal), "entry": entry, "follow_up": prompt})
    elif prompt is not None:
        sys.stdout.write(f"It can be the agent's next prompt:\n\n{prompt}\n")
    print(f"opask inbox: {inert_line(str(refusal))}", file=sys.stderr)
    return 1


# -- showing ---------------------------------------------------------------------------------------------------------


async def _list(store: SqliteStore, args: argparse.Namespace) -> int:
    from opask.inbox import OPEN_STATES, entry_to_json

    entries = await store.entries(
        session_id=args.session, states=None if args.all else OPEN_STATES, limit=args.limit
    )
    if args.json:
        _print([entry_to_json(entry) for entry in entries])
        return 0
    if not entries:
        print("nothing waits" if not args.all else "nothing was asked", file=sys.stderr)
        return 0
    sessions = {session.id: session for session in await store.sessions()}
    rows = []
    for entry in entries:
        session = sessions.get(entry.session_id)
        about = shorten(session.title, 40) if session is not None else ""
        rows.append(
            [
                entry.id if len(entry.id) <= _ID_LENGTH else shorten(entry.id, _ID_LENGTH),
                entry.state,
                shorten(entry.runtime, 20),
                about or shorten(entry.session_id, 40),
                _ago(entry.ask.asked_at),
                _left(entry),
                _title(entry),
            ]
        )
    head = ["ID", "STATE", "RUNTIME", "SESSION", "ASKED", "LEFT", "QUESTION"]
    colours = _COLOURS if is_coloured() else None
    sys.stdout.write(table(head, rows, keys=2, columns=width(), colours=colours))
    return 0


def _title(entry: Entry) -> str:
    first, *others = entry.ask.questions
    more = f" (and {len(others)} more)" if others else ""
    return shorten(first.text, _TITLE_LENGTH) + more


def _show(entry: Entry, *, as_json: bool) -> None:
    from opask.inbox import entry_to_json

    if as_json:
        _print(entry_to_json(entry))
        return
    columns = width()
    facts = [
        ("State", entry.state + (f" by {shorten(entry.by, 60)}" if entry.by else "")),
        ("Why", entry.reason or ""),
        ("Session", f"{entry.session_id}{f' ({entry.runtime})' if entry.runtime else ''}"),
        ("Asked", _ago(entry.ask.asked_at)),
        ("Time left", _left(entry)),
    ]
    parts = [definitions([fact for fact in facts if fact[1]], columns=columns)]
    answers = getattr(entry.reply, "answers", (None,) * len(entry.ask.questions))
    for question, answer in zip(entry.ask.questions, answers, strict=True):
        several = " (several can be chosen)" if question.multi_select else ""
        parts.append("\n" + paragraph(f"{question.text}{several}", columns=columns))
        for number, option in enumerate(question.options, 1):
            mark = "*" if answer is not None and number - 1 in answer.selected else " "
            about = f": {option.description}" if option.description else ""
            parts.append(paragraph(f"{number} {option.label}{about}", columns=columns, indent=f"  {mark} "))
        if answer is not None and answer.text is not None:
            parts.append(paragraph(f"in their own words: {answer.text}", columns=columns, indent="  * "))
    sys.stdout.write("".join(parts))


def _show_decided(entry: Entry, *, as_json: bool) -> None:
    if as_json:
        _show(entry, as_json=True)
    else:
        print(f"{inert_line(entry.id)} is {entry.state}")


def _ago(time: datetime) -> str:
    return f"{_span((datetime.now(UTC) - time).total_seconds())} ago"


def _left(entry: Entry) -> str:
    if entry.state != "pending":
        return ""
    if entry.deadline is None:
        return "unbounded"
    return _span(max(0.0, (entry.deadline - datetime.now(UTC)).total_seconds()))


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _print(value: Any) -> None:
    # In ASCII: agents' texts are in it, and it may go to a terminal, or to a stream of any encoding.
    sys.stdout.write(json.dumps(value, indent=2) + "\n")
