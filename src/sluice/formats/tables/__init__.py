"""What the kinds of tables share: the footer, pages and values of Parquet and the headers that they are written in. Which file is which is in `kinds`."""
