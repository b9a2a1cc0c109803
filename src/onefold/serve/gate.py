"""Who may use the pages: the holder of the token, on this machine, from a page of this very server."""

import asyncio
import hmac
from typing import Any

from onefold.exceptions import InvalidInputError

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


def check_loopback(host: str) -> str:
    """Refuse an address that other machines could reach."""
    if host not in ("localhost", "127.0.0.1", "::1"):
        raise InvalidInputError(f"{host}: the pages are for this machine only, use 127.0.0.1")
    return host


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
    origin = request.headers.get("origin")
    return origin is not None and origin == f"{request['scheme']}://{request.headers.get('host')}"


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
