"""Who is let in: Host, Origin, token, cookie; what every response carries; and what hostile clients do not reach."""

from __future__ import annotations

import logging
import re
from http.cookies import SimpleCookie
from typing import Any

import anyio
import httpx2
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.routing import Mount

from opask.inbox import InboxPrompter, MemoryStore, Store
from opask.surfaces.web import TokenAuth, application
from opask.surfaces.web.guards import BODY_LIMIT
from opask.tokens import bearer_of, is_token, new_token
from web_actors import acting
from web_play import DATABASE
from web_site import Site, sited

EVIL = "https://evil.example"


@pytest.fixture
async def store() -> Store:
    """Use memory alone: nothing here depends on the store."""
    return MemoryStore()


async def bare(site: Site, method: str, path: str, **options: Any) -> httpx2.Response:
    """Send a request without the token."""
    async with httpx2.AsyncClient(base_url=site.url, trust_env=False) as client:
        return await client.request(method, path, **options)


# -- the token ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/", "/page/index.html", "/page/none", "/api/asks", "/api/feed", "/api/openapi.json", "/none"]
)
async def test_nothing_is_given_without_the_token(site: Site, path: str) -> None:
    """Every address, there or not, refuses a client without the token, and gives no hint of what it has."""
    response = await bare(site, "GET", path)
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "unauthorized"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {'t' * 43}"},
        {"Authorization": "t" * 43},
        {"Authorization": f"Bearer {'t' * 42}"},
        {"Authorization": f"Bearer {'t' * 44}"},
        {"Authorization": "Bearer \xff\xfe"},
        {"Cookie": f"opask={'t' * 43}"},
        {"Cookie": "opask-000000000000=x; ; ="},
    ],
)
async def test_a_wrong_token_is_refused(site: Site, headers: dict[str, str]) -> None:
    """Another token, another scheme, another cookie: none of them is let in."""
    raw = {name: value.encode("latin-1") for name, value in headers.items()}
    assert (await bare(site, "GET", "/api/asks", headers=raw)).status_code == 401


async def test_the_link_leaves_a_cookie_and_no_token_in_the_address(site: Site) -> None:
    """Opening the link sets the cookie, with all that keeps it from scripts and other pages, and redirects."""
    response = await bare(site, "GET", f"/?token={site.token}", headers={"Accept": "text/html"})
    assert (response.status_code, response.headers["location"]) == (303, "./")
    assert response.headers["cache-control"] == "no-store"
    (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
    assert (morsel["httponly"], morsel["samesite"], morsel["path"]) == (True, "strict", "/")
    cookie = {"Cookie": f"{morsel.key}={morsel.value}"}
    assert (await bare(site, "GET", "/", headers=cookie)).status_code == 200
    assert (await bare(site, "GET", "/api/asks", headers=cookie)).json() == {"asks": []}


async def test_a_wrong_link_says_so_in_plain_text(site: Site) -> None:
    """A browser with an old link is told what to do, and gets no cookie."""
    response = await bare(site, "GET", "/?token=old", headers={"Accept": "text/html"})
    assert response.status_code == 401
    assert response.headers["content-type"].startswith("text/plain")
    assert "link" in response.text
    assert "set-cookie" not in response.headers


async def test_two_servers_on_one_host_keep_their_cookies_apart() -> None:
    """Cookies know no ports, so a cookie is named after its token."""
    assert TokenAuth("a" * 40).cookie != TokenAuth("b" * 40).cookie
    assert TokenAuth("a" * 40).cookie == TokenAuth("a" * 40).cookie


def test_tokens_are_long_and_never_the_same() -> None:
    """A new token has 256 random bits and is safe in a URL."""
    tokens = {new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert all(re.fullmatch(r"[\w-]{43}", token) for token in tokens)


@pytest.mark.parametrize(
    ("header", "token"),
    [
        (b"Bearer abc", b"abc"),
        (b"bearer  abc ", b"abc"),
        (b"Bearer", b""),
        (b"Basic abc", b""),
        (b"", b""),
    ],
)
def test_a_bearer_is_read_whatever_its_case(header: bytes, token: bytes) -> None:
    """The scheme's name is case-insensitive; nothing else is taken for it."""
    assert bearer_of([(b"host", b"x"), (b"authorization", header)]) == token
    assert bearer_of([]) == b""


@pytest.mark.parametrize(
    ("given", "fits"), [("abc", True), (b"abc", True), ("abd", False), ("", False), ("\udcff", False)]
)
def test_a_token_is_itself_and_nothing_else(given: str | bytes, fits: bool) -> None:
    """Whatever a client gives is compared as bytes, and breaks nothing."""
    assert is_token(given, "abc") is fits


# -- Host and Origin ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.",
        "10.0.0.1",
        "",
        "[::1",
        "a@localhost",
    ],
)
async def test_another_host_name_is_refused(site: Site, host: str) -> None:
    """A name that was made to point here (DNS rebinding) reaches nothing, even with the token."""
    response = await site.client.get("/api/asks", headers={"Host": host})
    assert response.status_code == 421
    assert response.json()["error"]["code"] == "wrong_host"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8787"])
