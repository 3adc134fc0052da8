"""Previews: the first page of a document, or the picture, in small, as it is drawn in a locked child."""
