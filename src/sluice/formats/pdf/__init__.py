"""How a PDF is taken apart: its bytes, its streams, its damage, its look. The kind is in `kinds.pdf`."""
