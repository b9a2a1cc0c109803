"""Document 004: gradient-free federated learning by space folding, beside federated gradient descent."""  # noqa: A005
