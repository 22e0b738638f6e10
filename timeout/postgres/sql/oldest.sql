-- For how long the oldest transaction of the database has been open that keeps dead rows from being removed, in
-- microseconds. One without a snapshot and a number keeps none. A role without pg_read_all_stats sees only its own.
SELECT coalesce(floor(extract(epoch FROM max(clock_timestamp() - t.since)) * 1000000), 0)::bigint
FROM (
    SELECT a.xact_start AS since FROM pg_stat_activity a
    WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
        AND a.backend_type <> 'autovacuum worker' AND a.query !~* '^\s*vacuum'
    UNION ALL
    SELECT p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()
) t
