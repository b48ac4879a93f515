"""Permission requests: opask's own verdict first, then the host's policy; what nobody allows is denied."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from opask.adapters import Message
from opask.calling import called
from opask.driver.terms import DrivenSession, Policy
from opask.permissions import Allow, Defer, Deny, PermissionRequested

__all__ = ["PermissionDesk"]

_logger = logging.getLogger("opask.driver")


class PermissionDesk:
    """Answers a runtime's permission requests.

    Args:
        session: has the first word.
        policy: the host's, for what the session defers; without one that is denied.
        limit: how many requests may wait for the policy at once; more are denied.
        tasks: where the policy runs, so that the runtime is heard meanwhile.
        send: gives a reply to the runtime.
        fail: told of a fault in this process.
    """

    def __init__(
        self,
        session: DrivenSession,
        policy: Policy | None,
        limit: int,
        *,
        tasks: TaskGroup,
        send: Callable[[Message], Awaitable[object]],
        fail: Callable[[Exception], object],
    ) -> None:
        self._session = session
        self._policy = policy
        self._limit = limit
        self._tasks = tasks
        self._send = send
        self._fail = fail
        self._consulting: dict[anyio.CancelScope, str] = {}
        self._gone: set[anyio.CancelScope] = set()  # nobody waits for their reply
        self._closed = False

    async def decide(self, request: PermissionRequested) -> None:
        """Decide on a request and send the reply, or see to it that both is done."""
        verdict = self._session.decide(request)
        if isinstance(verdict, Defer) and self._policy is not None:
            if len(self._consulting) < self._limit:
                scope = anyio.CancelScope()
                self._consulting[scope] = request.request_id
                self._tasks.start_soon(self._consult, self._policy, request, scope)
                return
            verdict = Deny("Too many requests wait for a decision; try again later.", rule="too many")
            self._session.host_decided(request, verdict, by="opask")
        await self._send(self._session.reply(request, verdict))

    def withdraw(self) -> None:
        """Deny what still waits for the policy: its turn was interrupted, and the runtime may wait for replies."""
        for scope in list(self._consulting):
            scope.cancel()

    def withdrawn(self, request_id: str) -> None:
        """Hear that the runtime no longer waits for a reply: the policy is cancelled, and nothing is sent."""
        for scope, waiting in list(self._consulting.items()):
            if waiting == request_id:
                self._gone.add(scope)
                scope.cancel()

    def close(self) -> None:
        """Cancel what still waits for the policy: the runtime has gone."""
        self._closed = True
        self.withdraw()

    async def _consult(self, policy: Policy, request: PermissionRequested, scope: anyio.CancelScope) -> None:
        verdict: Allow | Deny = Deny("The turn was interrupted.", rule="interrupted")
        by, is_told = "opask", False
        try:
            with scope:
                verdict, by = await _verdict(policy, request), "host"
            self._consulting.pop(scope, None)
            if scope in self._gone:
                verdict, by = Deny("Nobody waits for this any more.", rule="withdrawn"), "opask"
            if not self._closed:
                is_told = True
                self._session.host_decided(request, verdict, by=by)
            if not self._closed and scope not in self._gone:
                await self._send(self._session.reply(request, verdict))
        except Exception as error:
            self._fail(error)
        finally:
            if not is_told and not self._closed:  # the whole run is being cancelled
                self._session.host_decided(
                    request, Deny("The run was ended.", rule="interrupted"), by="opask"
                )
            self._consulting.pop(scope, None)
            self._gone.discard(scope)


async def _verdict(policy: Policy, request: PermissionRequested) -> Allow | Deny:
    """Ask a policy; whatever is no clear verdict of it is a denial."""
    try:
        decided = await called(policy, request)
    except Exception:
        _logger.exception("the host's policy failed on permission request %s", request.request_id)
        return Deny("This could not be decided on, so it is denied.", rule="policy failed")
    if isinstance(decided, Allow | Deny):
        return decided
    return Deny("Nobody decided on this, so it is denied.", rule="no decision")
