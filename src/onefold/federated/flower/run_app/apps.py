"""The run at the server, and a stand-in: sites answer with their own application."""

from flwr.clientapp import ClientApp

from onefold.federated.flower.server_app import app as server

client = ClientApp()

__all__ = ["client", "server"]
