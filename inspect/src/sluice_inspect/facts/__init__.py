"""The facts and flags of a file by the names of `catalogue`: cheap, and measured whatever the examination said."""
