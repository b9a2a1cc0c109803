"""Who may use the pages: the holder of the token, on this machine, from a page of this very server."""

from __future__ import annotations

import hmac
from typing import Any

from onefold.exceptions import InvalidInputError

__all__ = ["HEADER", "TokenGate", "check_loopback"]

HEADER = "x-onefold-token"
LARGEST_BODY = 64 * 2**20
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
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
    header, and what changes something must come from our own origin. The page itself, its script and its
    style hold no secret and need no token.
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
        from starlette.responses import PlainTextResponse

        request = Request(scope)
        response: Any = None
        if not _is_here(request.headers.get("host", "")):
            response = PlainTextResponse("this is not the name of this server\n", 421)
        elif request.method not in ("GET", "HEAD") and not _own_origin(request):
            response = PlainTextResponse("this request comes from another page\n", 403)
        elif _stated_length(request) > LARGEST_BODY:
            response = PlainTextResponse(f"at most {LARGEST_BODY // 2**20} MiB\n", 413)
        elif request.url.path.startswith("/api/") and not self._has_token(request):
            response = PlainTextResponse("open the address that onefold serve printed\n", 403)

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *own]}
            await send(message)

        await (response or self.app)(scope, _bounded(receive), guarded)

    def _has_token(self, request: Any) -> bool:
        return hmac.compare_digest(request.headers.get(HEADER, "").encode(), self.token.encode())


def _own_origin(request: Any) -> bool:
    origin = request.headers.get("origin")
    return origin is not None and origin == f"{request.url.scheme}://{request.headers.get('host')}"


def _stated_length(request: Any) -> int:
    stated = request.headers.get("content-length") or "0"
    return int(stated) if stated.isdigit() and len(stated) < 16 else LARGEST_BODY + 1


def _is_here(host: str) -> bool:
    name = host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdigit() else host
    return name in LOOPBACK


def _bounded(receive: Any) -> Any:
    """A receiver that gives up on a body longer than it may be, whatever its header says."""
    seen = 0

    async def counted() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return {"type": "http.disconnect"} if seen > LARGEST_BODY else message

    return counted
