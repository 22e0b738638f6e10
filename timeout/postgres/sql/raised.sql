-- The mark of a connection: it has raised the sequence, or found that another has. See raise.sql.
SELECT pg_advisory_lock_shared($1, '{s}.hw_number'::regclass::oid::int)
