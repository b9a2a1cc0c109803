"""What Flower calls an app: a few lines that name the run at the server.

Flower sends it to the sites with every run; they answer with their own application and do not unpack it.
"""

from __future__ import annotations

from pathlib import Path

from onefold.federated.flower.folders import write_private

__all__ = ["write_app"]

PROJECT = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "onefold-federation"
version = "1.0.0"
description = "Queries to the sites of a federation, one number per row and class back."
license = "Apache-2.0"
dependencies = []

[tool.hatch.build.targets.wheel]
packages = ["."]

[tool.flwr.app]
publisher = "onefold"

[tool.flwr.app.components]
serverapp = "onefold_federation.apps:server"
clientapp = "onefold_federation.apps:client"

[tool.flwr.app.config]
"""

APPS = '''\
"""The run at the server, and a stand-in: sites answer with their own application."""

from flwr.clientapp import ClientApp

from onefold.federated.flower.server_app import app as server

client = ClientApp()

__all__ = ["client", "server"]
'''


def write_app(folder: Path) -> Path:
    """Write the app into an existing folder."""
    package = folder / "onefold_federation"
    package.mkdir(mode=0o700, exist_ok=True)
    write_private(folder / "pyproject.toml", PROJECT.encode())
    write_private(package / "__init__.py", b'"""A federation."""\n')
    write_private(package / "apps.py", APPS.encode())
    return folder
