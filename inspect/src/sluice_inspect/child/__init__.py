"""What runs inside a child process; the server itself imports only `protocol` and `shared_buffer`."""
