"""Are the judgements of files right? Each kind alone, and all together through `check_file`. The service around them is tested elsewhere."""
