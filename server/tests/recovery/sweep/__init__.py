"""A server that is killed again and again while clients use it, and what must hold of it afterwards."""
