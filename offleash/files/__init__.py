"""Users' files to rows: lines, JSON, CSV and Parquet, archives, and which column is which."""
