"""A plain Flower app that exchanges messages of the same size: what Flower itself does in a second.

Its ClientApp computes nothing and imports nothing but Flower and numpy. Flower's own programs run it, with
Flower's own settings, over TLS on the loopback address.
"""

import json
import os
import subprocess
import sysconfig
import time
from pathlib import Path
from typing import Any

from onefold.exceptions import OnefoldError
from onefold.federated.flower.folders import ServerFolder
from onefold.federated.flower.processes import free_port

START_SECONDS = 240.0

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "plain-load"
version = "1.0.0"
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "benchmark"

[tool.flwr.app.components]
serverapp = "plain_load.server_app:app"
clientapp = "plain_load.client_app:app"

[tool.flwr.app.config]
sites = 1
seconds = 10.0
rows = 1
together = 1
features = 1
classes = 1
out = ""
"""

CLIENT = """\
import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query()
def answer(message, context):
    rows = len(message.content["rows"].to_numpy_ndarrays()[0])
    numbers = np.zeros((rows, int(context.run_config["classes"])))
    return Message(RecordDict({"numbers": ArrayRecord([numbers])}), reply_to=message)
"""

SERVER = """\
import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    config = context.run_config
    while len(nodes := list(grid.get_node_ids())) < int(config["sites"]):
        time.sleep(0.5)
    one = int(config["rows"])
    measure(grid, nodes, config, one, 0.0)  # every site has answered once
    found = {
        "single": measure(grid, nodes, config, one, float(config["seconds"])),
        "together": measure(grid, nodes, config, one * int(config["together"]), float(config["seconds"])),
    }
    part = Path(str(config["out"]) + ".part")
    part.write_text(json.dumps(found))
    part.replace(str(config["out"]))


def measure(grid, nodes, config, rows, seconds):
    # Two messages under way at every site: Flower answers one at a time, the next is there already.
    start, done, waiting, sent = time.monotonic(), 0, {}, 0
    while not done or waiting or time.monotonic() - start < seconds:
        while len(waiting) < 2 * len(nodes) and (not sent or time.monotonic() - start < seconds):
            content = RecordDict({"rows": ArrayRecord([np.zeros((rows, int(config["features"])))])})
            messages = [Message(content, dst_node_id=node, message_type="query") for node in nodes]
            for number in grid.push_messages(messages):
                waiting[str(number)] = sent
            sent += 1
        for reply in grid.pull_messages(list(waiting)):
            if reply.has_error():
                raise RuntimeError(f"Flower error {reply.error.code}")
            exchange = waiting.pop(str(reply.metadata.reply_to_message_id))
            done += exchange not in waiting.values()
        time.sleep(0.1)
    return {"exchanges": done, "seconds": time.monotonic() - start}
"""


def plain_rates(
    root: Path, server: ServerFolder, settings: dict[str, Any], seconds: float
) -> dict[str, dict[str, float]]:
    """Exchanges with all sites, of one query each and of many together, and the seconds they took."""
    app = _write_app(root)
    home = root / "flower"
    home.mkdir()
    port, out = free_port(), root / "rates.json"
    ca = json.dumps(str(server.ca.resolve()))
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "own"\n[superlink.own]\naddress = "127.0.0.1:{port}"\n'
        f"root-certificates = {ca}\n"
    )
    scripts = sysconfig.get_path("scripts")
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", "")]),
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }

    def start(program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        command = [f"{scripts}/{program}", "--host", "127.0.0.1", *arguments]
        with (root / "flower.log").open("ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)

    tls = ("--ssl-ca-certfile", server.ca, "--ssl-certfile", server.certificate, "--ssl-keyfile", server.key)
    own = ("--port", str(port), "--disable-runtime-dependency-installation")
    started = [start("flower-superlink", *map(str, tls), *own)]
    try:
        for _ in range(settings["sites"]):
            where = ("--superlink", f"127.0.0.1:{port}", "--root-certificates", str(server.ca))
            started.append(start("flower-supernode", *where, "--port", str(free_port())))
        config = {**settings, "seconds": float(seconds), "out": str(out)}
        text = " ".join(f"{name}={json.dumps(value)}" for name, value in config.items())
        run = [f"{scripts}/flwr", "run", str(app), "own", "--run-config", text]
        deadline = time.monotonic() + START_SECONDS + 4 * seconds
        done: subprocess.CompletedProcess[str] | None = None
        while not out.exists():
            if time.monotonic() > deadline:
                raise OnefoldError("the plain Flower app did not end in time")
            if done is None or done.returncode != 0:  # the SuperLink may not be up yet
                done = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
            time.sleep(0.5)
        return dict(json.loads(out.read_text()))
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(60)


def _write_app(root: Path) -> Path:
    app = root / "app"
    (app / "plain_load").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PROJECT)
    (app / "plain_load" / "__init__.py").write_text("")
    (app / "plain_load" / "client_app.py").write_text(CLIENT)
    (app / "plain_load" / "server_app.py").write_text(SERVER)
    return app
