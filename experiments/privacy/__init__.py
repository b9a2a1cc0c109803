"""Privacy of entries and of whole records, measured."""
