"""The stages of an upload, one module each, independent of one another. Their order is in `uploads.pipeline`."""
