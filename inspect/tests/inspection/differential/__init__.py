"""Archives with odd headers, and what widely used readers make of them."""
