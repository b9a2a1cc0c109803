"""Start one of Flower's programs with what Flower leaves open closed.

This file is run by its path, with the name of the program as first argument: it imports nothing of onefold
until a query has to be answered, so that Flower's own processes start quickly.

Flower serves everything on one port, and the part that starts runs, of code from outside, asks for no
password; and a site runs whatever code the server hands it. Here

- every request but those of the sites, who sign theirs, must carry a secret that only this machine's operator
  can read, and no request may be larger than what Flower itself sends;
- a site answers with the application installed at the site: code that arrives is not unpacked;
- programs that are not needed are refused;
- a program ends when the one that started it has ended, however that happened.

This is the only file that knows names outside Flower's documented interface. :data:`PRIVATE_NAMES` lists each
with its reason; if one is not found, the program does not start.
"""

import gc
import hmac
import importlib
import json
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

SECRET_HEADER = "onefold-secret"
SECRET_MARK = "_onefold_shows_secret"
SECRET_VARIABLE = "ONEFOLD_SECRET_FILE"
PARENT_VARIABLE = "ONEFOLD_PARENT"
SITE_VARIABLE = "ONEFOLD_SITE"  # as in folders.py, which is not imported here
# Between the answers of Flower's command.
END_OF_ANSWER = "\x1e"
# Flower sends arrays in pieces of 5 MiB; four times that is room enough.
LARGEST_REQUEST = 20 * 2**20
# Shorter than Flower's 30 s: a site that died is noticed, and let in again, after twice this time.
HEARTBEAT_SECONDS = 15
# Flower looks for messages every 3 s. A site that was asked a moment ago is likely to be asked again soon.
LONGEST_SLEEP, SLEEP_WHILE_ASKED, ASKED_SECONDS = 0.5, 0.2, 5.0
# Flower looks every 0.5 s whether the site's own process has answered: in memory, not over the network.
OWN_ANSWER_SLEEP, FLOWER_SLEEP = 0.02, 1.0
# Tasks that are finished and still known: nobody asks for them, and one is of a message some seconds ago.
FINISHED_TASKS = 100

# Flower's code for a reply that will not come because its node went away (flwr.common.constant.ErrorCode).
NODE_UNAVAILABLE = 5
# What a SuperNode prints when the SuperLink has let it in.
CONNECTED = "SuperNode ID:"

PRIVATE_NAMES = {
    "flwr.superlink.cli.flower_superlink": "starts the SuperLink",
    "flwr.superlink.main.create_app": "its port also starts runs without a password: a gate goes in front",
    "flwr.supernode.cli.flower_supernode": "starts the SuperNode",
    "flwr.supernode.main.create_app": "opens a local port: a gate keeps other users of the machine out",
    "flwr.supernode.fleet_http_connection.HEARTBEAT_DEFAULT_INTERVAL": "how soon a dead site is noticed",
    "flwr.supercore.heartbeat.HEARTBEAT_DEFAULT_INTERVAL": "the same, where the heart beats",
    "flwr.supernode.start_client_internal.time": "looks for messages every 3 s, too slow for a query",
    # It looks through all tasks several times a second.
    "flwr.supernode.nodestate.in_memory_nodestate.InMemoryNodeState.finish_task": "keeps tasks for ever",
    "flwr.supercore.cli.flower_superexec": "starts the starter of programs",
    # A site forks a process that has its model in memory.
    "flwr.supercore.superexec.executor.subprocess_executor.SubprocessExecutor.launch": "takes seconds",
    "flwr.supercore.superexec.executor.types.LaunchResult": "what a launch returns",
    "flwr.superlink.cli.flwr_serverapp": "runs the application of the server",
    "flwr.supernode.cli.flwr_clientapp": "answers one message at a site",
    "flwr.supernode.runtime.run_clientapp.install_from_fab": "would unpack the code that the server sent",
    "flwr.supernode.runtime.run_clientapp.get_load_client_app_fn": "would load the code that the server sent",
    "flwr.cli.app.app": "registers sites and starts the run",
}

Scope = dict[str, Any]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Receive = Callable[[], Awaitable[dict[str, Any]]]


