"""The pages: routes in, JSON or files out; who may use them; those of a site and of a federation."""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import signal
from collections.abc import Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.foreign import parse_json
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError, OnefoldError, printable
from onefold.federated.access.approvals import end_of_day
from onefold.federated.flower import Federation, Site
from onefold.federated.flower.admission import exported_log
from onefold.federated.flower.keeping import state_of
from onefold.privacy import Ledger
from onefold.report.evaluation import rounded_down, rounded_up
from onefold.report.federations import asked_in
from onefold.report.html import style
from onefold.serve import tables

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from onefold.tables import Schema

STATIC = {
    "app.css": "text/css",
    **dict.fromkeys(("app.js", "page.js", "try.js", "curve.js", "people.js"), "text/javascript"),
}
LARGEST_JSON = 2**20
SWEEP_SECONDS = 60.0
ANSWER_SECONDS = 20.0
LOG = logging.getLogger(__name__)
MOST_LINES = 200
DIGITS = 4  # after the point, of epsilon
HEADER = "x-onefold-token"
LARGEST_BODY = 64 * 2**20
PATIENCE_SECONDS = 30.0  # between two pieces of a body
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
TOO_LARGE = f"a table may have at most {LARGEST_BODY // 2**20} MiB here: onefold synthesize takes larger ones"
USUAL_PORT = 80
LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def create_app(
    token: str,
    *,
    ledger: str | Path | None = None,
    site: str | Path | None = None,
    federation: str | Path | None = None,
) -> Starlette:
    """Make the web application.

    Parameters
    ----------
    token : str
        What a browser must show with every question, not empty; whoever has it can do everything that the
        pages can.
    ledger : str, Path or None, default=None
        Ledger in which every private table is counted before it is made; None is one of this account, for
        all tables together. It is made where there is none.
    site : str, Path or None, default=None
        Folder of a site of a federation, for the page of its data owner.
    federation : str, Path or None, default=None
        Folder of a federation's server, for the page of its operator.

    Returns
    -------
    Starlette
        The application, for any ASGI server that listens on loopback only.

    Raises
    ------
    InvalidInputError
        If the token is empty.
    MissingDependencyError
        If starlette (extra ``serve``) is not installed.

    See Also
    --------
    serve : Run it.

    Examples
    --------
    >>> app = create_app("a-long-random-token")
    >>> len(app.routes) > 5
    True
    """
    if not token:  # a request without a header would have the right one
        raise InvalidInputError("the token is empty: everybody would be let in")
    starlette = require("starlette.applications", "serve")
    routing, middleware = require("starlette.routing", "serve"), require("starlette.middleware", "serve")
    pages = _Pages(tables.account_file() if ledger is None else Path(ledger), site, federation)

    @asynccontextmanager
    async def open_until_the_end(_: Any) -> Any:
        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP_SECONDS)
                pages.tables.sweep()

        tables.open_account(pages.ledger)
        sweeper = asyncio.ensure_future(sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            pages.tables.close()

    routes = [
        routing.Route("/", pages.home),
        routing.Route("/static/{name}", pages.static),
        routing.Route("/api/offer", _told(pages.offer)),
        routing.Route("/api/table", _told(pages.add_table), methods=["POST"]),
        routing.Route("/api/table/{id}", _told(pages.drop_table), methods=["DELETE"]),
        routing.Route("/api/table/{id}/label", _told(pages.propose), methods=["POST"]),
        routing.Route("/api/table/{id}/preview", _told(pages.preview), methods=["POST"]),
        routing.Route("/api/table/{id}/curve", _told(pages.curve), methods=["POST"]),
        routing.Route("/api/table/{id}/make", _told(pages.make), methods=["POST"]),
        routing.Route("/api/table/{id}/make", _told(pages.made)),
        routing.Route("/api/table/{id}/files/{name}", pages.download),
        routing.Route("/api/{page:str}", _told(pages.show)),
        routing.Route("/api/{page:str}/{step:str}", _told(pages.decide), methods=["POST"]),
    ]
    gate = middleware.Middleware(TokenGate, token=token)
    app: Starlette = starlette.Starlette(routes=routes, middleware=[gate], lifespan=open_until_the_end)
    return app


def serve(
    *,
    ledger: str | Path | None = None,
    site: str | Path | None = None,
    federation: str | Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    ready: Callable[[str], None] = print,
) -> None:
    """Run the pages until interrupted.

    Parameters
    ----------
    ledger : str, Path or None, default=None
        Ledger in which every private table is counted; None is one of this account.
    site : str, Path or None, default=None
        Folder of a site, for the page of its data owner.
    federation : str, Path or None, default=None
        Folder of a federation's server, for the page of its operator.
    host : str, default="127.0.0.1"
        Address to listen on; one that other machines can reach is refused.
    port : int, default=0
        Port; 0 takes a free one.
    ready : callable, default=print
        Is told the address with the token, as soon as it can be opened.

    Raises
    ------
    MissingDependencyError
        If starlette or uvicorn (extra ``serve``) is not installed.

    See Also
    --------
    create_app : The application alone.

    Examples
    --------
    >>> serve(host="0.0.0.0")
    Traceback (most recent call last):
    ...
    onefold.exceptions.InvalidInputError: 0.0.0.0: the pages are for this machine only, use 127.0.0.1
    """
    if host not in ("localhost", "127.0.0.1", "::1"):
        raise InvalidInputError(f"{host}: the pages are for this machine only, use 127.0.0.1")
    uvicorn = require("uvicorn", "serve")
    token = secrets.token_urlsafe(24)
    app = create_app(token, ledger=ledger, site=site, federation=federation)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    try:
        listening = config.bind_socket()
    except SystemExit:
        raise InvalidInputError(f"port {port} is in use or may not be used: give another one") from None
    listening.listen()  # from now on a browser is heard, though answered a moment later
    where = f"[{host}]" if ":" in host else host
    ready(f"http://{where}:{listening.getsockname()[1]}/?token={token}")
    server = uvicorn.Server(config)
    signal.signal(signal.SIGHUP, lambda *_: setattr(server, "should_exit", True))  # the terminal was closed
    server.run(sockets=[listening])


class _Pages:
    """What the routes answer."""

    def __init__(self, ledger: Path, site: str | Path | None, federation: str | Path | None) -> None:
        self.tables, self.ledger = tables.OpenTables(), ledger
        self._works: dict[str, asyncio.Future[Any]] = {}
        given = (("site", SitePage, site), ("federation", FederationPage, federation))
        self._people = {name: page(folder) for name, page, folder in given if folder is not None}

    # --- the page and its parts -----------------------------------------------------------------------------

    async def home(self, _: Request) -> Response:
        from starlette.responses import HTMLResponse

        return HTMLResponse(static_text("index.html"))

    async def static(self, request: Request) -> Response:
        from starlette.responses import PlainTextResponse, Response

        name = request.path_params["name"]
        if name not in STATIC:
            return PlainTextResponse("no such file\n", 404)
        shared = style() if name == "app.css" else ""  # reports and these pages look alike
        return Response(shared + static_text(name), media_type=STATIC[name])

    async def offer(self, _: Request) -> Any:
        offered = {name: name in self._people for name in ("site", "federation")}
        account = await _aside(tables.account, self.ledger)
        return {**offered, "largest": LARGEST_BODY, "account": account}

    # --- try it ---------------------------------------------------------------------------------------------

    async def add_table(self, request: Request) -> Any:
        label = request.query_params.get("label") or None
        content = await request.body()
        name = request.query_params.get("name", "")
        trial = await _aside(self.tables.add, name, content, label)
        return {
            "id": trial.id,
            "rows": trial.n_rows,
            "schema": trial.proposed.to_dict(),
            "notes": list(trial.notes),
        }

    async def drop_table(self, request: Request) -> Any:
        self._works.pop(request.path_params["id"], None)
        await _aside(self.tables.drop, request.path_params["id"])
        return {}

    async def propose(self, request: Request) -> Any:
        trial, plain = self.tables.find(request.path_params["id"]), await _json(request)
        label = plain.get("label") or None
        schema = await _aside(trial.propose, None if label is None else str(label))
        return {"schema": schema.to_dict()}

    async def preview(self, request: Request) -> Any:
        _, plain, schema = await self._declared(request)
        return await _aside(tables.learnable, schema, plain.get("unit"), plain.get("epsilon"))

    async def curve(self, request: Request) -> Any:
        trial, plain, schema = await self._declared(request)
        found = await _aside(tables.forecast, trial, schema, plain.get("unit"))
        return {"curve": None if found is None else {**found.numbers, "text": found.describe()}}

    async def make(self, request: Request) -> Any:
        trial, plain, schema = await self._declared(request)
        unit, epsilon = plain.get("unit"), plain.get("epsilon")
        going = self._works.get(trial.id)
        if going is not None and not going.done():
            raise InvalidInputError("a private table is being made already: wait for it")
        make = partial(tables.make, ground=plain.get("ground"), ledger=self.ledger)
        work = asyncio.ensure_future(_aside(make, trial, schema, unit, epsilon))
        # If nobody asks any more, nobody may read its error: it could hold a cell.
        work.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        self._works[trial.id] = work
        return await self.made(request)

    async def made(self, request: Request) -> Any:
        """The private table, or that it is still being made: browsers give up on an answer that is late."""
        work = self._works.get(request.path_params["id"])
        if work is None:
            raise InvalidInputError("nothing is being made of this table")
        self.tables.find(request.path_params["id"])  # it is in use
        await asyncio.wait({work}, timeout=ANSWER_SECONDS)
        if not work.done():
            return {"working": True}
        self._works.pop(request.path_params["id"], None)
        return work.result()

    async def _declared(self, request: Request) -> tuple[tables.OpenTable, dict[str, Any], Schema]:
        """A table that is open, what was sent about it, and the schema of what a person confirmed."""
        trial, plain = self.tables.find(request.path_params["id"]), await _json(request)
        given = (plain.get("schema"), plain.get("known"), plain.get("rows_about"))
        return trial, plain, tables.declared(*given)

    async def download(self, request: Request) -> Response:
        from starlette.responses import FileResponse, PlainTextResponse

        name = request.path_params["name"]
        try:
            path = self.tables.find(request.path_params["id"]).root / name
        except OnefoldError as error:
            return PlainTextResponse(f"{error}\n", 404)
        if name not in tables.FILES or not path.is_file():
            return PlainTextResponse("no such file\n", 404)
        return FileResponse(path, filename=name)

    # --- my site, my federation -----------------------------------------------------------------------------

    async def show(self, request: Request) -> Any:
        return await _aside(self._page(request).told)

    async def decide(self, request: Request) -> Any:
        page, step = self._page(request), request.path_params["step"]
        if step not in page.STEPS:
            raise InvalidInputError("there is no such step")
        return await _aside(getattr(page, step), await _json(request))

    def _page(self, request: Request) -> SitePage | FederationPage:
        name = request.path_params["page"]
        page = self._people.get(name)
        if page is None:
            more = {"site": "--site FOLDER", "federation": "--server FOLDER"}.get(name, "another page")
            raise InvalidInputError(f"no {name} is shown: start onefold serve with {more}")
        return page


def static_text(name: str) -> str:
    """The text of a file of the pages."""
    return files("onefold.serve").joinpath(f"static/{name}").read_text(encoding="utf-8")


async def _aside(work: Callable[..., Any], *given: Any) -> Any:
    """Do the work in a thread, so that other pages go on."""
    from starlette.concurrency import run_in_threadpool

    return await run_in_threadpool(work, *given)


async def _json(request: Request) -> dict[str, Any]:
    content = await request.body()
    if len(content) > LARGEST_JSON:
        raise InvalidInputError("this request is too large")
    plain = parse_json(content)
    if not isinstance(plain, dict):
        raise InvalidInputError("this request is not a JSON object")
    return plain


def _told(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    """A route that answers with JSON, or with one line that says what is wrong."""

    async def route(request: Request) -> Response:
        from starlette.responses import JSONResponse

        try:
            return JSONResponse(await answer(request))
        except (OnefoldError, OSError) as error:  # a path of this machine may be seen by its user
            status = 400 if isinstance(error, OnefoldError) else 500
            return JSONResponse({"error": printable(" ".join(str(error).split()))}, status)
        except Exception as error:  # its text could hold a cell
            LOG.error("failed path=%s error=%s", request.url.path, type(error).__name__)
            return JSONResponse({"error": f"the program failed: {type(error).__name__}"}, 500)

    return route


# --- who may use the pages: the holder of the token, on this machine, from a page of this very server -------


class TokenGate:
    """Middleware that answers nobody but the holder of the token, who shows it in a header of every question.

    A cookie would go to every program that listens on this machine, whatever its port. A page of another
    origin cannot send the header, a name that was made to point here (DNS rebinding) is refused by the Host
    header, which must have our port too, and what changes something must come from our own origin. The page
    itself, its scripts and its style hold no secret and need no token; everything else does.
    """

    def __init__(self, app: Any, token: str) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Check the request, then hand it on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        from starlette.requests import Request
        from starlette.responses import JSONResponse

        request = Request(scope)
        refused: tuple[str, int] | None = None
        if not _is_here(request.headers.get("host", ""), scope.get("server")):
            refused = ("this is not the name of this server: open the address that was printed", 421)
        elif scope["method"] not in ("GET", "HEAD") and not _own_origin(request):
            refused = ("this request comes from another page", 403)
        elif _stated_length(request) > LARGEST_BODY:
            refused = (TOO_LARGE, 413)
        elif not _is_open(scope["path"]) and not self._has_token(request):
            refused = ("open the address that onefold serve printed", 403)
        response: Any = self.app if refused is None else JSONResponse({"error": refused[0]}, refused[1])

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await response(scope, _bounded(receive), guarded)

    def _has_token(self, request: Any) -> bool:
        return hmac.compare_digest(request.headers.get(HEADER, "").encode(), self.token.encode())


def _own_origin(request: Any) -> bool:
    own = f"{request['scheme']}://{request.headers.get('host')}"
    return bool(request.headers.get("origin") == own)


def _stated_length(request: Any) -> int:
    stated = request.headers.get("content-length") or "0"
    return int(stated) if stated.isdigit() and len(stated) < 16 else LARGEST_BODY + 1


def _is_here(host: str, server: Any) -> bool:
    """Whether a Host header is a loopback name with the port that we listen on."""
    if server is None:
        return False
    port = server[1]
    return host in {f"{name}:{port}" for name in LOOPBACK} or (port == USUAL_PORT and host in LOOPBACK)


def _is_open(path: str) -> bool:
    return path == "/" or path.startswith("/static/")


def _bounded(receive: Any) -> Any:
    """A receiver that gives up on a body that is too long, whatever its header says, and on one that stops.

    Afterwards it waits without end, since then a message only tells that the other side has gone.
    """
    seen, whole = 0, False

    async def counted() -> Any:
        nonlocal seen, whole
        if whole:
            return await receive()
        try:
            message = await asyncio.wait_for(receive(), PATIENCE_SECONDS)
        except TimeoutError:
            raise InvalidInputError("the file did not arrive: send it again") from None
        seen += len(message.get("body", b""))
        whole = not message.get("more_body", False)
        if seen > LARGEST_BODY:
            raise InvalidInputError(TOO_LARGE)
        return message

    return counted


# --- my site and my federation: what a data owner and an operator see, and the few things they may do ------


class SitePage:
    """The page of the data owner of a site."""

    STEPS = ("decide", "pause")

    def __init__(self, folder: str | Path) -> None:
        self.site = Site(folder)

    def told(self) -> dict[str, Any]:
        """Who asked what, when and for which purpose; what was decided; what is left."""
        site = self.site
        try:
            log, wrong = exported_log(site.folder), None
        except OnefoldError as error:
            log, wrong = {"entries": [], "count": 0}, str(error)
        return {
            "name": site.settings.name,
            "approval": site.settings.approval,
            "state": state_of(site.folder),
            "paused": site.is_paused,
            "approvals": [
                {**entry.plain, "name": entry.querier.name, "waits": entry.asked > 0, "left": entry.left}
                for entry in site.approvals().entries()
            ],
            "log": [
                {"time": entry["time"], "event": entry["event"], **asked_in(entry)}
                for entry in log["entries"][-MOST_LINES:][::-1]
            ],
            "log_entries": log["count"],
            "log_error": wrong,
            **self._spent(),
        }

    def _spent(self) -> dict[str, Any]:
        """What fits with noise have spent and what is left of the limit; nothing of either without them."""
        path = self.site.folder.ledger
        if not path.exists():
            return {"budget": None, "ledger": []}
        ledger = Ledger.load(path)
        counted = ledger.total()
        spent, limit = counted[0], ledger.limit_epsilon
        left = None if limit is None else rounded_down(max(limit - spent, 0.0), DIGITS)
        budget = {"unit": ledger.unit, "spent": rounded_up(spent, DIGITS), "limit": limit, "left": left}
        return {"budget": budget, "ledger": str(ledger).split("\n")}

    def decide(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Approve or deny what one querier asks for one purpose."""
        who, purpose = str(plain.get("querier", "")), plain.get("purpose")
        approvals, mode = self.site.approvals(), self.site.settings.approval
        stated = None if purpose is None else str(purpose)
        if plain.get("decision") == "deny":
            approvals.deny(who, mode, purpose=stated)
        elif plain.get("decision") == "approve":
            rows, until = plain.get("rows"), plain.get("until")
            last = end_of_day(str(until)) if until else None
            approvals.approve(who, mode, purpose=stated, rows=None if rows == "" else rows, until=last)
        else:
            raise InvalidInputError("decide to approve or to deny")
        return self.told()

    def pause(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Answer nobody until this is taken back."""
        self.site.pause(bool(plain.get("paused")))
        return self.told()


class FederationPage:
    """The page of the operator of a federation's server."""

    STEPS = ("remove",)

    def __init__(self, folder: str | Path) -> None:
        self.federation = Federation(folder)

    def told(self) -> dict[str, Any]:
        """The sites, whether they are there, and what they promise."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return {"now": now, **self.federation.status().to_dict()}

    def remove(self, plain: dict[str, Any]) -> dict[str, Any]:
        """Take a site out."""
        self.federation.remove(str(plain.get("site", "")))
        return self.told()
