"""One module per format. Each declares a `Kind`; `sluice.formats.registry` lists them."""
