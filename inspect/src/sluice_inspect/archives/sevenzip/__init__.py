"""7z archives: headers, coders, and the walk through their files."""
