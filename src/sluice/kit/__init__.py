"""Small values that every floor may use and that know nothing of the product."""
