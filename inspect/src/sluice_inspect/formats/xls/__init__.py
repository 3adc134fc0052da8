"""Excel workbooks before Excel 2007 (.xls, .xlt, .xla)."""
