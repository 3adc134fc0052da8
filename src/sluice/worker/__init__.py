"""The background: sweeps over rows that are due. Work is a query over columns, not a queue; any number of workers may run."""
