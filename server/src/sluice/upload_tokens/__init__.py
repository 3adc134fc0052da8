"""Upload tokens: what a tenant gives to a page or an app so that it can upload a few files into one context."""
