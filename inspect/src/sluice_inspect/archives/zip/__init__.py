"""ZIP archives: records as they stand in the file, and archives whose layout was checked."""
