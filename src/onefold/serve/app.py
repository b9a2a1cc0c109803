"""The pages themselves: routes in, JSON or files out; what they do is in the rooms below."""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
from collections.abc import Callable
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold._base.foreign import parse_json
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError, OnefoldError, printable
from onefold.report.html import style
from onefold.serve import people, tables
from onefold.serve.gate import LARGEST_BODY, TokenGate, check_loopback

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

    from onefold.tables import Schema

STATIC = {
    "app.css": "text/css",
    **dict.fromkeys(("app.js", "page.js", "try.js", "curve.js", "people.js"), "text/javascript"),
}
KINDS = {".csv": "text/csv", ".json": "application/json", ".html": "text/html"}
LARGEST_JSON = 2**20
SWEEP_SECONDS = 60.0
ANSWER_SECONDS = 20.0
LOG = logging.getLogger(__name__)


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
        routing.Route("/api/site", _told(pages.site)),
        routing.Route("/api/site/decide", _told(pages.decide), methods=["POST"]),
        routing.Route("/api/site/pause", _told(pages.pause), methods=["POST"]),
        routing.Route("/api/federation", _told(pages.federation)),
        routing.Route("/api/federation/remove", _told(pages.remove), methods=["POST"]),
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
    check_loopback(host)
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
        self._people: dict[str, Any] = {}
        if site is not None:
            self._people["site"] = people.SitePage(site)
        if federation is not None:
            self._people["server"] = people.FederationPage(federation)

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
        offered = {"site": "site" in self._people, "federation": "server" in self._people}
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
        return FileResponse(path, media_type=KINDS[path.suffix], filename=name)

    # --- my site, my federation -----------------------------------------------------------------------------

    async def site(self, _: Request) -> Any:
        return await _aside(self._page("site").told)

    async def decide(self, request: Request) -> Any:
        return await _aside(self._page("site").decide, await _json(request))

    async def pause(self, request: Request) -> Any:
        return await _aside(self._page("site").pause, bool((await _json(request)).get("paused")))

    async def federation(self, _: Request) -> Any:
        return await _aside(self._page("server").told)

    async def remove(self, request: Request) -> Any:
        return await _aside(self._page("server").remove, str((await _json(request)).get("site", "")))

    def _page(self, whose: str) -> Any:
        if whose not in self._people:
            what = "site" if whose == "site" else "federation"
            raise InvalidInputError(f"no {what} is shown: start onefold serve with --{whose} FOLDER")
        return self._people[whose]


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
        except OnefoldError as error:
            return JSONResponse({"error": printable(" ".join(str(error).split()))}, 400)
        except OSError as error:  # its text names a path of this machine, which its user may see
            return JSONResponse({"error": printable(" ".join(str(error).split()))}, 500)
        except Exception as error:  # its text could hold a cell
            LOG.error("failed path=%s error=%s", request.url.path, type(error).__name__)
            return JSONResponse({"error": f"the program failed: {type(error).__name__}"}, 500)

    return route
