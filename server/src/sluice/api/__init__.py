"""The HTTP edge: the only place that knows HTTP. What a request means is decided in the services that it calls."""
