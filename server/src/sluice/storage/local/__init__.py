"""The local object store: a folder on this machine."""