class Gate:
    """Lets requests through that carry the secret or go to an open path, and none that are too large."""

    def __init__(self, app: Any, secret: str, open_paths: tuple[str, ...]) -> None:
        self.app = app
        self.secret = secret.encode()
        self.open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = dict(scope.get("headers", ()))
        shown = headers.get(SECRET_HEADER.encode(), b"")
        is_open = scope["type"] == "http" and scope["path"].startswith(self.open_paths)
        if not is_open and not hmac.compare_digest(shown, self.secret):
            await _refuse(scope, send, 403)
        elif not _is_small(headers.get(b"content-length", b"0")):
            await _refuse(scope, send, 413)
        else:
            await self.app(scope, _counted(receive), send)


def _is_small(length: bytes) -> bool:
    return length.isdigit() and int(length) <= LARGEST_REQUEST


def _counted(receive: Receive) -> Receive:
    """The same request, broken off when its body turns out larger than it may be."""
    seen = 0

    async def counted() -> dict[str, Any]:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        return message if seen <= LARGEST_REQUEST else {"type": "http.disconnect"}

    return counted


async def _refuse(scope: Scope, send: Send, status: int) -> None:
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1008})
        return
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def _secret() -> str:
    text = Path(os.environ[SECRET_VARIABLE]).read_text(encoding="ascii").strip()
    if len(text) < 32:
        sys.exit("onefold: the secret of this machine's processes is too short")
    return text