async def test_this_machines_own_names_are_let_in(site: Site, host: str) -> None:
    """Any port will do, so that a forwarded one does."""
    assert (await site.client.get("/api/asks", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://localhost"},
        {"Origin": "http://127.0.0.1:bad"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/asks/x/skip"), ("GET", "/api/feed"), ("GET", "/api/asks")]
)
async def test_another_pages_request_is_refused(
    site: Site, headers: dict[str, str], method: str, path: str
) -> None:
    """A page of another origin, of another port of this machine too, neither writes nor listens nor reads."""
    response = await site.client.request(method, path, json={"session_id": "s"}, headers=headers)
    assert response.status_code == 403
    assert response.json()["error"]["code"] == "wrong_origin"
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_cookie_alone_writes_nothing_without_an_origin(site: Site) -> None:
    """A change with the cookie has to say where it comes from; a script with its bearer has not."""
    auth = TokenAuth(site.token)
    body: Any = {"json": {"session_id": "s"}}
    cookie = {"Cookie": f"{auth.cookie}={site.token}"}
    refused = await bare(site, "POST", "/api/asks/x/skip", headers=cookie, **body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "no_origin")
    own = await bare(site, "POST", "/api/asks/x/skip", headers={**cookie, "Origin": site.url}, **body)
    assert (own.status_code, own.json()["error"]["code"]) == (404, "unknown_ask")
    assert (await site.client.post("/api/asks/x/skip", **body)).status_code == 404


async def test_a_preflight_is_granted_nothing(site: Site) -> None:
    """There is no CORS: another page's preflight gets no word of it."""
    headers = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
    response = await bare(site, "OPTIONS", "/api/asks/x/answer", headers=headers)
    assert response.status_code == 403
    assert not [name for name in response.headers if name.startswith("access-control")]


# -- bodies, files, headers --------------------------------------------------------------------------------------------


async def test_a_long_body_is_refused_before_it_is_read(site: Site) -> None:
    """Of ten announced megabytes not one is waited for."""
    answer = await _exchanged(
        site,
        f"POST /api/asks/x/answer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {10 * 1024 * 1024}\r\n\r\n{{",
    )
    assert b" 413 " in answer


async def test_a_long_body_that_does_not_say_so_is_refused_while_it_comes(site: Site) -> None:
    """A body in chunks is cut off at the limit, and the server goes on."""

    async def pieces() -> Any:
        for _ in range(10 * 1024):
            yield b" " * 1024

    response = await site.client.post(
        "/api/asks/x/answer", content=pieces(), headers={"Content-Type": "application/json"}
    )
    assert (response.status_code, response.json()["error"]["code"]) == (413, "too_long")
    exact = b'{"session_id": "s"}'.ljust(BODY_LIMIT)
    response = await site.client.post(
        "/api/asks/x/skip", content=exact, headers={"Content-Type": "application/json"}
    )
    assert response.status_code == 404
    assert await site.get("/api/asks") == {"asks": []}


@pytest.mark.parametrize(
    "path",
    [
        "/page/../app.py",
        "/page/%2e%2e/app.py",
        "/page/..%2fapp.py",
        "/page/%2e%2e%2f%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/page//etc/passwd",
        "/page/%2fetc%2fpasswd",
        "/page/..\\app.py",
        "/page/%00",
        f"/page/{'a' * 5000}",
        "/page/",
        "/page",
    ],
)
async def test_no_file_beside_the_page_is_served(site: Site, path: str) -> None:
    """Whatever a path tries, nothing but the page's own files comes out."""
    answer = await _exchanged(
        site,
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.token}\r\n"
        "Connection: close\r\n\r\n",
    )
    assert b" 404 " in answer.partition(b"\r\n")[0]
    assert b"not_found" in answer


async def _exchanged(site: Site, request: str) -> bytes:
    """Send what no client library would, and give what came back up to the end of an error's JSON."""
    answer = b""
    with anyio.fail_after(10):
        async with await anyio.connect_tcp("127.0.0.1", site.port) as stream:
            await stream.send(request.encode())
            while not answer.endswith(b"}}"):
                answer += await stream.receive()
    return answer


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/api/asks", "/none", "/?token=old"])
async def test_every_response_carries_what_keeps_a_browser_safe(site: Site, path: str) -> None:
    """Granted or refused, each says: no inline script, no frame, no guessing of types, no referrer."""
    response = await site.client.get(path)
    policy = dict(
        part.strip().partition(" ")[::2] for part in response.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in response.headers["content-security-policy"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["referrer-policy"] == "no-referrer"
    assert response.headers["cache-control"] == ("no-cache" if path.startswith("/page/") else "no-store")
    assert "server" not in response.headers


async def test_an_error_that_should_not_be_is_told_to_the_log_alone(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    """A client hears that something went wrong, and not what; the next request is served."""
    failing = MemoryStore()

    async def fail(**_: object) -> Any:
        raise RuntimeError("secret of the inside")

    failing.entries = fail  # type: ignore[method-assign]
    async with sited(failing) as site:
        with caplog.at_level(logging.ERROR, logger="opask.web"):
            response = await site.client.get("/api/asks")
        assert (response.status_code, response.json()["error"]["code"]) == (500, "failed")
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert [record.name for record in caplog.records] == ["opask.web"]
        assert (await site.client.get("/api/sessions")).status_code == 200


# -- mounted -----------------------------------------------------------------------------------------------------------


async def _host_auth(request: HTTPConnection) -> str | None:
    if "x-away" in request.headers:
        raise HTTPException(303, headers={"Location": "/sign-in"})
    return request.headers.get("x-user")


async def test_a_hosts_own_auth_says_who_and_the_answer_records_it() -> None:
    """Mounted under a prefix with a host's auth, the page is let in by that, and answers carry the name."""
    store = MemoryStore()
    inner = application(store, auth=_host_auth, hosts={"ask.example"})
    app = Starlette(routes=[Mount("/team/ask", inner)])
    transport = httpx2.ASGITransport(app)
    async with (
        httpx2.AsyncClient(transport=transport, base_url="https://ask.example/team/ask") as client,
        InboxPrompter(store, when_absent="attach") as prompter,
        acting(prompter, "s1") as actor,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(actor.asks, DATABASE)
        await anyio.wait_all_tasks_blocked()
        assert (await client.get("/api/asks")).status_code == 401
        away = await client.get("/", headers={"X-Away": "1"})
        assert (away.status_code, away.headers["location"]) == (303, "/sign-in")
        user = {"X-User": "alice", "Origin": "https://ask.example"}
        (ask,) = (await client.get("/api/asks", headers=user)).json()["asks"]
        body = {"session_id": "s1", "answers": [{"selected": [0]}]}
        path = f"/api/asks/{ask['id']}/answer"
        wrong = await client.post(path, json=body, headers={**user, "Origin": "https://team.example"})
        assert wrong.status_code == 403
        response = await client.post(path, json=body, headers=user)
        assert response.json()["ask"]["by"] == "web:alice"
        assert (await client.get("/", headers=user)).status_code == 200
        assert (await client.get("/page/none.js", headers=user)).status_code == 404
        assert (await client.get("/", headers={**user, "Host": "other.example"})).status_code == 421


async def test_a_mounts_cookie_is_for_its_path_alone() -> None:
    """With the token, under a prefix, the cookie goes to that prefix and the redirection stays in it."""
    auth = TokenAuth()
    app = Starlette(routes=[Mount("/ask", application(MemoryStore(), auth=auth))])
    transport = httpx2.ASGITransport(app)
    async with httpx2.AsyncClient(transport=transport, base_url="https://localhost") as client:
        response = await client.get(auth.link("/ask/"))
        (morsel,) = SimpleCookie(response.headers["set-cookie"]).values()
        assert (morsel["path"], morsel["secure"]) == ("/ask", True)
        assert response.headers["location"] == "./"
        assert (await client.get("/ask/api/asks")).status_code == 200
