-- Before these times there is no live row: see the type front. It counts as long as nobody has filed a task in the
-- past, and as the clock has not been stepped back.
front AS MATERIALIZED (
    SELECT CASE WHEN k.known THEN k.f[3] ELSE 0 END AS waiting, CASE WHEN k.known THEN k.f[4] ELSE 0 END AS running, CASE WHEN k.known THEN k.f[5] ELSE 0 END AS ahead
    FROM (SELECT f.f, f.f[1] = coalesce(pg_sequence_last_value('{s}.hw_past'), 0) AND f.f[2] <= clock.now AS known FROM (SELECT {f}::bigint[] AS f) f, clock) k
)