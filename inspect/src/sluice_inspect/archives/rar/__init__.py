"""RAR archives: headers of both generations, and the walk through their members."""
