"""Files: their records, their download links, and what may be done with them. How an upload is checked lives in `uploads`."""
