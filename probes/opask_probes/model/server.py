"""Serve a scripted model over HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final, Literal

import anyio
import uvicorn
from attrs import Factory, asdict, define, field, frozen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from opask.errors import OpaskError

from .anthropic import Anthropic
from .dialect import Dialect, MalformedRequestError, Message, ModelRequest
from .gemini import Gemini
from .openai_chat import OpenAIChat
from .openai_responses import OpenAIResponses
from .player import MismatchError, Player
from .scenario import Scenario

__all__ = ["Exchange", "Failure", "ModelError", "ScenarioFailedError", "ScriptedModel", "serve"]

_DIALECTS: Final[tuple[Dialect, ...]] = (Anthropic(), OpenAIChat(), OpenAIResponses(), Gemini())
_SECRETS: Final = frozenset({"authorization", "cookie", "x-api-key", "x-goog-api-key"})
_METHODS: Final = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]
_RELEASE: Final = "/opask/release/"


class ModelError(OpaskError):
    """The scripted model cannot be served."""


@frozen
class Failure:
    """What did not fit.

    Args:
        reason: what and why.
        conversation: where in the scenario, as far as that is known.
        step: which step of it, from 1.
        request: which request, from 1; None for what was not asked at all.
    """

    reason: str
    conversation: str | None = None
    step: int | None = None
    request: int | None = None

    def __str__(self) -> str:
        where = [f"conversation {self.conversation}"] if self.conversation else []
        where += [f"step {self.step}"] if self.step else []
        where += [f"request {self.request}"] if self.request else []
        return f"{', '.join(where) or 'the run'}: {self.reason}"


class ScenarioFailedError(OpaskError):
    """A scenario that was not played as it is written.

    Attributes:
        failures: what went wrong, first to last.
    """

    def __init__(self, scenario: str, failures: tuple[Failure, ...]) -> None:
        super().__init__("\n".join([f"scenario {scenario} was not played as written:", *map(str, failures)]))
        self.failures = failures


@define
class Exchange:
    """One HTTP request that the runtime sent, and what was made of it.

    Attributes:
        number: which one, from 1.
        at: when it came, in seconds since the model started.
        headers: its headers, without the values that are credentials.
        body: its body, decoded where it is JSON.
        kind: ``scripted``, an agent's turn that had its step; ``side``, a model call beside the script;
            ``service``, another path of the service; ``refused``, what did not fit; ``unknown``, a path that no
            dialect has, or a request that still waits.
        note: why it is beside the script or did not fit.
        status: the HTTP status of the response.
        request: what it asks the model, if anything.
        reply: what the model said.
    """

    number: int
    at: float
    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    kind: Literal["scripted", "side", "service", "refused", "unknown"] = "unknown"
    dialect: str | None = None
    conversation: str | None = None
    step: int | None = None
    note: str | None = None
    status: int = 0
    request: ModelRequest | None = None
    reply: Message | None = None

    def to_data(self) -> dict[str, Any]:
        """Give the exchange as plain data, for a log."""
        data = asdict(self, recurse=False)
        del data["request"]  # the body has it all
        data["reply"] = None if self.reply is None else asdict(self.reply)
        return data


@define
class ScriptedModel:
    """A model that plays one scenario and keeps all that it was sent; `serve` makes one.

    Attributes:
        scenario: what it plays.
        url: the address that the runtime is told, without a path.
        requests: what the runtime sent, first to last.
    """

    scenario: Scenario
    url: str
    requests: list[Exchange] = Factory(list)
    _watch: Callable[[Exchange], None] | None = None
    _player: Player = field(init=False, default=Factory(lambda self: Player(self.scenario), takes_self=True))
    _failures: list[Failure] = field(init=False, factory=list)
    _began: float = field(init=False, factory=time.monotonic)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """What did not fit so far, each reason once; steps that are still to come are none."""
        return tuple(self._failures)

    @property
    def unplayed(self) -> tuple[Failure, ...]:
        """The first step that is still to come, of each conversation that is not at its end."""
        return tuple(Failure(e.reason, e.conversation, e.step) for e in self._player.unplayed())

    def verify(self) -> None:
        """Check that the scenario was played to its end and nothing else was asked.

        Raises:
            ScenarioFailedError: it was not so.
        """
        if failures := self.failures + self.unplayed:
            raise ScenarioFailedError(self.scenario.name, failures)

    def turns(self, conversation: str) -> list[ModelRequest]:
        """Give the requests of a conversation, in order, refused ones included."""
        return [e.request for e in self.requests if e.conversation == conversation and e.request is not None]

    def release(self, gate: str) -> None:
        """Open a gate that a step is held at; ``POST /opask/release/GATE`` does the same.

        Raises:
            KeyError: the scenario has no such gate.
        """
        self._player.release(gate)

    async def played(self, conversation: str, step: int) -> None:
        """Wait until the reply of a step, from 1, went out."""
        await self._player.played(conversation, step)

    def close(self) -> None:
        """Let go of the requests that are held; they fail."""
        self._player.close()

    async def handle(self, http: Request) -> Response:
        """Answer one HTTP request."""
        raw = await http.body()
        body: Any
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = raw.decode(errors="replace")
        headers = {name: "" if name in _SECRETS else value for name, value in http.headers.items()}
        at = round(time.monotonic() - self._began, 3)
        exchange = Exchange(len(self.requests) + 1, at, http.method, http.url.path, headers, body)
        self.requests.append(exchange)
        response = await self._answer(exchange, http.headers)
        exchange.status = response.status_code
        if self._watch:
            self._watch(exchange)
        return response

    async def _answer(self, exchange: Exchange, headers: Mapping[str, str]) -> Response:
        method, path, body = exchange.method, exchange.path, exchange.body
        if method == "POST" and path.startswith(_RELEASE):
            return self._release(exchange, path.removeprefix(_RELEASE))
        for dialect in _DIALECTS:
            if dialect.takes(method, path):
                return await self._turn(dialect, exchange, headers)
            answer = dialect.other(method, path, body if isinstance(body, dict) else None)
            if answer is not None:
                exchange.dialect, exchange.kind = dialect.name, "service"
                return JSONResponse(answer[1], answer[0])
        return JSONResponse({"error": f"no dialect has {method} {path}"}, 404)

    def _release(self, exchange: Exchange, gate: str) -> Response:
        exchange.kind = "service"
        try:
            self.release(gate)
        except KeyError:
            return JSONResponse({"error": f"no step is held at {gate}"}, 404)
        return JSONResponse({})

    async def _turn(self, dialect: Dialect, exchange: Exchange, headers: Mapping[str, str]) -> Response:
        exchange.dialect = dialect.name
        try:
            if not isinstance(exchange.body, dict):
                raise MalformedRequestError("the body must be a JSON object")
            request = exchange.request = dialect.read(exchange.path, headers, exchange.body)
            if request.side:
                exchange.kind, exchange.note = "side", request.side
                exchange.reply = Message(f"msg_side-{exchange.number}", dialect.side_text(exchange.body))
                return _reply(dialect, request, exchange.reply, lambda: None)
            played = await self._player.play(request, dialect.call_prefix)
        except MalformedRequestError as error:
            return self._refuse(dialect, exchange, MismatchError(str(error)))
        except MismatchError as error:
            return self._refuse(dialect, exchange, error)
        exchange.kind, exchange.reply = "scripted", played.message
        exchange.conversation, exchange.step = played.conversation, played.step
        return _reply(dialect, request, played.message, lambda: self._player.sent(played))

    def _refuse(self, dialect: Dialect, exchange: Exchange, error: MismatchError) -> Response:
        failure = Failure(error.reason, error.conversation, error.step, exchange.number)
        # The same again, when the runtime tries again, is one failure.
        if failure.reason not in {known.reason for known in self._failures}:
            self._failures.append(failure)
        exchange.kind, exchange.note = "refused", error.reason
        exchange.conversation, exchange.step = error.conversation, error.step
        status, body = dialect.error(f"the scripted model has no reply: {failure}")
        return JSONResponse(body, status)


def _reply(dialect: Dialect, request: ModelRequest, message: Message, sent: Callable[[], None]) -> Response:
    if request.stream:
        return StreamingResponse(
            _sending(dialect.stream(request, message), sent), media_type="text/event-stream"
        )
    return _Whole(dialect.whole(request, message), sent)


async def _sending(pieces: Iterator[bytes], sent: Callable[[], None]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
    sent()


class _Whole(JSONResponse):
    def __init__(self, body: Mapping[str, Any], sent: Callable[[], None]) -> None:
        super().__init__(body)
        self._sent = sent

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__(scope, receive, send)
        self._sent()


class _Server(uvicorn.Server):
    """A server that tells when it is up, ends when told, and leaves signals to the program that it runs in."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = anyio.Event()
        self.stop = anyio.Event()

    async def run_to_its_end(self, sockets: list[socket.socket]) -> None:
        # A cancelled server would leave its listener in the loop.
        with anyio.CancelScope(shield=True):
            await self.serve(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.up.set()

    async def main_loop(self) -> None:
        await self.stop.wait()


@asynccontextmanager
async def serve(
    scenario: Scenario, *, verify: bool = True, watch: Callable[[Exchange], None] | None = None
) -> AsyncIterator[ScriptedModel]:
    """Serve a scenario on a free loopback port for the length of a block.

    Runs on asyncio; for a host on another loop there is the program ``python -m opask_probes.model``.

    Args:
        scenario: what to play.
        verify: check at the end of the block that the scenario was played as written; an error of the block
            itself goes before.
        watch: called with each exchange once its reply is decided.

    Raises:
        ScenarioFailedError: see `verify`.
        ModelError: the loop is not asyncio's, or no port could be had.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ModelError("the scripted model runs on asyncio only; start it as a program instead") from None
    try:
        listener = socket.create_server(("127.0.0.1", 0))
    except OSError as error:
        raise ModelError(f"no port on 127.0.0.1: {error}; is the loopback interface up?") from error
    with listener:
        model = ScriptedModel(scenario, f"http://127.0.0.1:{listener.getsockname()[1]}", watch=watch)
        app = Starlette(routes=[Route("/{path:path}", model.handle, methods=_METHODS)])
        config = uvicorn.Config(
            app,
            access_log=False,
            date_header=False,
            lifespan="off",
            log_config=None,
            server_header=False,
            ws="none",
        )
        server = _Server(config)
        raised: BaseException | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run_to_its_end, [listener])
            try:
                await server.up.wait()
                yield model
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # raised below as it is: the task group would wrap it
                raised = error
            finally:
                model.close()
                # Connections that a runtime keeps open are cut, not waited for.
                server.force_exit = True
                server.stop.set()
    if raised is not None:
        raise raised
    if verify:
        model.verify()
