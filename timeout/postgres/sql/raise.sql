-- A crash or a failover may take back the last numbers. So the next number is far above the last one that the server
-- knows, and above the clock in microseconds. It is a second above each at most: numbers that run ahead of the clock
-- would be given again after a failover. So one connection raises it for all: its flag is a shared lock. A server loses
-- numbers only together with its connections and their marks. With the first lock, nobody sets the sequence back, and
-- nobody sees the flag before the raise is on disk. $3 says whether the connection takes the flag.
-- A role without the rights for that uses the sequence as it is.
SELECT CASE
    WHEN $3::boolean AND answer IN ('known', 'raised')
    THEN 'marked' || pg_advisory_lock_shared($2, '{s}.hw_number'::regclass::oid::int)::text
    ELSE answer
END
FROM (SELECT CASE
    WHEN current_setting('transaction_read_only')::boolean THEN 'later'
    WHEN NOT has_sequence_privilege('{s}.hw_number', 'UPDATE') THEN 'never'
    WHEN NOT has_sequence_privilege('{s}.hw_number', 'USAGE, SELECT') THEN 'never'
    WHEN pg_advisory_xact_lock($1, '{s}.hw_number'::regclass::oid::int)::text IS NULL THEN 'later' -- it waits
    WHEN EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND classid = $2::int::oid AND objid = '{s}.hw_number'::regclass::oid
    ) THEN 'known'
    WHEN setval('{s}.hw_number', 1048576 + greatest(
        coalesce(pg_sequence_last_value('{s}.hw_number'), 0),
        floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint)) > 0 THEN 'raised'
END AS answer OFFSET 0) AS raise
