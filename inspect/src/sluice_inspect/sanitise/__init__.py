"""Sanitising: taking metadata, active content or all but pixels out of a file, as it is done in a locked child."""
