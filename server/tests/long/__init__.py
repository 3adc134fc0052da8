"""Long trials, or trials that CI cannot run: each has a make target, and the suite has its short form."""
