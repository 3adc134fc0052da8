"""The web console: pages for people, rendered on the server. They call the same services as the API and hold no SQL."""
