-- Where there is such a task already, its row is locked and the new version is taken then. The
-- column was carries IfAbsent into that, as -1, and KeepDue, as -2, and out of it whether there may be a log to delete, as 8.
WITH {clock},
put AS (
    INSERT INTO {s}.hw_tasks AS t
        (filed, due, version, lease, topic, attempts, slot, state, was, id, node, error, span, callback, payload, created)
    SELECT k.at, k.at, nextval('{s}.hw_number'), 0, k.topic, 0, k.slot, 1, k.over, k.id, '', '', 0, coalesce(k.callback, ''), coalesce(k.payload, ''), k.now
    {given}
    ON CONFLICT (topic, id) DO UPDATE SET
        filed = CASE WHEN excluded.was = -2 AND t.state = 1 THEN t.filed WHEN excluded.was = -2 AND t.state = 2 THEN t.due ELSE excluded.filed END,
        moved = excluded.was = -2 AND t.state = 1 AND t.moved,
        due = CASE WHEN excluded.was = -2 AND t.state IN (1, 2) THEN t.due ELSE excluded.due END, version = nextval('{s}.hw_number'), lease = 0, attempts = 0,
        was = t.state + CASE WHEN t.attempts + t.calls > 0 OR t.error <> '' THEN 8 ELSE 0 END, state = 1, node = '', error = '', callback = excluded.callback, payload = excluded.payload,
        created = excluded.created, calls = 0, failures = 0
    WHERE NOT (excluded.was = -1 AND t.state IN (1, 2, 4))
    RETURNING t.topic, t.id, greatest(t.was, 0) AS was, t.version, t.due
),
gone AS (SELECT topic, id FROM put WHERE was >= 8),
{forget}
-- A running task that keeps its time may be filed in the past, as in {announce}.
SELECT topic, id, was & 7, version, due FROM put, clock WHERE was & 7 <> 2 OR due > now - 1000 OR nextval('{s}.hw_past') > 0
