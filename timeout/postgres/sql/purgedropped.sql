-- The tasks of topics that were dropped.
DELETE FROM {s}.hw_tasks t
WHERE t.ctid = ANY (ARRAY(
    SELECT o.place
    FROM {s}.hw_dropped d, LATERAL (
        SELECT t.ctid AS place FROM {s}.hw_tasks t WHERE t.topic = d.no LIMIT $1 FOR UPDATE SKIP LOCKED
    ) o
    LIMIT $1))
