-- The tables of an export as views. DuckDB looks for the files where it runs, or in
-- file_search_path; several exports side by side: '*/packets-*.parquet' and so on.
CREATE OR REPLACE VIEW packets AS SELECT * FROM read_parquet('packets-*.parquet');
CREATE OR REPLACE VIEW messages AS SELECT * FROM read_parquet('messages-*.parquet');
CREATE OR REPLACE VIEW recoveries AS SELECT * FROM read_parquet('recoveries-*.parquet');
CREATE OR REPLACE VIEW findings AS SELECT * FROM read_parquet('findings-*.parquet');
CREATE OR REPLACE VIEW flows AS SELECT * FROM read_parquet('flows-*.parquet');
