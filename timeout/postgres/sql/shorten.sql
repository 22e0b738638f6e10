-- Leases that end later than they can have been made to: the clock was stepped back since then.
-- An action time stays what it is.
WITH {clock}
UPDATE {s}.hw_tasks t SET filed = clock.now + t.span
FROM clock
WHERE t.state = 2 AND t.ctid = ANY (ARRAY(
    SELECT o.place
    FROM unnest($1::integer[]) AS k (topic), LATERAL (
        SELECT t.ctid AS place
        FROM {s}.hw_tasks t
        WHERE t.topic = k.topic AND t.state = 2 AND t.filed > (SELECT now FROM clock) AND t.filed > (SELECT now FROM clock) + t.span
        ORDER BY t.filed, t.id
        LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) o
    LIMIT $2))
