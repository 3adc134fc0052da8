"""Word documents before Word 2007 (.doc, .dot)."""
