"""The scanner through the whole service: what is let in, what is refused, and what happens to stored files later."""
