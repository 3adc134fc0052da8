"""The tests are one package, so that two folders may hold files of the same name. Production code never imports it."""
