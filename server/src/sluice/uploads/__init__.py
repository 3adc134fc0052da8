"""The upload pipeline. Read `pipeline` first: the stages in order, straight down the page. Knows nothing of HTTP."""
