"""Local web pages: make a private table, watch over a site and over a federation (extra ``serve``).

The pages are for this machine only: they listen on loopback, ask for a token, and keep nothing unless asked.
"""

from onefold.serve.app import create_app, serve

__all__ = ["create_app", "serve"]
