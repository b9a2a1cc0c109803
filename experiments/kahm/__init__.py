"""Kernel affine hull machines: classification and computing time."""
