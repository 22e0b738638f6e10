-- What is older in the log than it has to be, and all of topics that were dropped.
WITH {clock}
DELETE FROM {s}.hw_executions x
WHERE x.ctid = ANY (ARRAY(
    SELECT o.place
    FROM (SELECT * FROM unnest($1::integer[], $2::bigint[]) AS k (topic, keep) UNION ALL SELECT no, 0 FROM {s}.hw_dropped) k, LATERAL (
        SELECT x.ctid AS place
        FROM {s}.hw_executions x
        WHERE x.topic = k.topic AND x.at <= (SELECT now FROM clock) - k.keep
        ORDER BY x.at
        LIMIT $3
    ) o
    LIMIT $3))
