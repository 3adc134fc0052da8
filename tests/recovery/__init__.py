"""What is left when a process dies in the midst of its work, and what the next start makes of it."""
