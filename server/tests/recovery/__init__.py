"""What is left when a process dies in the middle of its work, and how the next start recovers."""
