"""What the kinds of archives and compressed streams share: strict readers, one walk through nested archives, one budget. Which file is which is in `kinds`."""
