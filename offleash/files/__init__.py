"""Reading users' files: lines, JSON, CSV, Parquet and zip archives as rows, and which column is which."""
