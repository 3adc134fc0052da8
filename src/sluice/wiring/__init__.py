"""The composition root: settings in, services out. The only package that names concrete engines; nothing is decided here but which."""
