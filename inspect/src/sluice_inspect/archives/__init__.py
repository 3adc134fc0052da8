"""Strict readers of archives and compressed streams, and one walk through archives nested in archives."""
