"""onefold: learning from data that may not leave its owner, in one round and in closed form."""

__version__ = "0.1.0"