def _show_secret() -> None:
    """Every request of this process carries the secret: it talks to its own SuperLink or SuperNode only."""
    import httpx

    if hasattr(httpx, SECRET_MARK):  # this process was forked from one that does so already
        return
    setattr(httpx, SECRET_MARK, True)
    secret, original = _secret(), httpx.Client.__init__

    def with_secret(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        self.headers[SECRET_HEADER] = secret

    httpx.Client.__init__ = with_secret  # type: ignore[method-assign]


def find_private(name: str) -> Any:
    """What a name of :data:`PRIVATE_NAMES` stands for; without it this process ends with one line."""
    return getattr(*_place(name))


def replace_private(name: str, make: Callable[[Any], Any]) -> None:
    """Put what ``make`` makes of Flower's own in its place."""
    owner, attribute = _place(name)
    setattr(owner, attribute, make(getattr(owner, attribute)))


def _place(name: str) -> tuple[Any, str]:
    """The module or class that holds a private name of Flower, and the name in it."""
    reason = PRIVATE_NAMES[name]
    path, _, attribute = name.rpartition(".")
    try:
        owner: Any = importlib.import_module(path)
    except ImportError:
        module, _, kind = path.rpartition(".")
        try:
            owner = getattr(importlib.import_module(module), kind, None)
        except ImportError:
            owner = None
    if not hasattr(owner, attribute):
        sys.exit(f"onefold: this version of Flower was not tried: it has no {name} ({reason})")
    return owner, attribute


def _gated(open_paths: tuple[str, ...]) -> Callable[[Any], Any]:
    secret = _secret()

    def gated(create_app: Any) -> Any:
        def create(*args: Any, **options: Any) -> Any:
            app = create_app(*args, **options)
            app.add_middleware(Gate, secret=secret, open_paths=open_paths)  # the last added is the outermost
            return app

        return create

    return gated


def superlink() -> None:
    """Flower's server: sites get in by their signatures, everything else by the secret."""
    replace_private("flwr.superlink.main.create_app", _gated(("/v1/fleet/", "/health")))
    find_private("flwr.superlink.cli.flower_superlink")()


def supernode() -> None:
    """Flower's part at a site: its own processes get in by the secret, nobody else does."""
    replace_private("flwr.supernode.main.create_app", _gated(("/health",)))
    for module in ("flwr.supernode.fleet_http_connection", "flwr.supercore.heartbeat"):
        replace_private(f"{module}.HEARTBEAT_DEFAULT_INTERVAL", lambda _: HEARTBEAT_SECONDS)
    replace_private("flwr.supernode.start_client_internal.time", lambda _: _Impatient)
    state = "flwr.supernode.nodestate.in_memory_nodestate.InMemoryNodeState"
    replace_private(f"{state}.finish_task", _forgetting)
    find_private("flwr.supernode.cli.flower_supernode")()


def _forgetting(finish_task: Any) -> Any:
    """The same, and only the last tasks that were finished stay: each message is one."""
    finished: deque[int] = deque()

    def finish(self: Any, task_id: int, *args: Any, **options: Any) -> Any:
        done = finish_task(self, task_id, *args, **options)
        if done:
            with self.lock_task_store:
                finished.append(task_id)
                while len(finished) > FINISHED_TASKS:
                    self.task_store.pop(finished.popleft(), None)
        return done

    return finish


class _Impatient:
    """The part of ``time`` that Flower's loop at a site uses."""

    asked = -ASKED_SECONDS  # when a message was last being answered

    @classmethod
    def sleep(cls, seconds: float) -> None:
        """Sleep, but not for long: short naps wait for the site's own answer, long ones for a message."""
        now = time.monotonic()
        if seconds < FLOWER_SLEEP:
            cls.asked = now
            time.sleep(min(seconds, OWN_ANSWER_SLEEP))
        else:
            longest = SLEEP_WHILE_ASKED if now - cls.asked < ASKED_SECONDS else LONGEST_SLEEP
            time.sleep(min(seconds, longest))


def superexec() -> None:
    """Flower's starter of programs."""
    _show_secret()
    if SITE_VARIABLE in os.environ and hasattr(os, "fork"):
        executor = "flwr.supercore.superexec.executor.subprocess_executor.SubprocessExecutor"
        replace_private(f"{executor}.launch", _forking)
    find_private("flwr.supercore.cli.flower_superexec")()


def _forking(launch: Any) -> Any:
    """A process per message as before, but forked from one that has everything in memory already."""
    from onefold.federated.flower.folders import SiteFolder
    from onefold.federated.flower.site_app import warm

    # In memory before the fork, so that no message waits for it.
    find_private("flwr.supernode.runtime.run_clientapp.install_from_fab")
    find_private("flwr.supernode.cli.flwr_clientapp")
    accepted = find_private("flwr.supercore.superexec.executor.types.LaunchResult").accepted
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them

    def fork(self: Any, spec: Any) -> Any:
        if spec.task_type != "flwr-clientapp" or not spec.insecure:
            return launch(self, spec)
        warm(SiteFolder(Path(os.environ[SITE_VARIABLE])))
        if os.fork() == 0:
            gc.disable()  # it ends with its answer: looking for garbage would copy the memory it shares
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            sys.argv = ["flwr-clientapp", "--runtime-api-address", spec.runtime_api_address, "--insecure"]
            sys.argv += ["--token", spec.token, "--parent-pid", str(spec.parent_pid)]
            try:
                clientapp()
            finally:
                os._exit(0)
        return accepted()

    return fork


def serverapp() -> None:
    """The run at the server."""
    _show_secret()
    find_private("flwr.superlink.cli.flwr_serverapp")()


def clientapp() -> None:
    """One message at a site, answered by the site's own application whatever the server sent along."""

    def own_application(*_: Any, **__: Any) -> Any:
        def answering(*_: Any) -> Any:
            from onefold.federated.flower.site_app import answer_message

            return answer_message

        return answering

    runtime = "flwr.supernode.runtime.run_clientapp"
    replace_private(f"{runtime}.install_from_fab", lambda _: lambda *_, **__: None)
    replace_private(f"{runtime}.get_load_client_app_fn", lambda _: own_application)
    _show_secret()
    find_private("flwr.supernode.cli.flwr_clientapp")()


def control() -> None:
    """Flower's command for registering sites and starting the run: one call per line of standard input."""
    app = find_private("flwr.cli.app.app")
    _show_secret()
    for line in sys.stdin:
        try:
            app(json.loads(line), standalone_mode=False)
        except (Exception, SystemExit) as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)  # noqa: T201
        print(END_OF_ANSWER, flush=True)  # noqa: T201


def refused() -> None:
    """Programs a federation has no use for."""
    sys.exit("onefold: this program of Flower is not used here")


PROGRAMS: dict[str, Callable[[], None]] = {
    "flower-superlink": superlink,
    "flower-supernode": supernode,
    "flower-superexec": superexec,
    "flwr-serverapp": serverapp,
    "flwr-clientapp": clientapp,
    "flwr": control,
    **dict.fromkeys(("flwr-agentapp", "flwr-model", "flwr-connector", "flwr-simulation"), refused),
}


def _end_with_parent() -> None:
    """Stop when the process named in the environment is no longer our parent."""
    parent = os.environ.pop(PARENT_VARIABLE, "")
    if not parent.isdigit():
        return

    def watch() -> None:
        while os.getppid() == int(parent):
            time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    program = sys.argv.pop(1)
    sys.argv[0] = program
    # The folder of this file must not shadow packages.
    sys.path.pop(0)
    _end_with_parent()
    PROGRAMS.get(program, refused)()
