-- A crash or a failover may take back the last numbers. So the next number is far above the last one that the server
-- knows, and above the clock in microseconds. It is a second above each at most: numbers that run ahead of the clock
-- would be given again after a failover. With the lock, nobody sets the sequence back. True means done. A role without
-- the rights for that uses the sequence as it is.
SELECT CASE
    WHEN current_setting('transaction_read_only')::boolean THEN false
    WHEN NOT has_sequence_privilege('{s}.hw_number', 'UPDATE') THEN true
    WHEN NOT has_sequence_privilege('{s}.hw_number', 'USAGE, SELECT') THEN true
    WHEN pg_advisory_xact_lock($1, '{s}.hw_number'::regclass::oid::int)::text IS NULL THEN false -- it waits
    ELSE setval('{s}.hw_number', 1048576 + greatest(
        coalesce(pg_sequence_last_value('{s}.hw_number'), 0),
        floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) > 0
END
