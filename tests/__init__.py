"""The tests, as one package: two folders may then hold a file of the same name. No production code imports from here."""
