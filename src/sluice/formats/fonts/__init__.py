"""What the kinds of fonts share: the tables of a font, how they are packed for the web, a small font. Which file is which is in `kinds`."""
