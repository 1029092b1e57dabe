"""Images in Parquet files."""
