"""The HTTP/1.1 server: framing, header limits, minimum transfer rate, multipart."""
