"""Small tools that know nothing of the product. Imports nothing of the other packages."""
