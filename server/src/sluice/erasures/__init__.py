"""Erasures: all files of a person deleted and purged at once, and the person's names blanked wherever they are kept."""
