"""A question put to a client as an elicitation, in both eras of the protocol, and what counts as a person's reply.

In the handshake revisions the server makes a request while the call waits; from revision 2026-07-28 on the call
returns ``input_required`` and the client makes it again with the reply.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeAlias

import anyio
import mcp_types as types
from attrs import frozen
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from opask.inbox import AlreadyResolvedError, Entry, RefusedError, Store, TooLateError
from opask.inert import inert_line, shorten
from opask.surfaces.mcp.driving import Driven
from opask.surfaces.mcp.forms import Form, FormError
from opask.surfaces.mcp.waiting import until_decided

__all__ = ["KEY", "Context", "Elicitor", "Offer", "client_name", "is_modern", "takes_forms"]

Context: TypeAlias = ServerRequestContext[Any, Any]

KEY: Final = "answer"
"""What the one request of an ``input_required`` result is called."""

_ROUNDS: Final = 8  # of one call; the SDKs' clients give one up after ten
_OFFERS_MAX: Final = 256
_NAME_MAX: Final = 40
_FIRST_WITH_ARRAYS: Final = "2025-11-25"
_GONE: Final = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


@frozen
class Offer:
    """A form that a client holds.

    Args:
        session_id: the session that asks.
        question_id: what it asks.
        offered_at: when, on the elicitor's clock.
        rounds: how many forms this call has offered, this one included.
    """

    session_id: str
    question_id: str
    offered_at: float
    rounds: int


def client_name(ctx: Context) -> str:
    """Return what the client calls itself, for the record of who answered."""
    params = ctx.session.client_params
    name = shorten(params.client_info.name, _NAME_MAX) if params is not None else ""
    return name or "client"


def is_modern(ctx: Context) -> bool:
    """Tell whether the call is of a revision in which a server makes no requests."""
    return ctx.session.protocol_version in MODERN_PROTOCOL_VERSIONS


def takes_forms(ctx: Context) -> bool:
    """Tell whether the client says that it shows forms; a bare ``elicitation`` means that it does."""
    capabilities = ctx.session.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


class Elicitor:
    """Puts questions to clients as forms.

    A client that says it shows forms and does not (an error, a reply sooner than a person's) is not asked again in
    that session; neither is a form offered again that a client of the later revisions never came back with.

    Args:
        store: where the questions are.
        human: a decline or a cancel that comes sooner was not a person's.
        clock: gives the time in seconds.
    """

    def __init__(self, store: Store, human: timedelta, clock: Callable[[], float]) -> None:
        self._store = store
        self._human = human.total_seconds()
        self._clock = clock
        self._faults: dict[str, str] = {}  # of the forms of a session
        self._offers: OrderedDict[str, Offer] = OrderedDict()
        self._offered: OrderedDict[str, None] = OrderedDict()  # questions that a client was given the form of

    def forget(self, session_id: str) -> None:
        """Forget a session."""
        self._faults.pop(session_id, None)

    def fault(self, session_id: str) -> str | None:
        """Return why forms are no way to ask in a session, None where they are."""
        return self._faults.get(session_id)

    # -- the handshake revisions -----------------------------------------------------------------------------------

    async def ask(self, ctx: Context, session: Driven, entry: Entry, seconds: float) -> str | None:
        """Ask a client, and decide the question as the form comes back.

        The form is withdrawn where the question is decided elsewhere, and when the time is over.

        Args:
            ctx: the call that waits.
            session: the session that asks.
            entry: what it asks.
            seconds: how long there is.

        Returns:
            Why no person's answer came of it, so that the question is still open; None where it is decided or the
            time is over.
        """
        form = self._form(ctx, session, entry)
        fault: str | None = None
        begun = self._clock()
        with anyio.move_on_after(seconds):
            async with anyio.create_task_group() as tasks:

                async def withdraw() -> None:
                    await until_decided(entry.id, self._store)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(withdraw)
                result: types.ElicitResult | None = None
                try:
                    result = await ctx.session.elicit_form(
                        form.message, dict(form.schema), related_request_id=ctx.request_id
                    )
                except MCPError as error:
                    fault = _error_of(error)
                except ValidationError:
                    fault = "the client's reply to the form was none"
                except _GONE:
                    fault = "the client is gone"
                took = self._clock() - begun
                with anyio.CancelScope(shield=True):  # a reply that came is not lost to the end of the time
                    if result is not None:
                        fault = await self._take(client_name(ctx), entry, form, result, took)
                    elif fault is not None:
                        self._faults[session.id] = fault
                tasks.cancel_scope.cancel()
        return fault

    # -- revision 2026-07-28 ---------------------------------------------------------------------------------------

    def offer(
        self, ctx: Context, session: Driven, entry: Entry, before: Offer | None
    ) -> types.InputRequiredResult | None:
        """Return the result that has the client ask; None where it has to be asked otherwise.

        Args:
            ctx: the call.
            session: the session that asks.
            entry: what it asks.
            before: the form that this call came back with, if it did.
        """
        rounds = 1 if before is None else before.rounds + 1
        if rounds > _ROUNDS or entry.id in self._offered:
            return None
        form = self._form(ctx, session, entry)
        state = secrets.token_urlsafe(24)
        self._offers[state] = Offer(session.id, entry.id, self._clock(), rounds)
        self._offered[entry.id] = None
        for kept in (self._offers, self._offered):
            while len(kept) > _OFFERS_MAX:
                kept.popitem(last=False)
        params = types.ElicitRequestFormParams(message=form.message, requested_schema=dict(form.schema))
        return types.InputRequiredResult(
            input_requests={KEY: types.ElicitRequest(params=params)}, request_state=state
        )

    def offered(self, state: str) -> Offer | None:
        """Return the form that a call comes back with; None where it is not known, or not any more."""
        return self._offers.get(state)

    async def take(
        self, ctx: Context, session: Driven, offer: Offer, responses: Mapping[str, object]
    ) -> str | None:
        """Decide a question as a form came back.

        Returns:
            Why no person's answer came of it; None where the question is decided.
        """
        entry = await self._store.entry(offer.question_id)
        result = responses.get(KEY)
        if entry.state != "pending":
            return None
        if not isinstance(result, types.ElicitResult):
            return "the form did not come back"
        self._offered.pop(entry.id, None)
        form = self._form(ctx, session, entry)
        return await self._take(client_name(ctx), entry, form, result, self._clock() - offer.offered_at)

    # -- both ------------------------------------------------------------------------------------------------------

    def _form(self, ctx: Context, session: Driven, entry: Entry) -> Form:
        arrays = ctx.session.protocol_version >= _FIRST_WITH_ARRAYS
        return Form.of(entry.ask.questions, f"An agent on {session.runtime}", arrays=arrays)

    async def _take(
        self, client: str, entry: Entry, form: Form, result: types.ElicitResult, took: float
    ) -> str | None:
        if result.action != "accept" and took < self._human:
            fault = f"the client answered the form with a {result.action} in {took * 1000:.0f} ms, which is no person's"
            self._faults[entry.session_id] = fault
            return fault
        by = f"elicitation:{client}"
        try:
            reply = form.reply(result.action, result.content, by)
            await self._store.resolve(entry.id, reply, session_id=entry.session_id, by=by)
        except FormError as error:
            return f"the form came back without an answer that can be taken: {error}"
        except (AlreadyResolvedError, TooLateError):
            return None  # another was faster, which is told with what comes next
        except RefusedError as error:
            return str(error)
        return None


def _error_of(error: MCPError) -> str:
    if error.error.code == types.METHOD_NOT_FOUND:
        return "the client says that it shows forms, and knows no elicitation/create"
    return inert_line(f"the client could not show the form: {error.error.message} ({error.error.code})")
