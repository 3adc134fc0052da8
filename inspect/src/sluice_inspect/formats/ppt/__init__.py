"""PowerPoint presentations before PowerPoint 2007 (.ppt, .pps, .pot)."""
