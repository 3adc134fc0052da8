"""The composition root: turns settings into services. The only package that names concrete engines."""
