"""The text of documents, and what is found in it: words, languages, dates and identifiers."""
