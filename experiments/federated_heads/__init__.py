"""Every way to learn one classifier from many sites in one round, side by side on the same splits."""
