-- What is done, removed or dead, and has been kept for its time. The index ends at a time of clock. It would not
-- end at one of clock_timestamp, since that is another for each row.
WITH {clock},
gone AS (
    DELETE FROM {s}.hw_tasks t
    WHERE t.state IN (3, 4, 5) AND t.ctid = ANY (ARRAY(
        SELECT o.place
        FROM (VALUES (3::smallint), (5::smallint), (4::smallint)) AS s (state), unnest($1::integer[], $2::bigint[], $3::bigint[]) AS k (topic, ended, dead), LATERAL (
            SELECT t.ctid AS place
            FROM {s}.hw_tasks t
            WHERE t.topic = k.topic AND t.state = s.state AND t.filed <= (SELECT now FROM clock) - CASE WHEN s.state = 4 THEN k.dead ELSE k.ended END
            ORDER BY t.filed, t.id
            LIMIT $4
            FOR UPDATE SKIP LOCKED
        ) o
        LIMIT $4))
    RETURNING t.topic, t.id, t.state = 4 AS dead
),
{forget}
SELECT topic, dead, count(*) FROM gone GROUP BY topic, dead
