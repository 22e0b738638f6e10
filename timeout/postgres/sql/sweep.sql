-- What is done or removed, and has been kept for its time.
DELETE FROM {s}.hw_tasks t
WHERE t.state IN (3, 5) AND t.ctid = ANY (ARRAY(
    SELECT o.place
    FROM unnest($1::integer[], $2::bigint[]) AS k (topic, retain), (VALUES (3::smallint), (5::smallint)) AS s (state), LATERAL (
        SELECT t.ctid AS place
        FROM {s}.hw_tasks t
        WHERE t.topic = k.topic AND t.state = s.state AND t.at <= {now} - k.retain
        ORDER BY t.at, t.id
        LIMIT $3
        FOR UPDATE SKIP LOCKED
    ) o
    LIMIT $3))
