"""Document 001: membership-mappings and transfer from a private source."""
