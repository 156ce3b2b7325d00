"""The warehouse in SQL: tables, views, macros, migrations, statements and reference data, as files."""
