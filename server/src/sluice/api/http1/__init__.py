"""What guards the wire: framing, header limits, minimum transfer rate, multipart."""
